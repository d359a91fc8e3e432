"""The plain cycle: one pod, decided about by the plugins of its profile."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.runtime.clock import stopwatch
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.cycles.base import look_in_turns, must_look
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.diagnosis import Diagnosis, KnownRefusal
from fairlead.scheduler.framework import Nominate
from fairlead.scheduler.outcomes import Outcomes
from fairlead.scheduler.profile_runtime import ProfileRuntime
from fairlead.scheduler.queue import QueuedPod, SchedulingQueue

#: Told of every pod (`namespace/name`) that gets a node: node → plugin → weighted score.
ScoreObserver = Callable[[str, dict[str, dict[str, int]]], None]


class PodCycle:
    """Takes every pod."""

    def __init__(self, model: ClusterModel, queue: SchedulingQueue, outcomes: Outcomes) -> None:
        self._model, self._queue, self._outcomes = model, queue, outcomes
        #: It costs a little at each decision.
        self.score_observer: ScoreObserver | None = None

    async def attempt(self, queued: QueuedPod) -> bool:
        runtime = self._model.profiles[queued.profile.name]
        known = runtime.refusals.find(queued.pod, queued.request)
        if known is not None:
            self._asked_for_room(queued, "Unschedulable", stopwatch())
            self._outcomes.no_room(queued, known)
            return True
        if must_look(queued, runtime) and not await self._look(queued, runtime):
            return True
        decision = runtime.decider.decide(queued.request)
        if isinstance(decision, Chosen):
            if self.score_observer is not None:
                self.score_observer(queued.key, runtime.decider.scores(queued.request))
            self._outcomes.place(queued, decision)
            return True
        await self._post_filter(queued, runtime, decision.found)
        return True

    async def _look(self, queued: QueuedPod, runtime: ProfileRuntime) -> bool:
        """Have found out what takes long; False if the pod is gone then, or somebody else has bound it."""
        self._queue.track_in_flight(queued)
        await look_in_turns(queued, runtime)
        is_current = self._queue.get(queued.key) is queued
        if is_current:
            self._queue.remove(queued.key)  # it is decided about by what there is now
        return is_current

    async def _post_filter(self, queued: QueuedPod, runtime: ProfileRuntime, found: Diagnosis) -> None:
        """Have room made, which may take a while: the queue remembers what happens to the pod."""
        began, position = stopwatch(), self._model.snapshot.position
        pod, request = queued.pod, queued.request
        self._queue.track_in_flight(queued)
        outcome = await runtime.post_filter_in_turns(pod, request, found)
        if self._queue.get(queued.key) is not queued:  # it is gone, or somebody else has bound it
            return
        if isinstance(outcome, Nominate):
            self._asked_for_room(queued, "Success", began)
            self._outcomes.refused(queued, found, outcome)
            return
        refusal = KnownRefusal.of(found, outcome)
        if self._model.snapshot.position == position:
            runtime.refusals.keep(pod, request, refusal)
        self._asked_for_room(queued, "Unschedulable", began)
        self._outcomes.no_room(queued, refusal)

    def _asked_for_room(self, queued: QueuedPod, status: str, began: float) -> None:
        if (metrics := self._outcomes.metrics) is not None:
            metrics.ran("PostFilter", status, queued.profile.name, stopwatch() - began)
