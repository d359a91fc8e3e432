"""The cycle of a gang: all of a group that wait are decided about in one go.

Where too few fit, every decision is taken back before anybody else is tried, so that nothing is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from fairlead.runtime import clock
from fairlead.runtime.turns import Turn
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.cycles.base import look_in_turns
from fairlead.scheduler.cycles.quota import QuotaCycle
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.diagnosis import Diagnosis
from fairlead.scheduler.framework import NoRoom
from fairlead.scheduler.gangs import Coscheduling, Gang, Gangs
from fairlead.scheduler.outcomes import Outcomes
from fairlead.scheduler.queue import QueuedPod, SchedulingQueue
from fairlead.scheduler.quota_gate import ALLOCATION


class Decisions(msgspec.Struct):
    """What was decided about the pods of one gang."""

    chosen: list[tuple[QueuedPod, Chosen]] = msgspec.field(default_factory=list)
    refused: list[tuple[QueuedPod, Diagnosis]] = msgspec.field(default_factory=list)


class GangCycle:
    """Takes the pods of groups, if their profile enables Coscheduling."""

    def __init__(
        self, model: ClusterModel, gangs: Gangs, queue: SchedulingQueue, outcomes: Outcomes, quota: QuotaCycle | None
    ) -> None:
        self._model, self._queue, self._outcomes, self._quota = model, queue, outcomes, quota
        gangs.subscribe(self._try_again)

    async def attempt(self, queued: QueuedPod) -> bool:
        gang = self._model.gang_of(queued.pod)
        if gang is None:
            return False
        members = (self._queue.take(key) for key in list(gang.waiting) if key != queued.key)
        together = [queued, *(member for member in members if member is not None)]
        started = self._model.started_of(gang)
        if missing := gang.missing(started + len(together)):
            self._refuse_all(together, missing, frozenset({Coscheduling.name}))
            return True
        decisions = Decisions()
        pods = (member.pod.metadata.uid for member in together)
        try:
            with self._model.snapshot.device_claims.decided_together(pods):
                is_whole = await self._decide(together, decisions)
        except Exception:  # the pod whose turn it is hears of it; nobody else may be lost
            self._cancel(decisions)
            self._put_back(together[1:])
            if self._is_current(queued):
                raise
            return True
        needed = gang.needed(self._model.started_of(gang) - len(decisions.chosen))
        if not is_whole:
            self._cancel(decisions)
            self._put_back(together)
        elif len(decisions.chosen) >= needed:
            self._start(decisions)
        else:
            self._take_back(together, decisions, gang, needed)
        return True

    async def _decide(self, together: list[QueuedPod], decisions: Decisions) -> bool:
        """One after the other, each over a snapshot in which those before count already. That may take long, so others
        have turns meanwhile; whether no member is gone then.
        """
        for queued in together:
            self._queue.track_in_flight(queued)
        turn = Turn()
        for queued in together:
            if turn.is_over:
                await asyncio.sleep(0)
                turn = Turn()
            await look_in_turns(queued, self._model.profiles[queued.profile.name])
            if not self._is_current(queued):
                return False
            if self._quota is not None and (why := self._quota.refusal(queued)):
                decisions.refused.append((queued, self._quota.diagnosis(why)))
                continue
            decision = self._model.profiles[queued.profile.name].decider.decide(queued.request)
            if isinstance(decision, Chosen):
                self._outcomes.binder.assume(queued, decision)
                decisions.chosen.append((queued, decision))
            else:
                decisions.refused.append((queued, decision.found))
        return all(map(self._is_current, together))

    def _is_current(self, queued: QueuedPod) -> bool:
        """Whether it is there, and nobody else has bound it."""
        return self._queue.get(queued.key) is queued

    def _start(self, decisions: Decisions) -> None:
        for queued, chosen in decisions.chosen:
            self._queue.remove(queued.key)
            self._outcomes.binder.start(queued, chosen.node)
        for queued, found in decisions.refused:
            if not self._held([queued], found):
                self._outcomes.refused(queued, found, NoRoom(""))

    def _take_back(self, together: list[QueuedPod], decisions: Decisions, gang: Gang, needed: int) -> None:
        self._cancel(decisions)
        found = decisions.refused[0][1]
        if not self._held(together, found):
            fitting = f"only {len(decisions.chosen)} of the {needed} pods that PodGroup {gang.key} needs would fit"
            self._refuse_all(together, f"{fitting}: {found.text('')}", found.plugins)

    def _cancel(self, decisions: Decisions) -> None:
        for queued, chosen in decisions.chosen:
            self._outcomes.binder.cancel(queued, chosen.node)

    def _put_back(self, together: Iterable[QueuedPod]) -> None:
        """Let those that are still there try again after their back-off."""
        for member in filter(self._is_current, together):
            self._outcomes.put_back(member, frozenset())

    def _held(self, together: Iterable[QueuedPod], found: Diagnosis) -> bool:
        """Let them wait for quota, if that is what they lack."""
        if self._quota is None or found.plugins != {ALLOCATION}:
            return False
        self._quota.hold(together, found.outright)
        return True

    def _refuse_all(self, together: Iterable[QueuedPod], message: str, plugins: frozenset[str]) -> None:
        for queued in together:
            self._outcomes.put_back(queued, plugins)
            self._outcomes.report_refusal(queued, message)

    def _try_again(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._queue.activate(key, clock.monotonic())
        self._outcomes.wake()
