"""Timestamps and durations: made of texts, reckoned with, and taken apart by time zone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

from fairlead.cel.errors import CelError
from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload, functions, methods
from fairlead.cel.types import DURATION, INT, STRING, TIMESTAMP
from fairlead.cel.values import INT_MAX, INT_MIN, NANOS, Duration, Timestamp
from fairlead.golang.durations import parse_nanoseconds

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.A
)
_FIRST: Final = -62_135_596_800 * NANOS  # 0001-01-01T00:00:00Z
_LAST: Final = 253_402_300_800 * NANOS - 1  # 9999-12-31T23:59:59.999999999Z
_OFFSET: Final = re.compile(r"([+-]?)(\d\d):(\d\d)", re.A)
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(/[A-Za-z0-9_+\-]+){0,2}", re.A)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def overloads() -> Iterator[Overload]:
    yield from functions(
        ("timestamp", [STRING], TIMESTAMP, read_timestamp),
        ("duration", [STRING], DURATION, read_duration),
        cost=costs.target,
    )
    yield from functions(
        ("timestamp", [TIMESTAMP], TIMESTAMP, lambda value: value),
        ("timestamp", [INT], TIMESTAMP, lambda seconds: _moment(seconds * NANOS)),
        ("duration", [DURATION], DURATION, lambda value: value),
        ("string", [TIMESTAMP], STRING, timestamp_text),
        ("string", [DURATION], STRING, duration_text),
        ("_+_", [TIMESTAMP, DURATION], TIMESTAMP, lambda a, b: _moment(a.nanos + b.nanos)),
        ("_+_", [DURATION, TIMESTAMP], TIMESTAMP, lambda a, b: _moment(a.nanos + b.nanos)),
        ("_+_", [DURATION, DURATION], DURATION, lambda a, b: _span(a.nanos + b.nanos)),
        ("_-_", [TIMESTAMP, TIMESTAMP], DURATION, lambda a, b: _span(a.nanos - b.nanos)),
        ("_-_", [TIMESTAMP, DURATION], TIMESTAMP, lambda a, b: _moment(a.nanos - b.nanos)),
        ("_-_", [DURATION, DURATION], DURATION, lambda a, b: _span(a.nanos - b.nanos)),
        ("-_", [DURATION], DURATION, lambda a: _span(-a.nanos)),
    )
    for name, part in _PARTS.items():
        yield Overload(name, (TIMESTAMP,), INT, lambda value, part=part: part(_in_zone(value, "UTC")), True)
        yield Overload(name, (TIMESTAMP, STRING), INT, lambda value, zone, part=part: part(_in_zone(value, zone)), True)
    yield from methods(
        DURATION,
        ("getHours", [], INT, lambda value: _truncated(value.nanos, 3600 * NANOS)),
        ("getMinutes", [], INT, lambda value: _truncated(value.nanos, 60 * NANOS)),
        ("getSeconds", [], INT, lambda value: _truncated(value.nanos, NANOS)),
        ("getMilliseconds", [], INT, lambda value: _truncated(value.nanos, 1_000_000)),
    )
    yield from methods(
        TIMESTAMP,
        ("getMilliseconds", [], INT, lambda value: value.nanos % NANOS // 1_000_000),
        ("getMilliseconds", [STRING], INT, lambda value, zone: value.nanos % NANOS // 1_000_000),
    )


#: Months, days of the month and of the year begin at 0 where their names are not dates; Sunday is the first weekday.
_PARTS: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
}


def _truncated(value: int, unit: int) -> int:
    whole = abs(value) // unit
    return -whole if value < 0 else whole


def _moment(nanos: int) -> Timestamp:
    if not _FIRST <= nanos <= _LAST:
        raise CelError("timestamp overflow")
    return Timestamp(nanos)


def _span(nanos: int) -> Duration:
    if not INT_MIN <= nanos <= INT_MAX:
        raise CelError("duration overflow")
    return Duration(nanos)


def read_timestamp(text: str) -> Timestamp:
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise CelError(f'parsing time "{text[:100]}" as "2006-01-02T15:04:05Z07:00": cannot parse')
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise CelError(f'parsing time "{text}": out of range') from None
    offset = 0
    if found[8]:
        offset = (int(found[9]) * 60 + int(found[10])) * 60 * (-1 if found[8] == "-" else 1)
    whole = (moment - _EPOCH) // timedelta(seconds=1)
    return _moment((whole - offset) * NANOS + int((found[7] or "0").ljust(9, "0")))


def read_duration(text: str) -> Duration:
    try:
        return Duration(parse_nanoseconds(text))
    except ValueError as error:
        raise CelError(str(error)) from None


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339, with as many digits after the point as it has."""
    moment = _EPOCH + timedelta(seconds=value.nanos // NANOS)
    fraction = f"{value.nanos % NANOS:09}".rstrip("0")
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + (f".{fraction}" if fraction else "") + "Z"


def duration_text(value: Duration) -> str:
    """Seconds, as protobuf's JSON writes them."""
    whole, rest = divmod(abs(value.nanos), NANOS)
    fraction = f"{rest:09}".rstrip("0")
    return f"{'-' if value.nanos < 0 else ''}{whole}{f'.{fraction}' if fraction else ''}s"


def _in_zone(value: Timestamp, zone: str) -> datetime:
    try:
        return (_EPOCH + timedelta(seconds=value.nanos // NANOS)).astimezone(_zone(zone))
    except OverflowError:
        raise CelError("timestamp overflow") from None


def _zone(name: str) -> tzinfo:
    if name in ("UTC", ""):
        return UTC
    if found := _OFFSET.fullmatch(name):
        minutes = int(found[2]) * 60 + int(found[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    elif len(name) <= 64 and _ZONE.fullmatch(name):
        from zoneinfo import ZoneInfo  # as in api.cron.parsing

        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # none of that name, or a folder of them
            pass
    raise CelError(f"unknown time zone {name[:100]}")
