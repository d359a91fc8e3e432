"""Evicts less important pods where that makes room (DefaultPreemption, worked out in `scheduler/preemption.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from fairlead.api.scheduling import Pod
from fairlead.api.strict import check
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.framework import Nominate, NoRoom, Plugin
from fairlead.scheduler.scheduling_request import SchedulingRequest

if TYPE_CHECKING:
    from fairlead.scheduler.diagnosis import Diagnosis
    from fairlead.scheduler.profile_runtime import ProfileRuntime


class EnoughCandidates(msgspec.Struct, frozen=True):
    """How many nodes with victims are enough to choose from, where it takes long to find them.

    Source: GetOffsetAndNumCandidates.
    """

    percentage: int = 10
    absolute: int = 100

    def of(self, nodes: int) -> int:
        """Of so many that may come into question."""
        return min(max(nodes * self.percentage // 100, self.absolute), nodes)


class PreemptionArguments(Arguments):
    """How many candidates are enough."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class DefaultPreemption(Plugin):
    name = "DefaultPreemption"
    arguments = PreemptionArguments
    repeats_post_filter = True

    @classmethod
    def configured(cls, args: PreemptionArguments) -> Self:
        share, count = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        percentage, absolute = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
        check(0 <= share <= 100, percentage, share, "not in valid range [0, 100]")
        check(count >= 0, absolute, count, "not in valid range [0, inf)")
        check(share > 0 or count > 0, percentage, share, f"cannot be zero at the same time as {absolute}")
        return cls(EnoughCandidates(share, count))

    def __init__(self, enough: EnoughCandidates | None = None) -> None:
        self.enough = enough or EnoughCandidates()

    def post_filter(
        self, pod: Pod, request: SchedulingRequest, found: Diagnosis, runtime: ProfileRuntime
    ) -> Nominate | NoRoom:
        return runtime.preemptor.make_room(pod, request, found, self.enough)

    async def post_filter_in_turns(
        self, pod: Pod, request: SchedulingRequest, found: Diagnosis, runtime: ProfileRuntime
    ) -> Nominate | NoRoom:
        search = runtime.preemptor.search(pod, request, found, self.enough)
        if isinstance(search, NoRoom):
            return search
        await search.run()
        return runtime.preemptor.outcome(search)
