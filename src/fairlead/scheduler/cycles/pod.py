"""The plain cycle: one pod, decided about by the plugins of its profile."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.runtime.clock import stopwatch
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.diagnosis import KnownRefusal
from fairlead.scheduler.framework import Nominate
from fairlead.scheduler.outcomes import Outcomes
from fairlead.scheduler.queue import QueuedPod

#: Told of every pod (`namespace/name`) that gets a node: node → plugin → weighted score.
ScoreObserver = Callable[[str, dict[str, dict[str, int]]], None]


class PodCycle:
    """Takes every pod."""

    def __init__(self, model: ClusterModel, outcomes: Outcomes) -> None:
        self._model, self._outcomes = model, outcomes
        #: It costs a little at each decision.
        self.score_observer: ScoreObserver | None = None

    async def attempt(self, queued: QueuedPod) -> bool:
        runtime = self._model.profiles[queued.profile.name]
        known = runtime.refusals.find(queued.pod, queued.request)
        if known is not None:
            self._asked_for_room(queued, "Unschedulable", stopwatch())
            self._outcomes.no_room(queued, known)
            return True
        decision = runtime.decider.decide(queued.request)
        if isinstance(decision, Chosen):
            if self.score_observer is not None:
                self.score_observer(queued.key, runtime.decider.scores(queued.request))
            self._outcomes.place(queued, decision)
            return True
        began = stopwatch()
        outcome = runtime.post_filter(queued.pod, queued.request, decision.found)
        if isinstance(outcome, Nominate):
            self._asked_for_room(queued, "Success", began)
            self._outcomes.refused(queued, decision.found, outcome)
        else:
            refusal = KnownRefusal.of(decision.found, outcome)
            runtime.refusals.keep(queued.pod, queued.request, refusal)
            self._asked_for_room(queued, "Unschedulable", began)
            self._outcomes.no_room(queued, refusal)
        return True

    def _asked_for_room(self, queued: QueuedPod, status: str, began: float) -> None:
        if (metrics := self._outcomes.metrics) is not None:
            metrics.ran("PostFilter", status, queued.profile.name, stopwatch() - began)
