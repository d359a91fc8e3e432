"""Quantities: exact, and written as Kubernetes writes them (S0-42, S0-44, X-14)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.api import quantity
from fairlead.api.quantity import Format, Quantity, QuantityError, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0.5", "500m"),
        ("2500m", "2500m"),
        ("+01.50", "1500m"),
        ("1e-1", "100e-3"),
        ("12E-1", "1200e-3"),
        ("1E6", "1E6"),
        ("10e6", "10e6"),
        ("1000e3", "1e6"),
        ("1000000000000", "1T"),
        ("1.5Gi", "1536Mi"),
        ("0.1Mi", "104857600m"),
        ("0.5Ki", "512"),
        ("1024", "1024"),
        ("1000M", "1G"),
        ("4096Ki", "4Mi"),
        ("0Gi", "0"),
        ("8Ei", "9223372036854775807"),
        ("-9Ei", "-9223372036854775807"),
        ("1e30", "1e30"),
        ("0.1n", "1n"),
        ("0.3Ki", "307200m"),
        ("1000000000000000000", "1E"),
        ("999999999999999999.1", "999999999999999999100m"),
        ("9999999999999999999000m", "9999999999999999999"),
        ("-", "0"),
        (".", "0"),
        (".5", "500m"),
        # upstream keeps what it takes for canonical already
        ("1.", "1."),
        ("+5", "+5"),
        ("05", "05"),
        ("1.Gi", "1.Gi"),
        # upstream has no suffix beyond E, and prints none
        ("1000E", "1"),
    ],
)
def test_text_reads_back_in_canonical_form(text: str, canonical: str) -> None:
    """S0-42, X-14."""
    assert quantity.canonical(text) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", quantity.BAD_FORMAT),
        ("128g", quantity.BAD_FORMAT),
        ("128MB", quantity.BAD_FORMAT),
        ("128 Mi", quantity.BAD_FORMAT),
        ("1,5", quantity.BAD_FORMAT),
        ("1\n", quantity.BAD_FORMAT),
        ("٣", quantity.BAD_FORMAT),
        ("128mi", quantity.BAD_SUFFIX),
        ("1K", quantity.BAD_SUFFIX),
        ("1ki", quantity.BAD_SUFFIX),
        ("1e", quantity.BAD_SUFFIX),
        ("1e99999999999999999999", quantity.BAD_SUFFIX),
        (".e-10", quantity.BAD_NUMBER),
        ("1" * 100_000, quantity.BAD_NUMBER),
        ("0" * 100_000 + "x", quantity.BAD_FORMAT),
    ],
)
def test_what_is_no_quantity_is_refused_in_upstreams_words(text: str, message: str) -> None:
    """S0-44."""
    with pytest.raises(QuantityError) as refused:
        parse(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "rounded"),
    [("100u", "1m"), ("1500u", "2m"), ("0.0005", "1m"), ("0.1234", "124m"), ("1e-1", "100e-3"), ("-1500u", "-2m")],
)
def test_resource_lists_are_rounded_up_to_milli(text: str, rounded: str) -> None:
    """S0-42."""
    assert quantity.round_up_to_milli(text) == rounded


@pytest.mark.parametrize(
    ("value", "canonical"),
    [("1.5", "1500m"), (" 1 ", "1"), (0.25, "250m"), (2, "2"), (1000.0, "1k"), (1e30, "1e30"), (None, "0")],
)
def test_json_may_hold_a_bare_number(value: Any, canonical: str) -> None:
    assert quantity.from_json(value) == canonical


@pytest.mark.parametrize("value", [True, {}, [1]])
def test_json_of_another_kind_is_no_quantity(value: Any) -> None:
    with pytest.raises(QuantityError, match="regular expression"):
        quantity.from_json(value)


def test_overflow_is_gos() -> None:
    """An int64 amount that overflows is 0, a big decimal keeps its low bits: hence the odd warning about `1Ei`."""
    assert quantity.units("1e30") == 0
    assert not quantity.is_integer("1Ei")
    assert quantity.is_integer("8Ei")
    assert not quantity.is_integer("100m")
    assert quantity.units("1Ei") == 2**60


def test_gigantic_exponents_cost_nothing() -> None:
    total = parse("1e2000000000") + parse("1e-2000000000") + parse("1")
    assert total > parse("1E")
    assert quantity.canonical("1e-2000000000") == "1e-9"


def test_sum_takes_the_style_of_what_is_not_zero() -> None:
    zero = Quantity(0)
    assert str(zero + parse("1Gi")) == "1Gi"
    assert str(parse("1Gi") + zero) == "1Gi"
    assert str(zero - parse("1Gi")) == "-1Gi"
    assert str(parse("1Gi") + parse("500m")) == "1073741824500m"
    assert str(Quantity.of_units(2048, Format.BINARY_SI)) == "2Ki"


SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "e3": 3, "E-2": -2}
texts = st.builds(
    lambda sign, number, suffix: f"{sign}{number}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.one_of(st.integers(0, 10**9).map(str), st.decimals(0, 10**6, places=4, allow_nan=False).map(lambda d: f"{d:f}")),
    st.sampled_from([*SUFFIXES, "Ki", "Mi", "Gi"]),
)


@given(texts)
def test_canonical_text_means_the_same_and_is_canonical(text: str) -> None:
    canonical = quantity.canonical(text)
    assert parse(canonical) == parse(text)
    assert quantity.canonical(canonical) == canonical


@given(st.integers(-(10**12), 10**12), st.sampled_from([*SUFFIXES]))
def test_parsing_is_exact(number: int, suffix: str) -> None:
    exact = Fraction(number) * Fraction(10) ** SUFFIXES[suffix]
    assert Fraction(parse(f"{number}{suffix}").nanos, 10**9) == exact


@given(texts, texts)
def test_addition_is_commutative_and_subtraction_undoes_it(one: str, other: str) -> None:
    a, b = parse(one), parse(other)
    assert a + b == b + a
    assert a + b - b == a
    assert (a < b) == (b - a > Quantity(0))


@given(texts)
def test_units_and_milli_are_rounded_away_from_zero(text: str) -> None:
    exact = Fraction(parse(text).nanos, 10**9)
    assume(abs(exact) * 1000 <= quantity.MAX_INT64)
    units, milli = quantity.units(text), quantity.milli(text)
    assert 0 <= abs(units) - abs(exact) < 1
    assert 0 <= abs(milli) - abs(exact * 1000) < 1
