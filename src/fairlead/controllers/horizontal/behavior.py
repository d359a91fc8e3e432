"""How soon and how fast a workload follows what its metrics propose.

    proposal ─▶ stabilized over what was proposed lately ─▶ limited by policies and bounds ─▶ desired replicas

What was proposed and done before is a `History`, which may be lost: then it begins with the current number of replicas.
Source: normalizeDesiredReplicas and what it calls in pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead.api.autoscaling import Behavior, ScalingPolicy, ScalingRules
from fairlead.controllers.horizontal.replicas import MAX_REPLICAS

#: kube-controller-manager's --horizontal-pod-autoscaler-downscale-stabilization.
DOWNSCALE_STABILIZATION_SECONDS: Final = 300
#: Without `behavior`, an autoscaler may double what there is, or make it four.
_UP_FACTOR, _UP_AT_LEAST = 2, 4

READY: Final = ("ReadyForNewScale", "recommended size matches current size")
_DOWN_STABILIZED: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_UP_STABILIZED: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_WITHIN_RANGE: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_UP_LIMIT: Final = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_DOWN_LIMIT: Final = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")

#: A reason and its message.
Cause = tuple[str, str]


class History(msgspec.Struct):
    """What was proposed to one workload, and how many replicas it got and lost, with the time of each."""

    proposed: list[tuple[float, int]] = msgspec.field(default_factory=list)
    added: list[tuple[float, int]] = msgspec.field(default_factory=list)
    removed: list[tuple[float, int]] = msgspec.field(default_factory=list)

    def begin(self, current: int, now: float) -> None:
        if not self.proposed:
            self.proposed.append((now, current))

    def propose(self, replicas: int, now: float, window: float) -> None:
        """Keep a proposal, and of those before it what is in the window."""
        self.proposed = [(at, count) for at, count in self.proposed if at >= now - window]
        self.proposed.append((now, replicas))

    def repeat(self, now: float) -> None:
        """The last proposal has been made again and again until now."""
        self.proposed = [(now, self.proposed[-1][1])]

    def is_flat(self, behavior: Behavior | None, now: float) -> bool:
        """Whether time alone changes nothing that comes of it."""
        if len({count for _, count in self.proposed}) != 1:
            return False
        return behavior is None or not (
            _recent(self.added, behavior.scale_up, now) or _recent(self.removed, behavior.scale_down, now)
        )

    def scaled(self, behavior: Behavior | None, before: int, after: int, now: float) -> None:
        """Keep a change, if policies look at it."""
        if behavior is None:
            return
        if after > before:
            self.added = [*_recent(self.added, behavior.scale_up, now), (now, after - before)]
        else:
            self.removed = [*_recent(self.removed, behavior.scale_down, now), (now, before - after)]

    def replicas_before(self, current: int, period: float, now: float) -> int:
        """How many there were at the beginning of a period that ends now."""
        added = sum(change for at, change in self.added if at > now - period)
        removed = sum(change for at, change in self.removed if at > now - period)
        return current - added + removed


class Bounds(msgspec.Struct, frozen=True):
    current: int
    low: int
    high: int


class Normalized(msgspec.Struct, frozen=True):
    """The number of replicas, and why it is that one: `AbleToScale` and `ScalingLimited`."""

    replicas: int
    able: Cause
    limited: Cause
    is_limited: bool


def normalized(behavior: Behavior | None, history: History, proposed: int, bounds: Bounds, now: float) -> Normalized:
    """What becomes of a proposal, which is kept in the history."""
    if behavior is None:
        stabilized, able = _stabilized_by_default(history, proposed, now)
        replicas, limited = _bounded(stabilized, bounds)
    else:
        stabilized, able = _stabilized(behavior, history, proposed, bounds.current, now)
        replicas, limited = _rate_limited(behavior, history, stabilized, bounds, now)
    return Normalized(replicas, able if stabilized != proposed else READY, limited, replicas != stabilized)


def _stabilized_by_default(history: History, proposed: int, now: float) -> tuple[int, Cause]:
    window = DOWNSCALE_STABILIZATION_SECONDS
    highest = max((count for at, count in history.proposed if at >= now - window), default=proposed)
    history.propose(proposed, now, window)
    return max(highest, proposed), _DOWN_STABILIZED


def _stabilized(behavior: Behavior, history: History, proposed: int, current: int, now: float) -> tuple[int, Cause]:
    """The number nearest to the current one between the lowest and the highest proposal of the two windows."""
    up, down = _window(behavior.scale_up, 0), _window(behavior.scale_down, DOWNSCALE_STABILIZATION_SECONDS)
    low = min((proposed, *(count for at, count in history.proposed if at > now - up)))
    high = max((proposed, *(count for at, count in history.proposed if at > now - down)))
    history.propose(proposed, now, max(up, down))
    return min(max(current, low), high), _UP_STABILIZED if proposed >= current else _DOWN_STABILIZED


def _window(rules: ScalingRules, default: int) -> int:
    seconds = rules.stabilization_window_seconds
    return default if seconds is None else seconds


def _bounded(desired: int, bounds: Bounds) -> tuple[int, Cause]:
    fastest = max(_UP_FACTOR * bounds.current, _UP_AT_LEAST)
    most, why = (fastest, _UP_LIMIT) if bounds.high > fastest else (bounds.high, _TOO_MANY)
    if desired < bounds.low:
        return bounds.low, _TOO_FEW
    return (most, why) if desired > most else (desired, _WITHIN_RANGE)


def _rate_limited(behavior: Behavior, history: History, desired: int, bounds: Bounds, now: float) -> tuple[int, Cause]:
    if desired > bounds.current:
        fastest = max(_up_limit(behavior.scale_up, history, bounds.current, now), bounds.current)
        most, why = (fastest, _UP_LIMIT) if bounds.high > fastest else (bounds.high, _TOO_MANY)
        if desired > most:
            return most, why
    elif desired < bounds.current:
        fastest = min(_down_limit(behavior.scale_down, history, bounds.current, now), bounds.current)
        least, why = (fastest, _DOWN_LIMIT) if bounds.low < fastest else (bounds.low, _TOO_FEW)
        if desired < least:
            return least, why
    return desired, _WITHIN_RANGE


def _up_limit(rules: ScalingRules, history: History, current: int, now: float) -> int:
    """The most replicas that the policies let there be now."""
    if rules.select_policy == "Disabled":
        return current
    limits = (
        _increased(policy, history.replicas_before(current, policy.period_seconds, now)) for policy in rules.policies
    )
    return min(limits, default=MAX_REPLICAS) if rules.select_policy == "Min" else max(limits, default=-MAX_REPLICAS)


def _down_limit(rules: ScalingRules, history: History, current: int, now: float) -> int:
    """The fewest."""
    if rules.select_policy == "Disabled":
        return current
    limits = (
        _decreased(policy, history.replicas_before(current, policy.period_seconds, now)) for policy in rules.policies
    )
    return max(limits, default=-MAX_REPLICAS) if rules.select_policy == "Min" else min(limits, default=MAX_REPLICAS)


def _increased(policy: ScalingPolicy, replicas: int) -> int:
    """Rounded up: a few percent of a few replicas must be one."""
    if policy.type == "Pods":
        return min(replicas + policy.value, MAX_REPLICAS)
    return min(math.ceil(replicas * (1 + policy.value / 100)), MAX_REPLICAS)


def _decreased(policy: ScalingPolicy, replicas: int) -> int:
    if policy.type == "Pods":
        return replicas - policy.value
    return int(replicas * (1 - policy.value / 100))


def _recent(changes: Iterable[tuple[float, int]], rules: ScalingRules, now: float) -> list[tuple[float, int]]:
    """Those that a policy still looks at."""
    longest = max((policy.period_seconds for policy in rules.policies), default=0)
    return [(at, change) for at, change in changes if at >= now - longest]
