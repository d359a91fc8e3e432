"""How an amount changes with time: constant, ramp, leak, burst, wave, noise, recorded.

Amounts are in base units (cores, bytes, inodes, processes), times in seconds since the epoch; `since` is when the
container started. `peak` looks at a whole window at once, so that nobody has to sample: when a limit will be crossed,
and how long a node stays calm, is found by halving windows. Each model here knows its peaks exactly, in constant time:
its terms rise or fall with time without a step back, rounding included. Only the peak of a sum is an upper bound.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import Final, Protocol

import msgspec
import numpy as np

from fairlead.sim.usage.range_maximum import RangeMaximum

#: A century: nothing is looked for beyond it.
LONGEST_SECONDS: Final = 100 * 366 * 86_400.0
#: The shortest time in which a model may change its mind.
SHORTEST_SECONDS: Final = 1.0


class UsageModel(Protocol):
    def at(self, now: float, since: float) -> float:
        """The amount at a moment."""
        ...

    def peak(self, begin: float, end: float, since: float) -> float:
        """The greatest amount of a window, both ends included; never less than `at` is anywhere in it."""
        ...


class Constant(msgspec.Struct, frozen=True):
    amount: float

    def at(self, now: float, since: float) -> float:
        return self.amount

    def peak(self, begin: float, end: float, since: float) -> float:
        return self.amount


class Ramp(msgspec.Struct, frozen=True):
    """From one amount to another in a straight line, which begins with the container; then it stays there."""

    first: float
    last: float
    seconds: float

    def at(self, now: float, since: float) -> float:
        elapsed = now - since
        if elapsed >= self.seconds:
            return self.last
        return _between(self.first, self.last, max(elapsed, 0.0) / self.seconds)

    def peak(self, begin: float, end: float, since: float) -> float:
        return max(self.at(begin, since), self.at(end, since))


class Leak(msgspec.Struct, frozen=True):
    """It grows without end; beyond `most` no node could hold it."""

    first: float
    per_second: float
    most: float

    def at(self, now: float, since: float) -> float:
        return min(self.first + self.per_second * max(now - since, 0.0), self.most)

    def peak(self, begin: float, end: float, since: float) -> float:
        return self.at(end, since)


class Burst(msgspec.Struct, frozen=True):
    """A base with bursts: the first begins one period after the container."""

    base: float
    top: float
    period: float
    lasts: float

    def at(self, now: float, since: float) -> float:
        elapsed = now - since
        return self.top if elapsed >= self.period and elapsed % self.period < self.lasts else self.base

    def peak(self, begin: float, end: float, since: float) -> float:
        begins_burst = max(end - since, 0.0) // self.period > max(begin - since, 0.0) // self.period
        return self.top if begins_burst else self.at(begin, since)


class Wave(msgspec.Struct, frozen=True):
    """Up and down by the clock, not by the container's age: `crest` seconds after midnight UTC it is highest.

    Parabolas stand for the sine, which they never miss by more than 3 % of the height: in floating point they
    rise and fall strictly, and a sine does not.
    """

    low: float
    high: float
    period: float
    crest: float

    def at(self, now: float, since: float) -> float:
        phase = (now - self.crest) % self.period
        rise = 1.0 - min(phase, self.period - phase) / (self.period / 2)  # 0 in the trough, 1 on the crest
        fraction = 2.0 * rise * rise if rise < 0.5 else 1.0 - 2.0 * (1.0 - rise) * (1.0 - rise)
        return _between(self.low, self.high, fraction)

    def peak(self, begin: float, end: float, since: float) -> float:
        if (end - self.crest) // self.period > (begin - self.crest) // self.period:
            return self.high
        return max(self.at(begin, since), self.at(end, since))


#: After so many steps noise repeats itself (with steps of 10 s, after a week).
_NOISE_LENGTH: Final = 2**16


class Noise(msgspec.Struct, frozen=True):
    """Evenly spread around a mean, another amount in each step. Whoever has another seed is elsewhere in the noise."""

    mean: float
    spread: float
    step: float
    seed: int = 0

    def at(self, now: float, since: float) -> float:
        position = (int(now // self.step) + self.seed) % _NOISE_LENGTH
        return self._amount(_noise().at(position))

    def peak(self, begin: float, end: float, since: float) -> float:
        steps = int(end // self.step) - int(begin // self.step)
        first = (int(begin // self.step) + self.seed) % _NOISE_LENGTH
        last = first + steps
        if steps >= _NOISE_LENGTH:
            return self._amount(_noise().of(0, _NOISE_LENGTH - 1))
        if last < _NOISE_LENGTH:
            return self._amount(_noise().of(first, last))
        return self._amount(max(_noise().of(first, _NOISE_LENGTH - 1), _noise().of(0, last - _NOISE_LENGTH)))

    def _amount(self, noise: float) -> float:
        return max(self.mean + self.spread * noise, 0.0)


class Series(msgspec.Struct, frozen=True):
    """What was recorded: rising seconds from 0, each with its amount. Two rows at least."""

    seconds: tuple[float, ...]
    amounts: tuple[float, ...]
    maxima: RangeMaximum

    @property
    def period(self) -> float:
        """How long it is if it is played again: the last row holds as long as the last but one."""
        return 2 * self.seconds[-1] - self.seconds[-2]


class Trace(msgspec.Struct, frozen=True):
    """Played from the start of the container. Each row holds until the next, as Prometheus has it, or leads to it."""

    series: Series
    is_looping: bool = False
    is_linear: bool = False

    def at(self, now: float, since: float) -> float:
        return self._at(self._position(max(now - since, 0.0)))

    def peak(self, begin: float, end: float, since: float) -> float:
        first, last = max(begin - since, 0.0), max(end - since, 0.0)
        if not self.is_looping:
            return self._peak(first, last)
        period = self.series.period
        loops = last // period - first // period
        if loops >= 2:
            return self.series.maxima.of(0, len(self.series.seconds) - 1)
        if loops == 1:
            return max(self._peak(first % period, period), self._peak(0.0, last % period))
        return self._peak(first % period, last % period)

    def _position(self, elapsed: float) -> float:
        return elapsed % self.series.period if self.is_looping else elapsed

    def _at(self, position: float) -> float:
        seconds, amounts = self.series.seconds, self.series.amounts
        index = bisect_right(seconds, position) - 1
        if not self.is_linear or (index == len(seconds) - 1 and not self.is_looping):
            return amounts[index]
        is_last = index == len(seconds) - 1
        following, amount = (self.series.period, amounts[0]) if is_last else (seconds[index + 1], amounts[index + 1])
        fraction = min((position - seconds[index]) / (following - seconds[index]), 1.0)
        return _between(amounts[index], amount, fraction)

    def _peak(self, first: float, last: float) -> float:
        seconds = self.series.seconds
        begin, end = bisect_right(seconds, first) - 1, bisect_right(seconds, last) - 1
        if not self.is_linear:
            return self.series.maxima.of(begin, end)
        ends = max(self._at(first), self._at(last))
        return max(ends, self.series.maxima.of(begin + 1, end)) if end > begin else ends


class Sum(msgspec.Struct, frozen=True):
    """Several at once. The peak is an upper bound: their peaks may come at different moments."""

    parts: tuple[UsageModel, ...]

    def at(self, now: float, since: float) -> float:
        return sum(part.at(now, since) for part in self.parts)

    def peak(self, begin: float, end: float, since: float) -> float:
        return sum(part.peak(begin, end, since) for part in self.parts)


class Capped(msgspec.Struct, frozen=True):
    """Never more than there is room for."""

    model: UsageModel
    most: float

    def at(self, now: float, since: float) -> float:
        return min(self.model.at(now, since), self.most)

    def peak(self, begin: float, end: float, since: float) -> float:
        return min(self.model.peak(begin, end, since), self.most)


def _between(first: float, last: float, fraction: float) -> float:
    amount = first + (last - first) * fraction
    low, high = (first, last) if first <= last else (last, first)
    return min(max(amount, low), high)


@cache
def _noise() -> RangeMaximum:
    """Even noise from -1 to 1: splitmix64 of the position. One table serves all, made when it is first asked."""
    bits = np.arange(1, _NOISE_LENGTH + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return RangeMaximum((bits >> np.uint64(11)).astype(np.float64) / 2.0**52 - 1.0)
