"""What decides for the pods of one profile, over one snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fairlead.api.scheduling import Pod
from fairlead.scheduler.decide import Decider
from fairlead.scheduler.diagnosis import Diagnosis
from fairlead.scheduler.framework import AnyPlugin, Nominate, NoRoom
from fairlead.scheduler.known_refusals import KnownRefusals
from fairlead.scheduler.nominations import Nominations
from fairlead.scheduler.preemption import Preemptor
from fairlead.scheduler.profile import Profile
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot


class ProfileRuntime(msgspec.Struct, frozen=True):
    profile: Profile
    decider: Decider
    preemptor: Preemptor
    refusals: KnownRefusals

    @classmethod
    def over(cls, snapshot: Snapshot, nominations: Nominations, profile: Profile) -> ProfileRuntime:
        decider = Decider(snapshot, profile, nominations)
        return cls(profile, decider, Preemptor(decider), KnownRefusals(decider, profile))

    def post_filter(self, pod: Pod, request: SchedulingRequest, found: Diagnosis) -> Nominate | NoRoom:
        """Have the PostFilter plugins make room for a pod that fits nowhere."""
        results = PostFilterResults(found)
        for plugin in results.still_asked(self.profile.post_filters):
            results.add(plugin.post_filter(pod, request, found, self))
        return results.outcome

    async def post_filter_in_turns(self, pod: Pod, request: SchedulingRequest, found: Diagnosis) -> Nominate | NoRoom:
        """The same, while others may have turns of the event loop."""
        results = PostFilterResults(found)
        for plugin in results.still_asked(self.profile.post_filters):
            results.add(await plugin.post_filter_in_turns(pod, request, found, self))
        return results.outcome


class PostFilterResults:
    """What the plugins said so far, in their order (RunPostFilterPlugins)."""

    def __init__(self, found: Diagnosis) -> None:
        #: Whether nobody needs to be asked any more; without nodes, nobody is asked at all.
        self._is_final = bool(found.message)
        #: Where no plugin is asked for anything, an earlier nomination is void all the same.
        self.outcome: Nominate | NoRoom = NoRoom("", clears_nomination=True)
        self._is_first = True

    def still_asked(self, plugins: Iterable[AnyPlugin]) -> Iterator[AnyPlugin]:
        """One after the other, until what one of them said is final."""
        for plugin in plugins:
            if self._is_final:
                return
            yield plugin

    def add(self, result: Nominate | NoRoom) -> None:
        before, self.outcome = self.outcome, result
        if isinstance(result, Nominate) or result.is_final:
            self._is_final = True
        elif isinstance(before, NoRoom) and not self._is_first:
            message = ", ".join(part for part in (before.message, result.message) if part)
            clears, overtaken = before.clears_nomination, before.is_overtaken
            self.outcome = NoRoom(
                message,
                clears or result.clears_nomination,
                is_overtaken=overtaken or result.is_overtaken,
                is_unfinished=before.is_unfinished or result.is_unfinished,
                gives_up=before.gives_up or result.gives_up,
            )
        self._is_first = False
