"""Metrics of the scheduler, by kube-scheduler's names (pkg/scheduler/metrics)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.runtime.metrics import HoldsCollector
from fairlead.scheduler.queue import QueueState, SchedulingQueue

_ATTEMPT_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))
_SLI_SECONDS: Final = tuple(0.01 * 2**power for power in range(20))
_QUEUES: Final = {
    "active": (QueueState.ACTIVE,),
    "backoff": (QueueState.BACKOFF, QueueState.ERROR),
    "unschedulable": (QueueState.UNSCHEDULABLE,),
    "gated": (QueueState.GATED,),
}


class _Pending(Collector):
    """Counts when metrics are read."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue

    def collect(self) -> Iterator[Metric]:
        pending = GaugeMetricFamily(
            "scheduler_pending_pods", "Number of pending pods, by the queue type.", labels=["queue"]
        )
        for name, states in _QUEUES.items():
            pending.add_metric([name], sum(self._queue.count(state) for state in states))
        yield pending


class Metrics:
    """What a scheduler counts."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Pending(queue))
        self.registry.register(HoldsCollector())
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result.",
            ["result", "profile"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ["result", "profile"],
            buckets=_ATTEMPT_SECONDS,
            registry=self.registry,
        )
        self._waited = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue.",
            ["attempts"],
            buckets=_SLI_SECONDS,
            registry=self.registry,
        )
        self._preemptions = Counter(
            "scheduler_preemption_attempts_total",
            "Total preemption attempts in the cluster till now",
            registry=self.registry,
        )
        self._victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )

    def attempted(self, result: str, profile: str, seconds: float) -> None:
        """`result`: scheduled, unschedulable or error."""
        self._attempts.labels(result, profile).inc()
        self._seconds.labels(result, profile).observe(seconds)

    def scheduled(self, attempts: int, seconds: float) -> None:
        """A pod is bound, that long after it came."""
        self._waited.labels(str(attempts) if attempts < 16 else "16+").observe(seconds)

    def preempted(self, victims: int) -> None:
        """Preemption was tried; so many victims were found."""
        self._preemptions.inc()
        if victims:
            self._victims.observe(victims)
