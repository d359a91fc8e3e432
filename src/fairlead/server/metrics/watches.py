"""What watches send. Source: apiserver `endpoints/metrics/metrics.go`, `storage/cacher/metrics/metrics.go`."""

from __future__ import annotations

from typing import Final

from fairlead.runtime.metrics import COUNTER, Computed, Counter, Distribution, Family, Histogram, exponential

_SIZES: Final = exponential(1024.0, 2.0, 8)
_LABELS: Final = ("group", "version", "resource")


class WatchMetrics:
    """Events, as they leave for each client."""

    def __init__(self) -> None:
        self._sizes = Histogram(
            "apiserver_watch_events_sizes", "[BETA] How many bytes events had that were sent.", _SIZES, *_LABELS
        )
        #: By group and resource.
        self.terminated = Counter(
            "apiserver_terminated_watchers_total",
            "[ALPHA] Watches that were ended because the client did not read.",
            "group",
            "resource",
        )
        self.families: tuple[Family, ...] = (
            self._sizes,
            Computed(
                COUNTER,
                "apiserver_watch_events_total",
                "[BETA] Events that were sent to clients that watch.",
                _LABELS,
                lambda: [(labels, series.count) for labels, series in self._sizes.series.items()],
            ),
            self.terminated,
        )

    def sizes(self, group: str, version: str, resource: str) -> Distribution:
        """For the sizes of events of that kind."""
        return self._sizes.of((group, version, resource))
