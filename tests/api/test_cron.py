"""Cron schedules: what they mean, what is wrong with them, when they fire."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.cron import ScheduleError, parse


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ("", "empty spec string"),
        ("TZ=Mars/Phobos * * * * *", "provided bad location Mars/Phobos: unknown time zone Mars/Phobos"),
        ("CRON_TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ("-5 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("@often", "unrecognized descriptor: @often"),
        ("@every 2562048h", 'failed to parse duration @every 2562048h: time: invalid duration "2562048h"'),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        (
            "*/9223372036854775808 * * * *",
            "failed to parse int from 9223372036854775808: "
            'strconv.Atoi: parsing "9223372036854775808": value out of range',
        ),
    ],
)
def test_what_is_no_schedule_is_refused_in_the_words_of_the_parser_upstream(schedule: str, error: str) -> None:
    with pytest.raises(ScheduleError) as refusal:
        parse(schedule)
    assert str(refusal.value) == error


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
        ("*/15 * * * *", "2026-01-01T00:44:59Z", "2026-01-01T00:45:00Z"),
        ("30 3 * * mon-fri", "2026-01-02T03:30:00Z", "2026-01-05T03:30:00Z"),
        ("0 0 1 JAN *", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),  # either of the two days
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("5/20 8-10/2 * * *", "2026-01-01T08:45:00Z", "2026-01-01T10:05:00Z"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("@every 1h30m", "2026-01-01T00:00:00Z", "2026-01-01T01:30:00Z"),
        ("@every -5m", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ("0 0 13 * */1", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"),  # a step of one is any day
        ("0 0 13 * 5,*", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"),
        ("0 0 13 * */7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),  # Sundays, or the 13th
        ("*-3 5 * * *", "2026-01-01T05:03:00Z", "2026-01-01T05:04:00Z"),
        ("TZ= 0 6 * * *", "2026-01-01T00:00:00Z", "2026-01-01T06:00:00Z"),
        ("TZ=Asia/Kolkata 0 6 * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z"),
        ("TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),  # 02:30 does not exist
        ("TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),  # and here it is twice
    ],
)
def test_a_schedule_fires_next_at(schedule: str, after: str, expected: str) -> None:
    found = parse(schedule).next_after(seconds(after))
    assert found is not None
    assert datetime.fromtimestamp(found, UTC) == datetime.fromisoformat(expected)


def test_a_day_that_never_comes_is_never() -> None:
    assert parse("0 0 30 2 *").next_after(0.0) is None
    assert parse(", * * * *").next_after(0.0) is None


def test_a_zone_beside_the_schedule_counts_unless_the_schedule_names_one() -> None:
    midnight = seconds("2026-01-01T00:00:00Z")
    assert parse("0 6 * * *", "Asia/Kolkata").next_after(midnight) == seconds("2026-01-01T00:30:00Z")
    assert parse("TZ=UTC 0 6 * * *", "Asia/Kolkata").next_after(midnight) == seconds("2026-01-01T06:00:00Z")


@given(
    st.sampled_from(["*/7 3 * * *", "0 0 29 2 *", "* * 1 1 *", "@every 90s"]), st.integers(0, 2**31), st.integers(2, 29)
)
def test_the_latest_time_is_the_one_before_the_next(text: str, since: int, count: int) -> None:
    schedule = parse(text)
    times = [float(since)]
    while len(times) <= count and (following := schedule.next_after(times[-1])) is not None:  # none before 29 Feb 2104
        times.append(following)
    *_, before, last = times
    assert schedule.latest(times[1], last) == last
    assert schedule.latest(times[1], last - 1) == before


FIELD = st.lists(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["*", "?", "0", "1", "5", "31", "mon", "a", ""]),
        st.sampled_from(["", "-7", "-1", "-"]),
        st.sampled_from(["", "/2", "/0", "/"]),
    ),
    min_size=1,
    max_size=3,
).map(",".join)


@given(st.lists(FIELD, min_size=5, max_size=5).map(" ".join), st.integers(0, 2**32))
def test_a_text_either_fires_later_or_never_or_is_refused(text: str, time: int) -> None:
    try:
        schedule = parse(text)
    except ScheduleError as refusal:
        assert str(refusal)
    else:
        following = schedule.next_after(time)
        assert following is None or (following > time and following % 60 == 0)
