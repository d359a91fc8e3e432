"""What is wrong with a cron schedule, in the words of the parser that upstream uses.

Only the rules and texts are here; when a schedule fires is the controller's business. Source: `ParseStandard` of
github.com/robfig/cron/v3.
"""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fairlead.api.cron import DESCRIPTORS, EVERY, FIELDS, Bounds
from fairlead.golang.durations import parse_nanoseconds
from fairlead.golang.numbers import atoi


class _Wrong(ValueError):
    pass


def schedule_error(schedule: str) -> str:
    """What the parser says against a schedule; empty if it is fine."""
    try:
        _check(schedule)
    except _Wrong as wrong:
        return str(wrong)
    return ""


def _check(schedule: str) -> None:
    if not schedule:
        raise _Wrong("empty spec string")
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, _, schedule = schedule.partition(" ")
        name = zone.partition("=")[2]
        if not is_time_zone(name):
            raise _Wrong(f"provided bad location {name}: unknown time zone {name}")
        schedule = schedule.strip()
    if schedule.startswith("@"):
        _check_descriptor(schedule)
        return
    parts = schedule.split()
    if len(parts) != len(FIELDS):
        raise _Wrong(f"expected exactly {len(FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]")
    for part, bounds in zip(parts, FIELDS, strict=True):
        for expression in part.split(","):
            if expression:
                _check_range(expression, bounds)


def _check_descriptor(schedule: str) -> None:
    if schedule.startswith(EVERY):
        try:
            parse_nanoseconds(schedule.removeprefix(EVERY))
        except ValueError as wrong:
            raise _Wrong(f"failed to parse duration {schedule}: {wrong}") from None
    elif schedule not in DESCRIPTORS:
        raise _Wrong(f"unrecognized descriptor: {schedule}")


def _check_range(expression: str, bounds: Bounds) -> None:
    """`number | number "-" number [ "/" number ]`, where `*` and `?` are everything."""
    parts = expression.split("/")
    limits = parts[0].split("-")
    low, high = bounds.low, bounds.high
    if limits[0] not in ("*", "?"):
        low = high = _value(limits[0], bounds.names)
        if len(limits) == 2:
            high = _value(limits[1], bounds.names)
        elif len(limits) > 2:
            raise _Wrong(f"too many hyphens: {expression}")
    step = 1
    if len(parts) == 2:
        step = _value(parts[1], {})
        high = bounds.high if len(limits) == 1 else high
    elif len(parts) > 2:
        raise _Wrong(f"too many slashes: {expression}")
    if low < bounds.low:
        raise _Wrong(f"beginning of range ({low}) below minimum ({bounds.low}): {expression}")
    if high > bounds.high:
        raise _Wrong(f"end of range ({high}) above maximum ({bounds.high}): {expression}")
    if low > high:
        raise _Wrong(f"beginning of range ({low}) beyond end of range ({high}): {expression}")
    if not step:
        raise _Wrong(f"step of range should be a positive number: {expression}")


def _value(text: str, names: Mapping[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    try:
        number = atoi(text)
    except ValueError as wrong:
        raise _Wrong(f"failed to parse int from {text}: {wrong}") from None
    if number < 0:
        raise _Wrong(f"negative number ({number}) not allowed: {text}")
    return number


def is_time_zone(name: str) -> bool:
    """Whether Go's `time.LoadLocation` would find it; nothing and `UTC` are UTC."""
    if name in ("", "UTC", "Local"):
        return True
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
