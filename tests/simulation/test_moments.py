"""How tests spell durations and moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.runtime.loops import DEFAULT_EPOCH
from fairlead.simulation.moments import Duration, Moment, moment_of, seconds_of

A_DAY = 86_400


@pytest.mark.parametrize(
    ("duration", "seconds"), [("90s", 90), ("1h30m", 5400), (7.5, 7.5), (0, 0), (timedelta(days=7), 7 * A_DAY)]
)
def test_a_duration_in_every_spelling(duration: Duration, seconds: float) -> None:
    assert seconds_of(duration) == seconds


@pytest.mark.parametrize("duration", ["soon", "-1s", -1, float("inf"), float("nan"), timedelta(seconds=-1)])
def test_what_is_no_duration_is_refused(duration: Duration) -> None:
    with pytest.raises(ValueError, match="is no"):
        seconds_of(duration)


@pytest.mark.parametrize(
    ("moment", "after_midnight"),
    [
        ("06:00", 6 * 3600),
        ("06:00:30", 6 * 3600 + 30),
        ("2026-01-02T00:00:00Z", A_DAY),
        ("2026-01-02T01:00:00+01:00", A_DAY),
        ("2026-01-02T00:00:00", A_DAY),
        (datetime(2026, 1, 2, tzinfo=UTC), A_DAY),
        (DEFAULT_EPOCH + 5, 5),
    ],
)
def test_a_moment_in_every_spelling(moment: Moment, after_midnight: float) -> None:
    assert moment_of(moment, DEFAULT_EPOCH) == DEFAULT_EPOCH + after_midnight


@pytest.mark.parametrize("moment", ["24:00", "6:00", "tomorrow", "٠٦:٠٠"])
def test_what_is_no_moment_is_refused(moment: str) -> None:
    with pytest.raises(ValueError, match="is no moment: write 06:00"):
        moment_of(moment, DEFAULT_EPOCH)


def test_a_datetime_says_where_it_is() -> None:
    with pytest.raises(ValueError, match="give it a time zone"):
        moment_of(datetime(2026, 1, 2), DEFAULT_EPOCH)


@given(st.integers(0, 4_000_000_000), st.times().map(lambda time: time.replace(microsecond=0)))
def test_a_time_of_day_is_the_next_one(now: int, time: object) -> None:
    found = moment_of(str(time), now)
    assert now < found <= now + A_DAY
    assert str(datetime.fromtimestamp(found, UTC).time()) == str(time)
