"""Usage as a function of time: the peak of a window is what it says, and crossings are found on time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.sim.usage.crossing import RESOLUTION_SECONDS, first_above
from fairlead.sim.usage.models import (
    LONGEST_SECONDS,
    Burst,
    Constant,
    Leak,
    Noise,
    Ramp,
    Series,
    Sum,
    Trace,
    UsageModel,
    Wave,
)
from fairlead.sim.usage.range_maximum import RangeMaximum

START = 1_700_000_000.0
amounts = st.floats(0, 1e12) | st.integers(0, 5).map(float)
durations = st.floats(1, 1e6) | st.integers(1, 100).map(float)
moments = st.floats(START - 1e5, START + 1e7) | st.integers(0, 1000).map(lambda seconds: START + seconds)


@st.composite
def bursts(draw: st.DrawFn) -> Burst:
    base, period = draw(amounts), draw(durations)
    return Burst(base, base + draw(amounts), period, draw(st.floats(1, period)))


@st.composite
def waves(draw: st.DrawFn) -> Wave:
    low, period = draw(amounts), draw(durations)
    return Wave(low, low + draw(amounts), period, draw(st.floats(0, period)))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    gaps = draw(st.lists(st.floats(1, 1e4), min_size=1, max_size=12))
    seconds = tuple(math.fsum(gaps[:count]) for count in range(len(gaps) + 1))
    values = tuple(draw(st.lists(amounts, min_size=len(seconds), max_size=len(seconds))))
    return Trace(Series(seconds, values, RangeMaximum(values)), draw(st.booleans()), draw(st.booleans()))


models: st.SearchStrategy[UsageModel] = st.one_of(
    st.builds(Constant, amounts),
    st.builds(Ramp, amounts, amounts, durations),
    st.builds(lambda first, rate: Leak(first, rate, 1e15), amounts, amounts),
    bursts(),
    waves(),
    st.builds(lambda mean, spread, step, seed: Noise(mean, mean * spread, step, seed),
              amounts, st.floats(0, 1), durations, st.integers(0, 2**32)),
    traces(),
)  # fmt: skip


@given(models, moments, moments, st.data())
def test_no_moment_of_a_window_is_above_its_peak(
    model: UsageModel, begin: float, end: float, data: st.DataObject
) -> None:
    begin, end = sorted((begin, end))
    peak = model.peak(begin, end, START)
    for moment in (begin, end, data.draw(st.floats(begin, end))):
        assert model.at(moment, START) <= peak


@given(models, moments, moments)
def test_the_peak_of_one_model_is_reached_in_its_window(model: UsageModel, begin: float, end: float) -> None:
    """Found by halving, as everybody finds it: of two halves at least one has the peak of the whole."""
    begin, end = sorted((begin, end))
    peak = model.peak(begin, end, START)
    while end - begin > 1e-5:
        middle = (begin + end) / 2
        begin, end = (begin, middle) if model.peak(begin, middle, START) == peak else (middle, end)
        assert model.peak(begin, end, START) == peak
    assert max(model.at(begin, START), model.at(end, START)) == pytest.approx(peak, rel=1e-3, abs=1e-3)


@given(st.lists(models, min_size=2, max_size=3), moments, moments, st.data())
def test_no_moment_of_a_sum_is_above_its_peak(
    parts: list[UsageModel], begin: float, end: float, data: st.DataObject
) -> None:
    begin, end = sorted((begin, end))
    total = Sum(tuple(parts))
    assert total.at(data.draw(st.floats(begin, end)), START) <= total.peak(begin, end, START)


@given(models, amounts, st.integers(0, 10**6), st.data())
def test_a_crossing_is_never_early_and_hardly_late(
    model: UsageModel, level: float, after: int, data: st.DataObject
) -> None:
    begin = START + after
    found = first_above(model, level, START, begin)
    if found is None:
        assert model.at(begin + data.draw(st.floats(0, 1e8)), START) <= level
        return
    assert model.at(found, START) > level
    if found > begin:
        before = max(found - 1.1 * RESOLUTION_SECONDS, begin)
        assert model.peak(begin, before, START) <= level or before == begin


def test_a_leak_crosses_its_limit_when_arithmetic_says_so() -> None:
    found = first_above(Leak(0.0, 10.0, 1e6), 50.0, START, START)
    assert found == pytest.approx(START + 5.0, abs=0.002)


def test_what_stays_below_a_level_never_crosses_it() -> None:
    assert first_above(Wave(1.0, 5.0, 86_400.0, 0.0), 5.0, START, START) is None
    assert first_above(Ramp(1.0, 5.0, LONGEST_SECONDS), 5.0, START, START) is None
    assert first_above(Noise(5.0, 1.0, 1.0), 6.0, START, START) is None


def test_bursts_that_meet_cross_together() -> None:
    """Each alone stays below: every 6 and every 10 seconds they meet after 30."""
    both = Sum((Burst(0.0, 1.0, 6.0, 1.0), Burst(0.0, 1.0, 10.0, 1.0)))
    assert first_above(both, 1.5, START, START) == pytest.approx(START + 30.0, abs=0.002)


class _Counted:
    """A model that counts how often it is asked."""

    def __init__(self, model: UsageModel) -> None:
        self.model = model
        self.questions = 0

    def at(self, now: float, since: float) -> float:
        self.questions += 1
        return self.model.at(now, since)

    def peak(self, begin: float, end: float, since: float) -> float:
        self.questions += 1
        return self.model.peak(begin, end, since)


@pytest.mark.parametrize(
    "model",
    [
        Burst(0.0, 2.0, 1.0, 1.0),
        Noise(2.0, 2.0, 1.0),
        Ramp(0.0, 2.0, LONGEST_SECONDS),
        Leak(0.0, 1e-9, 2.0),
        Sum((Burst(0.0, 1.5, 2.0, 1.0), Burst(0.0, 1.5, 4.0, 1.0), Ramp(0.0, -1.0, 1.0))),
        Sum((Noise(0.6, 0.5, 1.0), Noise(0.6, 0.5, 1.0, 7))),
    ],
    ids=["bursts every second", "noise", "a ramp of a century", "a slow leak", "sums of bursts", "sums of noise"],
)
def test_a_crossing_costs_little_whatever_the_model(model: UsageModel) -> None:
    for level in (1.0, 1.9999, 2.19999999):
        counted = _Counted(model)
        first_above(counted, level, START, START)
        assert counted.questions < 10_000


def test_noise_is_the_same_each_time_and_another_for_another_seed() -> None:
    def sequence(seed: int) -> list[float]:
        return [Noise(100.0, 10.0, 10.0, seed).at(START + 10.0 * step, START) for step in range(50)]

    assert sequence(1) == sequence(1)
    assert len(set(sequence(1))) > 40
    assert sequence(1) != sequence(2)
    assert all(90.0 <= amount <= 110.0 for amount in sequence(3))
    many = [Noise(100.0, 10.0, 10.0).at(10.0 * step, 0.0) for step in range(2000)]
    assert sum(many) / len(many) == pytest.approx(100.0, abs=0.5)


def test_a_wave_is_highest_at_its_time_of_day() -> None:
    wave = Wave(100.0, 1000.0, 86_400.0, 14 * 3600.0)
    midnight = 1_700_006_400.0
    assert midnight % 86_400 == 0
    assert wave.at(midnight + 14 * 3600, 0.0) == 1000.0
    assert wave.at(midnight + 2 * 3600, 0.0) == 100.0
    assert wave.at(midnight + 8 * 3600, 0.0) == 550.0


def test_a_trace_holds_its_last_amount_or_begins_again() -> None:
    series = Series((0.0, 10.0, 20.0), (1.0, 3.0, 2.0), RangeMaximum((1.0, 3.0, 2.0)))
    once, again, linear = Trace(series), Trace(series, is_looping=True), Trace(series, is_linear=True)
    assert [once.at(START + second, START) for second in (0, 9, 10, 25, 1000)] == [1, 1, 3, 2, 2]
    assert [again.at(START + second, START) for second in (0, 25, 30, 45)] == [1, 2, 1, 3]
    assert [linear.at(START + second, START) for second in (0, 5, 10, 15, 25)] == [1, 2, 3, 2.5, 2]
    assert Trace(series, is_looping=True, is_linear=True).at(START + 25, START) == 1.5


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40), st.data())
def test_the_maximum_of_any_range_is_that_of_its_numbers(numbers: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(numbers) - 1))
    last = data.draw(st.integers(first, len(numbers) - 1))
    assert RangeMaximum(numbers).of(first, last) == max(numbers[first : last + 1])
