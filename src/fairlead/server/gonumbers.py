"""Numbers, booleans and times in queries as Go reads them: Python's `int` takes more, and says it in other words."""

from __future__ import annotations

import re

from fairlead.api.fields import go_quote

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT = re.compile(r"[0-9]+", re.ASCII)
_AMOUNT = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]*", re.ASCII)
_NO_AMOUNT = re.compile(r"[^0-9.]+", re.ASCII)
_NANOSECONDS = {"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "m": 6e10, "h": 3.6e12}
_DIGITS = 20  # no 64-bit number has more, and `int` takes long for very many


def parse_int(text: str) -> int:
    """`strconv.ParseInt(text, 10, 64)`; ValueError in Go's words."""
    return _parsed("ParseInt", text, _INT, -(2**63), 2**63 - 1)


def parse_uint(text: str) -> int:
    """`strconv.ParseUint(text, 10, 64)`; ValueError in Go's words."""
    return _parsed("ParseUint", text, _UINT, 0, 2**64 - 1)


def parse_bool(text: str) -> bool:
    """A boolean of a query: what is not clearly false is true (apimachinery's Convert_Slice_string_To_bool)."""
    return text != "0" and text.lower() != "false"


def check_duration(text: str) -> None:
    """Whether `time.ParseDuration` takes it; ValueError in Go's words."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return
    if not rest:
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    nanoseconds = 0.0
    while rest:
        number = _AMOUNT.match(rest)
        if number is None or number[0] == ".":
            raise ValueError(f"time: invalid duration {go_quote(text)}")
        unit = _NO_AMOUNT.match(rest, number.end())
        if unit is None:
            raise ValueError(f"time: missing unit in duration {go_quote(text)}")
        if unit[0] not in _NANOSECONDS:
            raise ValueError(f"time: unknown unit {go_quote(unit[0])} in duration {go_quote(text)}")
        nanoseconds += float(number[0]) * _NANOSECONDS[unit[0]]
        if nanoseconds > 2.0**63:
            raise ValueError(f"time: invalid duration {go_quote(text)}")
        rest = rest[unit.end() :]


def _parsed(function: str, text: str, form: re.Pattern[str], smallest: int, largest: int) -> int:
    if not form.fullmatch(text):
        raise ValueError(f"strconv.{function}: parsing {go_quote(text)}: invalid syntax")
    if len(text.lstrip("+-0")) <= _DIGITS and smallest <= (number := int(text.lstrip("+"))) <= largest:
        return number
    raise ValueError(f"strconv.{function}: parsing {go_quote(text)}: value out of range")
