from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.golang.durations import (
    format_nanoseconds,
    format_seconds,
    non_negative_seconds,
    parse_nanoseconds,
    parse_seconds,
)

MOST = 2**63


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m30s", 90.0), ("1.5h", 5400.0), ("500ms", 0.5), ("30s1m", 90.0), ("0", 0.0), ("2540400h", 2540400 * 3600.0)],
)
def test_a_duration_is_what_go_takes(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds
    assert non_negative_seconds(text) == seconds
    assert parse_seconds(f"-{text}") == -seconds


@pytest.mark.parametrize("text", ["", "15", "-5s", "1 m", "s", "٣s", "2562048h", "9" * 400 + "h", "9" * 5000 + "s"])
def test_what_is_none_is_told_of(text: str) -> None:
    """Go's are of 64 bits, in nanoseconds: an end that is later has no date."""
    with pytest.raises(ValueError, match="is not a duration: write 15s or 1m30s"):
        non_negative_seconds(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("+", 'time: invalid duration "+"'),
        (".", 'time: invalid duration "."'),
        ("3", 'time: missing unit in duration "3"'),
        ("1.1.1s", 'time: missing unit in duration "1.1.1s"'),
        ("9223372036854775809", 'time: invalid duration "9223372036854775809"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        ("1é\n", r'time: unknown unit "\xc3\xa9\x0a" in duration "1\xc3\xa9\x0a"'),
        ('1"\\', r'time: unknown unit "\"\\" in duration "1\"\\"'),
    ],
)
def test_refusals_are_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^time: ") as refusal:
        parse_nanoseconds(text)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (10 * 10**9, "10s"),
        (80 * 10**9, "1m20s"),
        (300 * 10**9, "5m0s"),
        (3600 * 10**9, "1h0m0s"),
        (245_000_000_001, "4m5.000000001s"),
        (MOST - 1, "2562047h47m16.854775807s"),
        (-MOST, "-2562047h47m16.854775808s"),
    ],
)
def test_a_duration_is_printed_as_go_prints_it(nanoseconds: int, text: str) -> None:
    assert format_nanoseconds(nanoseconds) == text


@given(st.integers(-MOST, MOST - 1))
def test_what_is_printed_reads_back(nanoseconds: int) -> None:
    assert parse_nanoseconds(format_nanoseconds(nanoseconds)) == nanoseconds


@given(st.integers(-(10**6), 10**6))
def test_seconds_that_are_printed_read_back(thousandths: int) -> None:
    assert parse_seconds(format_seconds(thousandths / 1000)) == thousandths / 1000


@given(st.text("0123456789", max_size=2000), st.text("0123456789", max_size=2000), st.sampled_from("smh"))
def test_no_number_of_digits_overflows(whole: str, fraction: str, unit: str) -> None:
    """However long the number, it is within 64 bits or refused."""
    try:
        found = parse_nanoseconds(f"{whole}.{fraction}{unit}")
    except ValueError as refusal:
        assert not (whole or fraction) or int(whole or 0) > MOST // 3600 // 10**9, refusal
    else:
        assert int(whole or 0) * 10**9 <= found < MOST
