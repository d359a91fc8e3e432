"""The figures by which variants are compared and judged, by the name that rules and tables have for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.sim.histories import DRAINED, EVICTED_BY_NODE, LOST, PREEMPTED, REFUSED_BY_NODE, PodHistory
from fairlead.study.outcome import Outcome, Waits, quantile

_PRIORITY: Final = re.compile(r"(>=|<=|>|<|=)?\s*(-?\d+)")


@dataclass(frozen=True, slots=True)
class Scope:
    """Of which pods a figure is: all, those of a namespace, those of certain priorities."""

    namespace: str = ""
    priority: str = ""

    def __post_init__(self) -> None:
        if self.priority and _PRIORITY.fullmatch(self.priority) is None:
            raise ValueError(f"priority: {self.priority!r} is no bound: write 1000, >=1000 or <0")

    @property
    def is_whole(self) -> bool:
        return not (self.namespace or self.priority)

    def has(self, namespace: str, priority: int) -> bool:
        return (not self.namespace or namespace == self.namespace) and self.has_priority(priority)

    def has_priority(self, priority: int) -> bool:
        found = _PRIORITY.fullmatch(self.priority)
        if found is None:
            return True
        bound = int(found[2])
        match found[1]:
            case ">=":
                return priority >= bound
            case "<=":
                return priority <= bound
            case ">":
                return priority > bound
            case "<":
                return priority < bound
        return priority == bound

    def pods(self, outcome: Outcome) -> list[PodHistory]:
        return [pod for pod in outcome.pods if self.has(pod.namespace, pod.priority)]

    def waits(self, outcome: Outcome) -> list[Waits]:
        return [group for group in outcome.waits if self.has(group.namespace, group.priority)]


WHOLE: Final = Scope()
Figure = Callable[[Outcome, Scope], float]


def _disrupted(kind: str) -> Figure:
    def figure(outcome: Outcome, scope: Scope) -> float:
        return sum(disruption.kind == kind for pod in scope.pods(outcome) for disruption in pod.disruptions)

    return figure


def _waited(part: float) -> Figure:
    return lambda outcome, scope: quantile(scope.waits(outcome), part)


def _mean(resource: str) -> Figure:
    return lambda outcome, scope: float((outcome.summary["utilisation"].get(resource) or {}).get("mean", 0.0))


def _longest(outcome: Outcome, scope: Scope) -> float:
    return max((group.longest for group in scope.waits(outcome)), default=0.0)


def _quota_refusals(outcome: Outcome, scope: Scope) -> float:
    by_quota = {(state.namespace, state.quota): state.refusals for state in outcome.quotas}
    return sum(count for (namespace, _), count in by_quota.items() if scope.namespace in ("", namespace))


#: Figures of pods, which may be narrowed to a scope.
OF_PODS: Final[Mapping[str, Figure]] = {
    "waiting": lambda outcome, scope: sum(group.still_waiting for group in scope.waits(outcome)),
    "longestWait": _longest,
    "p95Wait": _waited(0.95),
    "medianWait": _waited(0.5),
    "preempted": _disrupted(PREEMPTED),
    "evicted": _disrupted(DRAINED),
    "evictedByNode": _disrupted(EVICTED_BY_NODE),
    "lostWithNode": _disrupted(LOST),
    "refusedByNode": _disrupted(REFUSED_BY_NODE),
    "refusedByQuota": _quota_refusals,
    "notEvicted": lambda outcome, scope: sum(scope.has(held.namespace, held.priority) for held in outcome.held_up),
    "gone": lambda outcome, scope: sum(it.pods for it in outcome.gone if scope.namespace in ("", it.namespace)),
    "oomKilled": lambda outcome, scope: sum(pod.oom_kills for pod in scope.pods(outcome)),
}
#: Figures of the whole cluster.
OF_CLUSTER: Final[Mapping[str, Figure]] = {
    "placed": lambda outcome, scope: outcome.placed,
    "cpuRequested": _mean("cpu"),
    "memoryRequested": _mean("memory"),
    "throttledSeconds": lambda outcome, scope: float(outcome.summary["nodeTroubles"].get("throttledSeconds", 0.0)),
    "nodeHours": lambda outcome, scope: outcome.node_hours,
    "cost": lambda outcome, scope: outcome.cost or 0.0,
}
FIGURES: Final[Mapping[str, Figure]] = {**OF_PODS, **OF_CLUSTER}
#: Those that are known of namespaces, and not of priorities.
OF_NAMESPACES: Final = frozenset({"refusedByQuota", "gone"})
#: Those that are durations, and are written as such.
DURATIONS: Final = frozenset({"longestWait", "p95Wait", "medianWait", "throttledSeconds"})
#: Those that are parts of a whole.
PARTS: Final = frozenset({"cpuRequested", "memoryRequested"})
