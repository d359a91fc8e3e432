"""What is asked of the store. Source: apiserver `storage/etcd3/metrics/metrics.go`, whose etcd is our store."""

from __future__ import annotations

from typing import Final

from fairlead.runtime.metrics import COUNTER, Computed, Counter, Family, Histogram

_SECONDS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
_LABELS: Final = ("operation", "group", "resource")

CREATE: Final = "create"
UPDATE: Final = "update"
DELETE: Final = "delete"


class StorageMetrics:
    """Writes: until they are durable. Reading costs the store nothing, it is done from the watch cache."""

    def __init__(self) -> None:
        self._durations = Histogram(
            "etcd_request_duration_seconds", "[ALPHA] How long writes took until they were durable.", _SECONDS, *_LABELS
        )
        self._errors = Counter(
            "etcd_request_errors_total", "[ALPHA] Writes that the store refused or could not carry out.", *_LABELS
        )
        self.families: tuple[Family, ...] = (
            self._durations,
            self._errors,
            Computed(
                COUNTER,
                "etcd_requests_total",
                "[ALPHA] Writes to the store.",
                _LABELS,
                lambda: [(labels, series.count) for labels, series in self._durations.series.items()],
            ),
        )

    def written(self, operation: str, qualified: str, seconds: float) -> None:
        """`qualified`: the kind, as `Resource.qualified`."""
        self._durations.observe(seconds, _labels(operation, qualified))

    def failed(self, operation: str, qualified: str, seconds: float) -> None:
        self.written(operation, qualified, seconds)
        self._errors.add(_labels(operation, qualified))


def _labels(operation: str, qualified: str) -> tuple[str, str, str]:
    resource, _, group = qualified.partition(".")
    return operation, group, resource
