"""The plain cycle: one pod, decided about by the plugins of its profile."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.runtime.clock import stopwatch
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.diagnosis import Diagnosis
from fairlead.scheduler.framework import Nominate, NoRoom
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
            self._refuse(queued, known.found, known.outcome, stopwatch())
            return True
        decision = runtime.decider.decide(queued.request)
        if isinstance(decision, Chosen):
            if self.score_observer is not None:
                self.score_observer(queued.key, runtime.decider.scores(queued.request))
            self._outcomes.place(queued, decision)
        else:
            began = stopwatch()
            outcome = runtime.post_filter(queued.pod, queued.request, decision.found)
            runtime.refusals.keep(queued.pod, queued.request, decision.found, outcome)
            self._refuse(queued, decision.found, outcome, began)
        return True

    def _refuse(self, queued: QueuedPod, found: Diagnosis, outcome: Nominate | NoRoom, began: float) -> None:
        """`began`: when it was asked whether room can be made."""
        if (metrics := self._outcomes.metrics) is not None:
            status = "Success" if isinstance(outcome, Nominate) else "Unschedulable"
            metrics.ran("PostFilter", status, queued.profile.name, stopwatch() - began)
        self._outcomes.refused(queued, found, outcome)
