"""Numbers in texts, as `strconv` reads them."""

from __future__ import annotations

import pytest

from fairlead.golang.numbers import parse_literal_int, parse_strict_bool


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10", 10),
        ("-1", -1),
        ("+7", 7),
        ("0x1F", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("017", 15),
        ("1_000", 1000),
        ("0", 0),
    ],
)
def test_an_integer_is_written_as_in_go(text: str, number: int) -> None:
    assert parse_literal_int(text, 32) == number


@pytest.mark.parametrize("text", ["", "many", " 1", "1.5", "08", "_1", "1__0", "0x", "٣"])
def test_what_is_no_integer_is_told_of(text: str) -> None:
    with pytest.raises(ValueError, match=r"^strconv.ParseInt: parsing .*: invalid syntax$"):
        parse_literal_int(text, 32)


@pytest.mark.parametrize("text", ["2147483648", "-2147483649", "9" * 5000])
def test_an_integer_of_too_many_bits_is_told_of(text: str) -> None:
    with pytest.raises(ValueError, match=r"^strconv.ParseInt: parsing .*: value out of range$"):
        parse_literal_int(text, 32)


def test_a_boolean_is_one_of_few_words() -> None:
    assert [parse_strict_bool(text) for text in ("true", "T", "1", "false", "F", "0")] == [True] * 3 + [False] * 3
    with pytest.raises(ValueError, match=r'^strconv.ParseBool: parsing "yes": invalid syntax$'):
        parse_strict_bool("yes")
