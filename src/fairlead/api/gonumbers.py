"""Numbers, booleans and times that users write as texts, as Go reads them.

Python's `int` takes more, says it in other words, and raises another error for a number of thousands of digits.
"""

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


def atoi(text: str) -> int:
    """`strconv.Atoi(text)`; ValueError in Go's words."""
    return _parsed("Atoi", text, _INT, -(2**63), 2**63 - 1)


def known_int(text: str) -> int | None:
    """A 64-bit integer; None for anything else."""
    try:
        return atoi(text)
    except ValueError:
        return None


def clamped_int(text: str) -> int:
    """What `strconv.Atoi` returns beside its error: the nearest number that there is, 0 for a text that is none."""
    found = known_int(text)
    if found is None and _INT.fullmatch(text):
        return -(2**63) if text.startswith("-") else 2**63 - 1
    return found or 0


def parse_uint(text: str) -> int:
    """`strconv.ParseUint(text, 10, 64)`; ValueError in Go's words."""
    return _parsed("ParseUint", text, _UINT, 0, 2**64 - 1)


def parse_bool(text: str) -> bool:
    """A boolean of a query: what is not clearly false is true (apimachinery's Convert_Slice_string_To_bool)."""
    return text != "0" and text.lower() != "false"


def parse_duration(text: str) -> float:
    """What `time.ParseDuration` takes, in seconds; ValueError in Go's words."""
    at = 1 if text[:1] in ("+", "-") else 0
    if text[at:] == "0":
        return 0.0
    if at == len(text):
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    nanoseconds = 0.0
    while at < len(text):
        number = _AMOUNT.match(text, at)
        if number is None or number[0] == ".":
            raise ValueError(f"time: invalid duration {go_quote(text)}")
        unit = _NO_AMOUNT.match(text, number.end())
        if unit is None:
            raise ValueError(f"time: missing unit in duration {go_quote(text)}")
        if unit[0] not in _NANOSECONDS:
            raise ValueError(f"time: unknown unit {go_quote(unit[0])} in duration {go_quote(text)}")
        nanoseconds += float(number[0]) * _NANOSECONDS[unit[0]]
        if nanoseconds > 2.0**63:
            raise ValueError(f"time: invalid duration {go_quote(text)}")
        at = unit.end()
    return (-nanoseconds if text[0] == "-" else nanoseconds) / 1e9


def _parsed(function: str, text: str, form: re.Pattern[str], smallest: int, largest: int) -> int:
    if not form.fullmatch(text):
        raise ValueError(f"strconv.{function}: parsing {go_quote(text)}: invalid syntax")
    if len(text.lstrip("+-0")) <= _DIGITS and smallest <= (number := int(text.lstrip("+"))) <= largest:
        return number
    raise ValueError(f"strconv.{function}: parsing {go_quote(text)}: value out of range")
