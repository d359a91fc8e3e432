"""The quota gate's cycle: a pod that its namespace may not start is held before any node is looked at."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.runtime import clock
from fairlead.scheduler.diagnosis import Diagnosis
from fairlead.scheduler.outcomes import Outcomes
from fairlead.scheduler.queue import QueuedPod, SchedulingQueue
from fairlead.scheduler.quota_gate import ALLOCATION, QuotaGate, QuotaWaitQueue


class QuotaCycle:
    """Takes the pods that the gate refuses."""

    def __init__(self, gate: QuotaGate, waiting: QuotaWaitQueue, queue: SchedulingQueue, outcomes: Outcomes) -> None:
        self._gate, self._waiting, self._queue, self._outcomes = gate, waiting, queue, outcomes
        gate.subscribe(self._more_is_granted)

    async def attempt(self, queued: QueuedPod) -> bool:
        why = self.refusal(queued)
        if why:
            self.hold([queued], why)
        return bool(why)

    def refusal(self, queued: QueuedPod) -> str:
        """Why its namespace may not start the pod now; empty if it may."""
        return self._gate.refusal(queued.pod)

    def hold(self, together: Iterable[QueuedPod], why: str) -> None:
        """Let them wait until more is granted to their namespace."""
        for queued in together:
            self._queue.refused(queued, frozenset({ALLOCATION}), clock.monotonic(), backs_off=False)
            self._waiting.add(queued)
            self._outcomes.report_refusal(queued, self._outcomes.outright(why).text(""))

    def diagnosis(self, why: str) -> Diagnosis:
        """What is known of a pod of a gang that the gate refuses."""
        return self._outcomes.outright(why, frozenset({ALLOCATION}))

    def _more_is_granted(self) -> None:
        self._waiting.wake_first()
        self._outcomes.wake()
