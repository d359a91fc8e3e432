"""How many replicas a metric asks for: the ratio of what is used to what should be, times the pods that count.

Pods that cannot be counted on are guessed so that the guess never makes the change larger: a pod without a sample uses
nothing when more replicas are asked for, and all that it may when fewer are.

Source: pkg/controller/podautoscaler/{replica_calculator.go,metrics/utilization.go}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import compress
from typing import Final

import msgspec

MAX_REPLICAS: Final = 2**31 - 1

#: Thousandths of the resource's unit, by pod.
Amounts = Mapping[str, int]


class Incomputable(Exception):
    """No number of replicas can be computed; the text says why, as in events."""


class Tolerances(msgspec.Struct, frozen=True):
    """How far the ratio may be from 1 without a change."""

    scale_down: float = 0.1
    scale_up: float = 0.1

    def covers(self, ratio: float) -> bool:
        return 1.0 - self.scale_down <= ratio <= 1.0 + self.scale_up


class PodGroups(msgspec.Struct, frozen=True):
    """The pods of a workload by what their samples are worth; each pod is in one group."""

    ready: int
    #: They have not started to work yet.
    unready: frozenset[str] = frozenset()
    #: They run without a sample.
    missing: frozenset[str] = frozenset()
    #: They failed or are being deleted.
    ignored: frozenset[str] = frozenset()

    def countable(self, samples: Amounts) -> dict[str, int]:
        """The samples of everybody else."""
        counted = dict(samples)
        for pod in (*self.unready, *self.ignored):
            counted.pop(pod, None)
        if not counted:
            raise Incomputable("did not receive metrics for targeted pods (pods might be unready)")
        return counted


class Proposal(msgspec.Struct, frozen=True):
    replicas: int
    #: What a pod uses now, in thousandths.
    average: int
    #: The same in percent of what it requests, where that is the measure.
    utilization: int | None = None


class _Usage(msgspec.Struct, frozen=True):
    ratio: float
    average: int
    utilization: int | None = None


_Measure = Callable[[Amounts], _Usage]


def for_utilization(
    current: int, target: int, samples: Amounts, requests: Amounts, groups: PodGroups, tolerances: Tolerances
) -> Proposal:
    """For pods that should use `target` percent of what they request; both sides in thousandths."""

    def usage(of: Amounts) -> _Usage:
        return _utilization(of, requests, target)

    fallback = {pod: requests.get(pod, 0) * max(100, target) // 100 for pod in groups.missing}
    return _propose(current, usage, fallback, groups.countable(samples), groups, tolerances)


def for_average(current: int, target: int, samples: Amounts, groups: PodGroups, tolerances: Tolerances) -> Proposal:
    """For pods that should use `target` thousandths each."""

    def usage(of: Amounts) -> _Usage:
        average = _quotient(sum(of.values()), len(of))
        return _Usage(_ratio(average, target), average)

    return _propose(
        current, usage, dict.fromkeys(groups.missing, target), groups.countable(samples), groups, tolerances
    )


def _propose(
    current: int, usage: _Measure, fallback: Amounts, counted: dict[str, int], groups: PodGroups, tolerances: Tolerances
) -> Proposal:
    measured = usage(counted)
    unchanged = Proposal(current, measured.average, measured.utilization)
    grows, shrinks = measured.ratio > 1.0, measured.ratio < 1.0
    counts_unready = bool(groups.unready) and grows
    if not counts_unready and not groups.missing:
        if tolerances.covers(measured.ratio):
            return unchanged
        return Proposal(_rounded_up(measured.ratio * groups.ready), measured.average, measured.utilization)
    if shrinks:
        counted |= fallback
    elif grows:
        counted |= dict.fromkeys(groups.missing, 0)
    if counts_unready:
        counted |= dict.fromkeys(groups.unready, 0)
    ratio = usage(counted).ratio
    if tolerances.covers(ratio) or (shrinks and ratio > 1.0) or (grows and ratio < 1.0):
        return unchanged
    replicas = _rounded_up(ratio * len(counted))
    if (ratio < 1.0 and replicas > current) or (ratio > 1.0 and replicas < current):
        return unchanged
    return Proposal(replicas, measured.average, measured.utilization)


def _utilization(samples: Amounts, requests: Amounts, target: int) -> _Usage:
    is_known = list(map(requests.__contains__, samples))
    used = sum(compress(samples.values(), is_known))
    requested = sum(map(requests.__getitem__, compress(samples, is_known)))
    if requested == 0:
        raise Incomputable("no metrics returned matched known pods")
    percent = _quotient(used * 100, requested)
    return _Usage(_ratio(percent, target), _quotient(used, sum(is_known)), percent)


def _quotient(dividend: int, divisor: int) -> int:
    """As Go divides: towards zero."""
    whole = abs(dividend) // abs(divisor)
    return whole if (dividend < 0) == (divisor < 0) else -whole


def _ratio(used: int, target: int) -> float:
    """Validation lets no target of zero in; if there was one, nothing used would be just right."""
    if target == 0:
        return math.inf if used > 0 else 1.0
    return used / target


def _rounded_up(replicas: float) -> int:
    """To a whole number of replicas that an int32 holds. No pods at all stay none, whatever they use."""
    if math.isnan(replicas):
        return 0
    return math.ceil(max(0.0, min(replicas, float(MAX_REPLICAS))))
