"""Eviction thresholds: how far a signal may fall before the node acts, and what the settings for that look like.

A soft threshold must be met for its grace period before pods go; a hard one has none. Texts are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from fairlead.api.quantity import Quantity, parse
from fairlead.golang.durations import parse_seconds
from fairlead.node.eviction.signals import FileSystems, Observation, Observations, Signal
from fairlead.node.percentages import ThresholdValue, parse_percentage

_NANOS: Final = 10**9
_WARNING: Final = "found {} for {} eviction. ignoring"
#: Thresholds for container layers are never taken from the user: by where the layers are, the signals they follow.
_FOLLOWED: Final[Mapping[FileSystems, Mapping[Signal, Signal]]] = {
    FileSystems.SHARED: {Signal.CONTAINERFS: Signal.NODEFS, Signal.CONTAINERFS_INODES: Signal.NODEFS_INODES},
    FileSystems.IMAGEFS: {Signal.CONTAINERFS: Signal.IMAGEFS, Signal.CONTAINERFS_INODES: Signal.IMAGEFS_INODES},
    FileSystems.SPLIT: {Signal.CONTAINERFS: Signal.NODEFS, Signal.CONTAINERFS_INODES: Signal.NODEFS_INODES},
}


class ThresholdError(ValueError):
    """The settings make no sense; `str()` of it is the kubelet's message."""


@dataclass(frozen=True, slots=True)
class Threshold:
    signal: Signal
    value: ThresholdValue
    grace_seconds: float = 0.0
    minimum_reclaim: ThresholdValue | None = None

    def __hash__(self) -> int:
        """Few share a signal, and every pass of every node looks some up."""
        return hash(self.signal)

    @property
    def is_hard(self) -> bool:
        return self.grace_seconds == 0

    def of(self, observation: Observation) -> Quantity:
        """What may not be fallen short of."""
        return self.value.of(Quantity.of_units(observation.capacity))

    def is_met(self, observation: Observation) -> bool:
        return observation.available * _NANOS < self.value.nanos_of(observation.capacity)

    def is_unresolved(self, observation: Observation) -> bool:
        """Whether less is left than the threshold and its minimum reclaim together."""
        wanted = self.value.nanos_of(observation.capacity)
        if self.minimum_reclaim is not None:
            wanted += self.minimum_reclaim.nanos_of(observation.capacity)
        return observation.available * _NANOS < wanted


def met(thresholds: Iterable[Threshold], observations: Observations) -> Iterator[Threshold]:
    """Those that are met, whatever their grace period."""
    for threshold in thresholds:
        if (observation := observations.get(threshold.signal)) is not None and threshold.is_met(observation):
            yield threshold


def unresolved(thresholds: Iterable[Threshold], observations: Observations) -> Iterator[Threshold]:
    """Those whose minimum reclaim is not reached."""
    for threshold in thresholds:
        if (observation := observations.get(threshold.signal)) is not None and threshold.is_unresolved(observation):
            yield threshold


def parse_thresholds(
    hard: Mapping[str, str],
    soft: Mapping[str, str],
    soft_grace_periods: Mapping[str, str],
    minimum_reclaims: Mapping[str, str],
    *,
    enforces_pods: bool,
) -> tuple[Threshold, ...]:
    """The thresholds of the settings, in their order; `enforces_pods` watches the memory of all pods together, too."""
    hard_values, soft_values = _values(hard), _values(soft)
    periods = {_signal(name): _grace_seconds(text) for name, text in soft_grace_periods.items()}
    reclaims = dict(_minimum_reclaims(minimum_reclaims))
    thresholds = [Threshold(signal, value, 0.0, reclaims.get(signal)) for signal, value in hard_values]
    for signal, value in soft_values:
        if signal not in periods:
            raise ThresholdError(f"grace period must be specified for the soft eviction threshold {signal}")
        thresholds.append(Threshold(signal, value, periods[signal], reclaims.get(signal)))
    if enforces_pods:
        thresholds += [
            Threshold(Signal.ALLOCATABLE_MEMORY, threshold.value, 0.0, threshold.minimum_reclaim)
            for threshold in thresholds
            if threshold.signal is Signal.MEMORY and threshold.is_hard
        ]
    return tuple(thresholds)


