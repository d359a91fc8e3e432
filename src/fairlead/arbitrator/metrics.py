"""Metrics of the arbitrator: what each namespace deserves and uses, what is taken back, and what a cycle costs.

The outcomes of the last cycle are exported on scrape, in Prometheus' base units (cores, bytes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.arbitrator.outcomes import ShareOutcome
from fairlead.runtime.metrics import HoldsCollector

_PREFIX: Final = "fairlead_arbitrator_"
_CYCLE_SECONDS: Final = tuple(0.001 * 2**power for power in range(14))
_AMOUNTS: Final[Mapping[str, tuple[str, Callable[[ShareOutcome], Mapping[str, int]]]]] = {
    "request": ("What all pods of the namespace ask for.", lambda outcome: outcome.request),
    "deserved": ("What the namespace is allotted in total.", lambda outcome: outcome.deserved),
    "granted": ("What the namespace may use now.", lambda outcome: outcome.granted),
    "used": ("What pods of the namespace that are on nodes hold.", lambda outcome: outcome.used),
    "borrowed": ("What is used beyond what is reserved.", lambda outcome: outcome.borrowed),
}


class _Shares(Collector):
    """The outcomes of the last cycle."""

    def __init__(self) -> None:
        self.outcomes: Mapping[str, ShareOutcome] = {}

    def collect(self) -> Iterator[Metric]:
        for name, (text, amounts_of) in _AMOUNTS.items():
            gauge = GaugeMetricFamily(_PREFIX + name, text, labels=["namespace", "resource"])
            for namespace, outcome in self.outcomes.items():
                for resource, amount in amounts_of(outcome).items():
                    gauge.add_metric([namespace, resource], amount / 1000 if resource == "cpu" else amount)
            yield gauge
        share = GaugeMetricFamily(
            f"{_PREFIX}dominant_share", "The largest share of anything, by its weight.", labels=["namespace"]
        )
        overused = GaugeMetricFamily(
            f"{_PREFIX}overused", "Whether the namespace uses more than it deserves.", labels=["namespace"]
        )
        for namespace, outcome in self.outcomes.items():
            share.add_metric([namespace], float(outcome.dominant_share))
            overused.add_metric([namespace], float(bool(outcome.over)))
        yield share
        yield overused


class ArbitratorMetrics:
    """The metrics of one arbitrator, and their registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._shares = _Shares()
        self.registry.register(self._shares)
        self.registry.register(HoldsCollector())
        self._cycles = Histogram(
            f"{_PREFIX}cycle_duration_seconds",
            "What it takes to decide what every namespace deserves.",
            buckets=_CYCLE_SECONDS,
            registry=self.registry,
        )
        self._evictions = Counter(
            f"{_PREFIX}evictions_total",
            "Pods that were asked to go, by the result.",
            ["namespace", "result"],
            registry=self.registry,
        )
        self._proposals = Counter(
            f"{_PREFIX}reclaim_proposals_total",
            "Notices to namespaces that something will be taken back.",
            ["namespace"],
            registry=self.registry,
        )
        self._reclaims = Counter(
            f"{_PREFIX}reclaims_total",
            "Pods of the namespace for which others were evicted: helped, or futile if others took the room.",
            ["namespace", "result"],
            registry=self.registry,
        )

    def cycle(self, seconds: float, outcomes: Mapping[str, ShareOutcome]) -> None:
        """A cycle ended with these outcomes."""
        self._cycles.observe(seconds)
        self._shares.outcomes = outcomes

    def evicted(self, namespace: str, result: str) -> None:
        """An eviction of a pod of that namespace was requested."""
        self._evictions.labels(namespace, result).inc()

    def reclaimed(self, namespace: str, result: str) -> None:
        """Whether evictions for a pod of that namespace helped it."""
        self._reclaims.labels(namespace, result).inc()

    def proposed(self, namespace: str) -> None:
        """That namespace was given notice."""
        self._proposals.labels(namespace).inc()
