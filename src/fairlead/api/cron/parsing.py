"""The schedule that a text stands for: five fields, a descriptor like `@daily`, or `@every 1h30m`.

What is wrong with a text is said in the words of the parser that upstream uses: `ParseStandard` of
github.com/robfig/cron/v3, with the panic that pkg/util/parsers of Kubernetes recovers from.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Final

import msgspec

from fairlead.api.cron.schedules import EverySchedule, FieldSchedule, Schedule
from fairlead.caches import bounded_cache
from fairlead.golang.durations import NANOSECONDS, parse_nanoseconds
from fairlead.golang.numbers import atoi


class ScheduleError(ValueError):
    """The text is no schedule; `str()` of it says why."""


class _Bounds(msgspec.Struct, frozen=True):
    """The values of one field, and the names that some of them have."""

    low: int
    high: int
    names: Mapping[str, int] = msgspec.field(default_factory=dict)


_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

#: Minute, hour, day, month, day of the week.
_FIELDS: Final = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_ZONE_PREFIXES: Final = ("TZ=", "CRON_TZ=")
_NO_SPACE_AFTER_ZONE: Final = "invalid schedule format: runtime error: slice bounds out of range [:-1]"


@bounded_cache(maxsize=4096)
def parse(text: str, zone_name: str = "") -> Schedule:
    """The schedule of a text, on the wall clock of a zone; a zone in the text comes first. Raises ScheduleError."""
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith(_ZONE_PREFIXES):
        prefix, space, text = text.partition(" ")
        if not space:
            raise ScheduleError(_NO_SPACE_AFTER_ZONE)
        zone_name, text = prefix.partition("=")[2], text.strip()
    zone = time_zone(zone_name)
    if zone is None:
        raise ScheduleError(f"provided bad location {zone_name}: unknown time zone {zone_name}")
    if text.startswith(_EVERY):
        return _every(text)
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]")
    minutes, hours, days, months, weekdays = (_field(part, bounds) for part, bounds in zip(parts, _FIELDS, strict=True))
    any_day = days.is_any or weekdays.is_any
    return FieldSchedule(minutes.values, hours.values, days.values, months.values, weekdays.values, any_day, zone)


def time_zone(name: str) -> tzinfo | None:
    """What Go's `time.LoadLocation` finds; nothing, `Local` and `UTC` are UTC."""
    if name in ("", "UTC", "Local"):
        return UTC
    from zoneinfo import ZoneInfo  # reads all of sysconfig, which a start without zones does not wait for

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # none of that name, or a folder of them
        return None


def _every(text: str) -> EverySchedule:
    try:
        nanoseconds = parse_nanoseconds(text.removeprefix(_EVERY))
    except ValueError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from None
    return EverySchedule(max(nanoseconds // NANOSECONDS, 1))


class _Field(msgspec.Struct, frozen=True):
    values: frozenset[int]
    is_any: bool  # `*`, alone or in a list: the day is then for the other field of days to say


def _field(text: str, bounds: _Bounds) -> _Field:
    """A list of ranges."""
    ranges = [_range(expression, bounds) for expression in text.split(",") if expression]
    return _Field(frozenset[int]().union(*(part.values for part in ranges)), any(part.is_any for part in ranges))


def _range(expression: str, bounds: _Bounds) -> _Field:
    """`number | number "-" number [ "/" number ]`, where `*` and `?` are everything."""
    parts = expression.split("/")
    limits = parts[0].split("-")
    low, high = bounds.low, bounds.high
    is_any = limits[0] in ("*", "?")
    if not is_any:
        low = high = _value(limits[0], bounds.names)
        if len(limits) == 2:
            high = _value(limits[1], bounds.names)
        elif len(limits) > 2:
            raise ScheduleError(f"too many hyphens: {expression}")
    step = 1
    if len(parts) == 2:
        step = _value(parts[1], {})
        high = bounds.high if len(limits) == 1 else high
    elif len(parts) > 2:
        raise ScheduleError(f"too many slashes: {expression}")
    if low < bounds.low:
        raise ScheduleError(f"beginning of range ({low}) below minimum ({bounds.low}): {expression}")
    if high > bounds.high:
        raise ScheduleError(f"end of range ({high}) above maximum ({bounds.high}): {expression}")
    if low > high:
        raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {expression}")
    if not step:
        raise ScheduleError(f"step of range should be a positive number: {expression}")
    return _Field(frozenset(range(low, high + 1, step)), is_any and step == 1)


def _value(text: str, names: Mapping[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    try:
        number = atoi(text)
    except ValueError as error:
        raise ScheduleError(f"failed to parse int from {text}: {error}") from None
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
