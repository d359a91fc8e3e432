"""The watchdog's counts as Prometheus metrics. Imported only by what serves `/metrics`: the library is slow to load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.runtime.watchdog import HOLDS, LONGEST_SECONDS

MEDIA_TYPE: Final = CONTENT_TYPE_LATEST

_COUNT: Final = f"Turns that held the event loop for more than {LONGEST_SECONDS} seconds, by the component."
_SECONDS: Final = "For how many seconds these turns held the event loop, by the component."


class HoldsCollector(Collector):
    """Read on scrape."""

    def collect(self) -> Iterator[Metric]:
        for name, text, values in (
            ("fairlead_event_loop_holds", _COUNT, HOLDS.count),
            ("fairlead_event_loop_held_seconds", _SECONDS, HOLDS.seconds),
        ):
            counter = CounterMetricFamily(name, text, labels=["component"])
            for component, value in values.items():
                counter.add_metric([component], value)
            yield counter


def exposition() -> bytes:
    """The metrics of this process, in the text format."""
    registry = CollectorRegistry()
    registry.register(HoldsCollector())
    return generate_latest(registry)
