"""Metrics of the scheduler, by kube-scheduler's names, labels and buckets (pkg/scheduler/metrics)."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable
from typing import Final

from fairlead.runtime.metrics import COUNTER, GAUGE, Computed, Counter, Family, Histogram, Labels, exponential
from fairlead.scheduler.device_metrics import DeviceMetrics
from fairlead.scheduler.queue import QueueState, SchedulingQueue
from fairlead.scheduler.snapshot import Snapshot

_ATTEMPT_SECONDS: Final = exponential(0.001, 2, 15)
_SLI_SECONDS: Final = exponential(0.01, 2, 20)
_QUEUES: Final = {
    "active": (QueueState.ACTIVE,),
    "backoff": (QueueState.BACKOFF, QueueState.ERROR),
    "unschedulable": (QueueState.UNSCHEDULABLE,),
    "gated": (QueueState.GATED,),
}
_QUEUE_OF: Final = {state: name for name, states in _QUEUES.items() for state in states}
#: From so many attempts on they count as one.
_MANY_ATTEMPTS: Final = 16


class Metrics:
    """What a scheduler counts."""

    def __init__(self, queue: SchedulingQueue, snapshot: Snapshot, devices: DeviceMetrics) -> None:
        self._queue, self._snapshot = queue, snapshot
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "[STABLE] Attempts to schedule pods, by the result.",
            "result",
            "profile",
        )
        self._seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "[STABLE] How long attempts took: the decision and the binding.",
            _ATTEMPT_SECONDS,
            "result",
            "profile",
        )
        self._algorithm = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "[ALPHA] How long decisions took.", _ATTEMPT_SECONDS
        )
        self._points = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "[STABLE] How long all plugins of an extension point took.",
            exponential(0.0001, 2, 12),
            "extension_point",
            "status",
            "profile",
        )
        self._waited = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "[BETA] How long pods took to be scheduled from when they entered the queue, over all attempts.",
            _SLI_SECONDS,
            "attempts",
        )
        self._tries = Histogram(
            "scheduler_pod_scheduling_attempts",
            "[STABLE] How many attempts it took to schedule a pod.",
            exponential(1.0, 2, 5),
        )
        self._preemptions = Counter("scheduler_preemption_attempts_total", "[STABLE] Attempts to preempt.")
        self._victims = Histogram(
            "scheduler_preemption_victims", "[STABLE] How many victims were chosen.", exponential(1.0, 2, 7)
        )
        self.families: tuple[Family, ...] = (
            self._attempts,
            self._seconds,
            self._algorithm,
            self._points,
            self._waited,
            self._tries,
            self._preemptions,
            self._victims,
            Computed(GAUGE, "scheduler_pending_pods", "[STABLE] Pods that wait, by queue.", ("queue",), self._pending),
            Computed(
                GAUGE,
                "scheduler_unschedulable_pods",
                "[ALPHA] Pods that were refused, by who refused them; one counts for each of these.",
                ("plugin", "profile"),
                lambda: list(queue.refusals().items()),
            ),
            Computed(
                COUNTER,
                "scheduler_queue_incoming_pods_total",
                "[STABLE] Pods that came into a queue, by what brought them there.",
                ("queue", "event"),
                self._incoming,
            ),
            Computed(
                GAUGE,
                "scheduler_cache_size",
                "[ALPHA] Nodes, pods and assumed pods that are known.",
                ("type",),
                self._cached,
            ),
            *devices.families,
        )

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """`result`: scheduled, unschedulable or error."""
        self._attempts.add((result, profile))
        self._seconds.observe(seconds, (result, profile))

    def decided(self, seconds: float) -> None:
        """A decision was made about a pod, whichever."""
        self._algorithm.observe(seconds)

    def ran(self, point: str, status: str, profile: str, seconds: float) -> None:
        """The plugins of an extension point ran for a pod."""
        self._points.observe(seconds, (point, status, profile))

    def scheduled(self, attempts: int, seconds: float) -> None:
        """A pod is bound, that long after it came."""
        self._waited.observe(seconds, (str(attempts) if attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+",))
        self._tries.observe(attempts)

    def preempted(self, victims: int) -> None:
        """Preemption was tried; so many victims were found."""
        self._preemptions.add()
        if victims:
            self._victims.observe(victims)

    def _incoming(self) -> Iterable[tuple[Labels, float]]:
        found: Counts[tuple[str, str]] = Counts()
        for (state, event), count in self._queue.incoming.items():
            found[_QUEUE_OF[state], event] += count
        return list(found.items())

    def _cached(self) -> Iterable[tuple[Labels, float]]:
        snapshot = self._snapshot
        return [
            (("nodes",), len(snapshot.rows())),
            (("pods",), snapshot.pods_placed),
            (("assumed_pods",), snapshot.pods_assumed),
        ]

    def _pending(self) -> Iterable[tuple[Labels, float]]:
        return [((name,), sum(map(self._queue.count, states))) for name, states in _QUEUES.items()]
