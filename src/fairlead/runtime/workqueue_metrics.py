"""What work queues do, by client-go's names (component-base `metrics/prometheus/workqueue`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from fairlead.runtime.clock import stopwatch
from fairlead.runtime.metrics import GAUGE, Computed, Counter, Family, Histogram, Labels, exponential

_SECONDS: Final = exponential(1e-8, 10, 10)
_NAME: Final = "name"


class MeasuredQueue(Protocol):
    """What is read of a queue when somebody asks."""

    def __len__(self) -> int: ...

    @property
    def begun_at(self) -> Iterable[float]:
        """When the work that is being done began, by the stopwatch."""


class QueueMetrics:
    """Of one queue."""

    __slots__ = ("_adds", "_labels", "_retries", "waited", "worked")

    def __init__(self, labels: Labels, adds: Counter, retries: Counter, waited: Histogram, worked: Histogram) -> None:
        self._labels, self._adds, self._retries = labels, adds, retries
        self.waited, self.worked = waited.of(labels), worked.of(labels)

    def added(self) -> None:
        self._adds.add(self._labels)

    def retried(self) -> None:
        self._retries.add(self._labels)


class WorkQueueMetrics:
    """Of all queues of a process."""

    def __init__(self) -> None:
        self._queues: list[tuple[str, MeasuredQueue]] = []
        self._adds = Counter("workqueue_adds_total", "[BETA] Keys that were added.", _NAME)
        self._retries = Counter("workqueue_retries_total", "[BETA] Keys that were added again after a failure.", _NAME)
        self._waited = Histogram(
            "workqueue_queue_duration_seconds", "[BETA] How long keys waited until somebody took them.", _SECONDS, _NAME
        )
        self._worked = Histogram(
            "workqueue_work_duration_seconds", "[BETA] How long it took to work on keys.", _SECONDS, _NAME
        )
        self.families: tuple[Family, ...] = (
            self._adds,
            self._retries,
            self._waited,
            self._worked,
            self._gauge("workqueue_depth", "[BETA] Keys that wait.", len),
            self._gauge(
                "workqueue_unfinished_work_seconds",
                "[BETA] For how long all that is being worked on has been, together.",
                lambda queue: sum(_ages(queue)),
            ),
            self._gauge(
                "workqueue_longest_running_processor_seconds",
                "[BETA] For how long the oldest of it has been.",
                lambda queue: max(_ages(queue), default=0.0),
            ),
        )

    def of(self, name: str, queue: MeasuredQueue) -> QueueMetrics:
        """For the queue of that name."""
        self._queues.append((name, queue))
        for counter in (self._adds, self._retries):
            counter.add((name,), 0)
        return QueueMetrics((name,), self._adds, self._retries, self._waited, self._worked)

    def _gauge(self, name: str, text: str, value: Callable[[MeasuredQueue], float]) -> Family:
        def read() -> Iterable[tuple[Labels, float]]:
            return [((queue_name,), value(queue)) for queue_name, queue in self._queues]

        return Computed(GAUGE, name, text, (_NAME,), read)


def _ages(queue: MeasuredQueue) -> list[float]:
    now = stopwatch()
    return [now - began for began in queue.begun_at]
