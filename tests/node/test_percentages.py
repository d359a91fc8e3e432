"""Percentages of capacities are 32-bit floats (README-node.md, 1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.quantity import parse
from fairlead.node.percentages import ThresholdValue, float32, parse_percentage, share

GI = 2**30


@pytest.mark.parametrize(
    ("text", "capacity", "expected"),
    [("10%", 100 * GI, 10737418400), ("10%", 10 * GI, 1073741840), ("5%", 10 * GI, 536870920), ("10%%", 100, 10)],
)
def test_a_percentage_is_taken_as_a_kubelet_takes_it(text: str, capacity: int, expected: int) -> None:
    assert share(parse_percentage(text), capacity) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x%", 'strconv.ParseFloat: parsing "x": invalid syntax'),
        ("%", 'strconv.ParseFloat: parsing "": invalid syntax'),
        ("1_0%", 'strconv.ParseFloat: parsing "1_0": invalid syntax'),
        ("1e99%", 'strconv.ParseFloat: parsing "1e99": value out of range'),
    ],
)
def test_what_is_no_percentage_is_refused_in_gos_words(text: str, error: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_percentage(text)
    assert str(refusal.value) == error


def test_a_threshold_is_an_amount_or_a_share() -> None:
    assert ThresholdValue(parse("100Mi")).of(parse("1Gi")) == parse("100Mi")
    assert str(ThresholdValue(percentage=parse_percentage("10%")).of(parse("100Gi"))) == "10737418400"


@given(st.floats(0, 100), st.integers(0, 2**60), st.integers(0, 2**60))
def test_shares_stay_within_the_capacity_and_grow_with_it(percent: float, capacity: int, extra: int) -> None:
    percentage = parse_percentage(f"{percent!r}%")
    assert 0 <= share(percentage, capacity) <= share(percentage, capacity + extra) <= float(capacity + extra)


@given(st.floats(allow_nan=False))
def test_a_32_bit_float_is_its_own_nearest(value: float) -> None:
    assert float32(float32(value)) == float32(value)


def test_a_percentage_that_is_no_number_is_never_fallen_short_of() -> None:
    """The kubelet takes `nan%`, and Go on amd64 makes the least int64 of it."""
    assert share(parse_percentage("nan%"), 10 * 2**30) == -(2**63)
    assert share(parse_percentage("inf%"), 10 * 2**30) == -(2**63)
