"""Stands where DynamicResources does: there are no resource claims here, and it says so (default since 1.34)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fairlead.api.scheduling import Pod
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.framework import NoRoom, Plugin
from fairlead.scheduler.scheduling_request import SchedulingRequest

if TYPE_CHECKING:
    from fairlead.scheduler.diagnosis import Diagnosis
    from fairlead.scheduler.profile_runtime import ProfileRuntime

NO_CLAIMS: Final = "no new claims to deallocate"
#: After an outright refusal it misses the state that it would have left behind: an error, after which nobody is asked.
NOT_FOUND: Final = "not found"


class DynamicResourcesArguments(Arguments):
    filter_timeout: str = "10s"
    binding_timeout: str = "600s"


class DynamicResources(Plugin):
    name = "DynamicResources"
    arguments = DynamicResourcesArguments
    repeats_post_filter = True

    def post_filter(self, pod: Pod, request: SchedulingRequest, found: Diagnosis, runtime: ProfileRuntime) -> NoRoom:
        return NoRoom(NOT_FOUND, is_final=True) if found.outright else NoRoom(NO_CLAIMS)