class ContainerfsThresholds(msgspec.Struct, frozen=True):
    """What becomes of the thresholds when the file systems are known."""

    #: What the user said of containerfs, replaced.
    replaced: tuple[Threshold, ...]
    #: The same, and what is watched besides.
    completed: tuple[Threshold, ...]
    #: What is logged when the user's own are ignored.
    warning: str = ""


def with_containerfs(thresholds: Sequence[Threshold], filesystems: FileSystems) -> ContainerfsThresholds:
    """Let the thresholds of container layers follow those of the file system that they are on."""
    followed = _FOLLOWED[filesystems]
    warning = ""
    replaced: list[Threshold] = []
    stated: set[tuple[Signal, bool]] = set()
    for threshold in thresholds:
        if threshold.signal not in followed:
            replaced.append(threshold)
            continue
        stated.add((threshold.signal, threshold.is_hard))
        replaced += _following(thresholds, threshold.signal, followed[threshold.signal], is_hard=threshold.is_hard)
        warning = _WARNING.format(threshold.signal, "hard" if threshold.is_hard else "soft")
    added = [
        threshold
        for signal, model in followed.items()
        for is_hard in (True, False)
        if (signal, is_hard) not in stated
        for threshold in _following(thresholds, signal, model, is_hard=is_hard)
    ]
    return ContainerfsThresholds(tuple(replaced), (*replaced, *added), warning)


def _following(
    thresholds: Sequence[Threshold], signal: Signal, model: Signal, *, is_hard: bool
) -> tuple[Threshold, ...]:
    found = [threshold for threshold in thresholds if threshold.signal is model and threshold.is_hard is is_hard]
    if not found:
        return ()
    return (Threshold(signal, found[-1].value, found[-1].grace_seconds, found[-1].minimum_reclaim),)


def _signal(name: str) -> Signal:
    try:
        return Signal(name)
    except ValueError:
        raise ThresholdError(f"unsupported eviction signal {name}") from None


def _values(statements: Mapping[str, str]) -> list[tuple[Signal, ThresholdValue]]:
    """The thresholds that are not switched off."""
    parsed = [(signal := _signal(name), _value(signal, text)) for name, text in statements.items()]
    return [(signal, value) for signal, value in parsed if value is not None]


def _value(signal: Signal, text: str) -> ThresholdValue | None:
    if text in ("0%", "100%"):
        return None
    if text.endswith("%"):
        percentage = parse_percentage(text)
        if percentage < 0:
            raise ThresholdError(f"eviction percentage threshold {signal} must be >= 0%: {text}")
        if percentage > 1:
            raise ThresholdError(f"eviction percentage threshold {signal} must be <= 100%: {text}")
        return ThresholdValue(percentage=percentage)
    quantity = parse(text)
    if quantity.nanos <= 0:
        raise ThresholdError(f"eviction threshold {signal} must be positive: {quantity}")
    return ThresholdValue(quantity)


def _grace_seconds(text: str) -> float:
    seconds = parse_seconds(text)
    if seconds < 0:
        raise ThresholdError(f"invalid eviction grace period specified: {text}, must be a positive value")
    return seconds


def _minimum_reclaims(statements: Mapping[str, str]) -> Iterator[tuple[Signal, ThresholdValue]]:
    for name, text in statements.items():
        signal = _signal(name)
        if text.endswith("%"):
            percentage = parse_percentage(text)
            if percentage <= 0:
                raise ThresholdError(f"eviction percentage minimum reclaim {signal} must be positive: {text}")
            yield signal, ThresholdValue(percentage=percentage)
            continue
        quantity = parse(text)
        if quantity.nanos < 0:
            raise ThresholdError(f"negative eviction minimum reclaim specified for {signal}")
        yield signal, ThresholdValue(quantity)
