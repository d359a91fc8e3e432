"""Numbers, booleans and times that users write as texts, as Go reads them.

Python's `int` takes more, says it in other words, and raises another error for a number of thousands of digits.
"""

from __future__ import annotations

import re

from fairlead.golang.quoting import go_quote

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT = re.compile(r"[0-9]+", re.ASCII)
_OLD_OCTAL = re.compile(r"[+-]?0_?[0-7]+(?:_[0-7]+)*", re.ASCII)
_LITERAL = re.compile(
    r"[+-]?(?:0|[1-9][0-9]*(?:_[0-9]+)*|0_?[0-7]+(?:_[0-7]+)*|0[xX](?:_?[0-9a-fA-F]+)+|0[oO](?:_?[0-7]+)+|0[bB](?:_?[01]+)+)",
    re.ASCII,
)
_SANE_LITERAL = 80
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


_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def parse_strict_bool(text: str) -> bool:
    """`strconv.ParseBool(text)`; ValueError in Go's words."""
    if text not in _TRUE and text not in _FALSE:
        raise ValueError(f"strconv.ParseBool: parsing {go_quote(text)}: invalid syntax")
    return text in _TRUE


def parse_literal_int(text: str, bits: int) -> int:
    """`strconv.ParseInt(text, 0, bits)`: 10, 0x1f, 0o17, 017, 1_000; ValueError in Go's words."""
    if not _LITERAL.fullmatch(text):
        raise ValueError(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    octal = _OLD_OCTAL.fullmatch(text)
    number = 0
    if len(text) <= _SANE_LITERAL:
        number = int(text.replace("_", ""), 8) if octal else int(text, 0)
    if len(text) > _SANE_LITERAL or not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
    return number


def _parsed(function: str, text: str, form: re.Pattern[str], smallest: int, largest: int) -> int:
    if not form.fullmatch(text):
        raise ValueError(f"strconv.{function}: parsing {go_quote(text)}: invalid syntax")
    if len(text.lstrip("+-0")) <= _DIGITS and smallest <= (number := int(text.lstrip("+"))) <= largest:
        return number
    raise ValueError(f"strconv.{function}: parsing {go_quote(text)}: value out of range")
