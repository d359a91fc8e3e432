"""Plugins as another package would bring them, one for each extension point; annotations say what they shall do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.api.errors import Forbidden
from fairlead.api.scheduling import Pod
from fairlead.scheduler.framework import (
    EventKind,
    Handle,
    Nominate,
    NoRoom,
    Plugin,
    PluginError,
    Rejected,
)
from fairlead.scheduler.plugins.default_binder import DefaultBinder
from fairlead.scheduler.scheduling_request import SchedulingRequest

if TYPE_CHECKING:
    from fairlead.scheduler.diagnosis import Diagnosis
    from fairlead.scheduler.profile_runtime import ProfileRuntime

#: What the plugins were asked, in order; whoever plays a story clears it.
CALLS: list[str] = []


class SpareRoom(Plugin):
    """Knows of room on the node that a pod's label `spare` names."""

    name = "SpareRoom"

    def post_filter(
        self, pod: Pod, request: SchedulingRequest, found: Diagnosis, runtime: ProfileRuntime
    ) -> Nominate | NoRoom:
        spare = pod.metadata.labels.get("spare", "")
        if spare == "never":
            return NoRoom("there will never be room", is_final=True)
        return Nominate(spare) if spare else NoRoom("nothing to spare")


class Licence(Plugin):
    """Fetches a licence before a pod is bound, and gives it back if nothing comes of that."""

    name = "Licence"
    events = EventKind.NODE_LABELS

    def reserve(self, pod: Pod, node: str, handle: Handle) -> None:
        CALLS.append(f"{self.name} reserve {pod.metadata.name}")
        if pod.metadata.labels.get("licence") == "unreservable":
            raise RuntimeError("no reservation")

    def unreserve(self, pod: Pod, node: str, handle: Handle) -> None:
        CALLS.append(f"{self.name} unreserve {pod.metadata.name}")

    def pre_binds(self, pod: Pod, node: str, handle: Handle) -> bool:
        return "licence" in pod.metadata.labels

    async def pre_bind(self, pod: Pod, node: str, handle: Handle) -> None:
        CALLS.append(f"{self.name} pre_bind {pod.metadata.name}")
        row = handle.snapshot.row_of(node)
        assert row is not None
        labels = handle.snapshot.labels("licensed")
        if labels.codes[row] >= 0:
            return
        match pod.metadata.labels["licence"]:
            case "rejected":
                raise Rejected("node(s) had no licence")
            case "late":
                raise PluginError("the licence server is busy")
            case "broken":
                raise KeyError("licence")


class SecondLicence(Licence):
    name = "SecondLicence"


class OwnBinder(DefaultBinder):
    """Binds the pods that have the label `binder`, and no others."""

    name = "OwnBinder"

    async def bind(self, pod: Pod, node: str, handle: Handle) -> bool:
        CALLS.append(f"{self.name} bind {pod.metadata.name}")
        match pod.metadata.labels.get("binder"):
            case None:
                return False
            case "forbidden":
                raise Forbidden("not on my watch")
            case "rejected":
                raise Rejected("node(s) would not have it")
        return await super().bind(pod, node, handle)
