"""Points in time as Go reads and writes them: `metav1.Time` and `metav1.MicroTime`.

Clients send any RFC 3339 text and read back UTC, cut to seconds or with six decimals; a text that is none of this is
refused with the words of Go's `time.Parse`, which name the place where the reading failed. Python's own parser would
accept more and explain less.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from fairlead.caches import bounded_cache
from fairlead.golang.quoting import go_quote

_SECONDS: Final = "2006-01-02T15:04:05Z07:00"
_MICROS: Final = "2006-01-02T15:04:05.000000Z07:00"
#: A year that is not that of Go's zero time, and everything as `written` would write it.
_WRITTEN: Final = r"(?!000)[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_WRITTEN_SECONDS: Final = re.compile(_WRITTEN + "Z")
_WRITTEN_MICROS: Final = re.compile(_WRITTEN + r"\.[0-9]{6}Z")


class TimestampError(ValueError):
    """The text is no time; `str()` of it is Go's message."""


@bounded_cache(maxsize=4096)
def seconds(text: str) -> str | None:
    """The `metav1.Time` that reads back for a text; None for Go's zero time, which is written as null."""
    if _is_written(text, _WRITTEN_SECONDS):
        return text
    moment = _parsed(text, _SECONDS)
    return None if moment == _ZERO else written(moment)


@bounded_cache(maxsize=4096)
def micros(text: str) -> str | None:
    """The `metav1.MicroTime` that reads back for a text."""
    if _is_written(text, _WRITTEN_MICROS):
        return text
    moment = _parsed(text, _MICROS)
    return None if moment == _ZERO else written(moment, "microseconds")


def _is_written(text: str, pattern: re.Pattern[str]) -> bool:
    """Whether it is a time that stays as it is, as nearly all are. What is none is told of in Go's words, by others."""
    if not pattern.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def of_epoch(epoch_seconds: int, nanos: int) -> datetime:
    """The moment that protobuf's two numbers stand for; ValueError outside of the years 1 to 9999."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=epoch_seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def written(moment: datetime, precision: str = "seconds") -> str:
    """A moment in UTC as the API shows it."""
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


_ZERO: Final = datetime(1, 1, 1, tzinfo=UTC)

#: One step of a layout: what Go calls it, what it must look like, and how it names a value out of range.
_LayoutElement = tuple[str, Callable[[str], "re.Match[str] | None"], str, int, int]


def _step(name: str, pattern: str, field: str = "", least: int = 0, most: int = 0) -> _LayoutElement:
    return name, re.compile(pattern).match, field, least, most


_DATE: Final = (
    _step("2006", r"\d{4}"), _step("-", "-"), _step("01", r"\d\d", "month", 1, 12), _step("-", "-"),
    _step("02", r"\d\d"), _step("T", "T"), _step("15", r"\d\d?", "hour", 0, 23), _step(":", ":"),
    _step("04", r"\d\d", "minute", 0, 59), _step(":", ":"),
)  # fmt: skip
_ZONE: Final = _step("Z07:00", r"Z|[+-]\d\d:\d\d")
_LAYOUTS: Final = {
    # Go reads a fraction after the seconds even where the layout has none.
    _SECONDS: (*_DATE, _step("05", r"(\d\d)([.,]\d+)?", "second", 0, 59), _ZONE),
    _MICROS: (*_DATE, _step("05", r"\d\d", "second", 0, 59), _step(".000000", r"[.,]\d{6}"), _ZONE),
}


def _parsed(text: str, layout: str) -> datetime:
    found: dict[str, str] = {}
    rest = text
    for name, match, field, least, most in _LAYOUTS[layout]:
        matched = match(rest)
        if matched is None:
            where = f"cannot parse {go_quote(rest)} as {go_quote(name)}"
            raise TimestampError(f"parsing time {go_quote(text)} as {go_quote(layout)}: {where}")
        found[name] = matched.group()
        rest = rest[matched.end() :]
        if field and not least <= int(found[name][:2]) <= most:
            raise TimestampError(f"parsing time {go_quote(text)}: {field} out of range")
    if rest:
        raise TimestampError(f"parsing time {go_quote(text)}: extra text: {go_quote(rest)}")
    return _moment(text, found)


def _moment(text: str, found: dict[str, str]) -> datetime:
    year, month, day = int(found["2006"]), int(found["01"]), int(found["02"])
    if not 1 <= day <= monthrange(max(year, 1), month)[1]:
        raise TimestampError(f"parsing time {go_quote(text)}: day out of range")
    fraction = (found.get(".000000") or found["05"][2:])[1:]
    clock = int(found["15"]), int(found["04"]), int(found["05"][:2]), int(fraction[:6].ljust(6, "0") or 0)
    try:
        return datetime(year, month, day, *clock, _zone(found["Z07:00"])).astimezone(UTC)
    except (OverflowError, ValueError):  # the year 0 and the last hours of 9999 are beyond Python, and beyond use
        raise TimestampError(f"parsing time {go_quote(text)}: year outside of range [1,9999]") from None


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[4:6]))
    return timezone(-offset if text[0] == "-" else offset)
