from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.runtime.token_bucket import TokenBucket

RATES = st.floats(0.01, 1000)
BURSTS = st.integers(1, 100).map(float)
REQUESTS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 20)), min_size=1, max_size=50)


@given(RATES, BURSTS, REQUESTS)
def test_no_stretch_of_time_gives_more_than_the_burst_and_what_flows_in(
    rate: float, burst: float, requests: list[tuple[float, float]]
) -> None:
    bucket, now = TokenBucket(rate, burst, 0.0), 0.0
    granted: list[tuple[float, float]] = []
    for pause, amount in requests:
        now += pause
        if bucket.take(now, amount):
            granted.append((now, amount))
    for start in range(len(granted)):
        began, total = granted[start][0], 0.0
        for at, amount in granted[start:]:
            total += amount
            assert total <= burst + rate * (at - began) + 1e-6 * (burst + total)


@given(RATES, BURSTS, st.integers(1, 50))
def test_who_waits_for_the_next_token_always_gets_it(rate: float, burst: float, count: int) -> None:
    bucket = TokenBucket(rate, burst, 0.0)
    assert bucket.take(0.0, burst)
    times = [turn * 1.001 / rate for turn in range(1, count + 1)]
    assert all(bucket.take(at) for at in times)


@given(RATES, BURSTS, st.lists(st.floats(-100, 100), min_size=2, max_size=20))
def test_a_clock_that_is_set_back_gives_nothing(rate: float, burst: float, times: list[float]) -> None:
    bucket = TokenBucket(rate, burst, times[0])
    assert bucket.take(times[0], burst)
    flown = sum(max(after - before, 0.0) for before, after in pairwise(times)) * rate
    granted = sum(bucket.take(at) for at in times)
    assert granted <= flown + 1e-6 * (1 + flown)


def test_what_is_not_there_whole_is_left_there() -> None:
    bucket = TokenBucket(1.0, 5.0, 0.0)
    assert not bucket.take(0.0, 6)
    assert bucket.take(0.0, 5)
    assert not bucket.take(0.5)
    assert bucket.take(1.0)


@given(RATES, BURSTS, st.integers(1, 20))
def test_who_borrows_waits_as_long_as_it_takes_to_give_so_many(rate: float, burst: float, count: int) -> None:
    bucket = TokenBucket(rate, burst, 0.0)
    waits = [bucket.borrow(0.0) for _ in range(count)]
    assert waits == pytest.approx([max(number - burst, 0.0) / rate for number in range(1, count + 1)], abs=1e-6)
