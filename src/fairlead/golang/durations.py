"""Go's `time.Duration`, such as `1m30s`: nanoseconds in 64 bits, read by `ParseDuration` and printed by `String`."""

from __future__ import annotations

import re
from typing import Final

from fairlead.caches import bounded_cache
from fairlead.golang.quoting import time_quote

NANOSECONDS: Final = 10**9  # in a second

_NUMBER: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?", re.ASCII)
_UNIT: Final = re.compile(r"[^0-9.]+", re.ASCII)
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_MINUTE, _HOUR = _UNITS["m"], _UNITS["h"]
_BEYOND: Final = 2**63
_DIGITS: Final = 19  # no 63-bit number has more
#: Digits of a fraction beyond these are less than a nanosecond of an hour, however many zeros they follow.
_PLACES: Final = 64


@bounded_cache(maxsize=1024)
def parse_nanoseconds(text: str) -> int:
    """What `time.ParseDuration` reads; ValueError in Go's words."""
    is_negative = text[:1] == "-"
    start = 1 if text[:1] in ("+", "-") else 0
    if text[start:] == "0":
        return 0
    total, position = 0, start
    while position < len(text):
        amount, position = _term(text, position)
        total += amount
        if total > _BEYOND:
            raise _invalid(text)
    if position == start or (total == _BEYOND and not is_negative):
        raise _invalid(text)
    return -total if is_negative else total


def parse_seconds(text: str) -> float:
    """The same in seconds."""
    return parse_nanoseconds(text) / NANOSECONDS


def non_negative_seconds(text: str) -> float:
    """A duration of a configuration, which may be zero but not negative; ValueError says how to write one."""
    try:
        seconds = parse_seconds(text)
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise ValueError(f"{text!r} is not a duration: write 15s or 1m30s")
    return seconds


def format_nanoseconds(nanoseconds: int) -> str:
    """What `Duration.String` prints: `1h0m0s`, `1m30.5s`, `1.5ms`, `0s`."""
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if not rest:
        return "0s"
    if rest < NANOSECONDS:
        unit = next(unit for unit in ("ms", "µs", "ns") if rest >= _UNITS[unit])
        return f"{sign}{_decimal(rest, _UNITS[unit])}{unit}"
    minutes, rest = divmod(rest, _MINUTE)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, NANOSECONDS)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def format_seconds(seconds: float) -> str:
    """The same of a number of seconds."""
    return format_nanoseconds(round(seconds * NANOSECONDS))


def _term(text: str, position: int) -> tuple[int, int]:
    """One number with its unit: how many nanoseconds, and where the next begins."""
    number = _NUMBER.match(text, position)
    assert number is not None  # it matches nothing at all, too
    digits, fraction = number[1].lstrip("0"), number[2] or ""
    if not (number[1] or fraction) or len(digits) > _DIGITS or (whole := int(digits or 0)) > _BEYOND:
        raise _invalid(text)
    unit = _UNIT.match(text, number.end())
    if unit is None:
        raise ValueError(f"time: missing unit in duration {time_quote(text)}")
    size = _UNITS.get(unit[0])
    if size is None:
        raise ValueError(f"time: unknown unit {time_quote(unit[0])} in duration {time_quote(text)}")
    return whole * size + _fraction(fraction[:_PLACES], size), unit.end()


def _fraction(digits: str, size: int) -> int:
    """The part of a unit behind the point, with the rounding of Go's floats; 63 bits of digits count."""
    number, scale = 0, 1.0
    for digit in digits:
        if number > (_BEYOND - 1) // 10:
            break
        number = number * 10 + int(digit)
        scale *= 10
    return int(number * (size / scale))


def _decimal(amount: int, unit: int) -> str:
    """A quotient by a power of ten, exact, without zeros at its end."""
    whole, rest = divmod(amount, unit)
    digits = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else str(whole)


def _invalid(text: str) -> ValueError:
    return ValueError(f"time: invalid duration {time_quote(text)}")
