"""Metrics of the arbitrator: what each namespace deserves and uses, what is taken back, and what a cycle costs.

The outcomes of the last cycle are exported on scrape, in Prometheus' base units (cores, bytes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fairlead.arbitrator.outcomes import ShareOutcome
from fairlead.runtime.metrics import GAUGE, Computed, Counter, Family, Histogram, Labels, exponential

_PREFIX: Final = "fairlead_arbitrator_"
_AMOUNTS: Final[Mapping[str, tuple[str, Callable[[ShareOutcome], Mapping[str, int]]]]] = {
    "request": ("What all pods of the namespace ask for.", lambda outcome: outcome.request),
    "deserved": ("What the namespace is allotted in total.", lambda outcome: outcome.deserved),
    "granted": ("What the namespace may use now.", lambda outcome: outcome.granted),
    "used": ("What pods of the namespace that are on nodes hold.", lambda outcome: outcome.used),
    "borrowed": ("What is used beyond what is reserved.", lambda outcome: outcome.borrowed),
}


class ArbitratorMetrics:
    """The metrics of one arbitrator."""

    def __init__(self) -> None:
        self._outcomes: Mapping[str, ShareOutcome] = {}
        self._cycles = Histogram(
            f"{_PREFIX}cycle_duration_seconds",
            "What it takes to decide what every namespace deserves.",
            exponential(0.001, 2, 14),
        )
        self._evictions = Counter(
            f"{_PREFIX}evictions_total", "Pods that were asked to go, by the result.", "namespace", "result"
        )
        self._proposals = Counter(
            f"{_PREFIX}reclaim_proposals_total",
            "Notices to namespaces that something will be taken back.",
            "namespace",
        )
        self.reclaims = Counter(
            f"{_PREFIX}reclaims_total",
            "Pods of the namespace for which others were evicted: helped, or futile if others took the room.",
            "namespace",
            "result",
        )
        self.families: tuple[Family, ...] = (
            *(self._amounts(name, text, amounts_of) for name, (text, amounts_of) in _AMOUNTS.items()),
            self._gauge(
                "dominant_share",
                "The largest share of anything, by its weight.",
                lambda outcome: float(outcome.dominant_share),
            ),
            self._gauge(
                "overused",
                "Whether the namespace uses more than it deserves.",
                lambda outcome: float(bool(outcome.over)),
            ),
            self._cycles,
            self._evictions,
            self._proposals,
            self.reclaims,
        )

    def _amounts(self, name: str, text: str, amounts_of: Callable[[ShareOutcome], Mapping[str, int]]) -> Family:
        def read() -> Iterable[tuple[Labels, float]]:
            return [
                ((namespace, resource), amount / 1000 if resource == "cpu" else amount)
                for namespace, outcome in self._outcomes.items()
                for resource, amount in amounts_of(outcome).items()
            ]

        return Computed(GAUGE, _PREFIX + name, text, ("namespace", "resource"), read)

    def _gauge(self, name: str, text: str, value: Callable[[ShareOutcome], float]) -> Family:
        def read() -> Iterable[tuple[Labels, float]]:
            return [((namespace,), value(outcome)) for namespace, outcome in self._outcomes.items()]

        return Computed(GAUGE, _PREFIX + name, text, ("namespace",), read)

    def cycle(self, seconds: float, outcomes: Mapping[str, ShareOutcome]) -> None:
        """A cycle ended with these outcomes."""
        self._cycles.observe(seconds)
        self._outcomes = outcomes

    def evicted(self, namespace: str, result: str) -> None:
        """An eviction of a pod of that namespace was requested."""
        self._evictions.add((namespace, result))

    def reclaimed(self, namespace: str, result: str) -> None:
        """Whether evictions for a pod of that namespace helped it."""
        self.reclaims.add((namespace, result))

    def proposed(self, namespace: str) -> None:
        """That namespace was given notice."""
        self._proposals.add((namespace,))
