"""When a cron schedule fires: five fields, a descriptor like `@daily`, or `@every 1h30m`.

Times are walked in real seconds and looked at on the wall clock of the schedule's zone, so an hour that a zone skips is
skipped, and one that it repeats counts twice, as with github.com/robfig/cron/v3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from fairlead.api.cron import DESCRIPTORS, EVERY, FIELDS, Bounds
from fairlead.golang.durations import parse_seconds

#: A schedule that does not fire for so long never will (30 February).
_YEARS_AHEAD: Final = 5

#: Before this a calendar may not know a time in every zone.
EARLIEST: Final = datetime(2, 1, 1, tzinfo=UTC).timestamp()

_ZONE: Final = re.compile(r"(?:CRON_)?TZ=(\S+)\s+")


class Schedule(Protocol):
    def next_after(self, time: float) -> float | None:
        """The first time after `time`; None if it never fires again."""
        ...

    def latest(self, fired: float, now: float) -> float:
        """The last time up to now, given an earlier one. Found in few steps, however many times lie between."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """At a fixed distance."""

    seconds: float

    def next_after(self, time: float) -> float | None:
        return float(int(time) + self._period)

    def latest(self, fired: float, now: float) -> float:
        return fired + (now - fired) // self._period * self._period

    @property
    def _period(self) -> int:
        return max(int(self.seconds), 1)


@dataclass(frozen=True, slots=True)
class Fields:
    """When the wall clock shows one of these."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool  # `*` in the field of days, or of weekdays: then only the other one counts
    zone: tzinfo

    def next_after(self, time: float) -> float | None:
        now = (int(time) // 60 + 1) * 60
        last_year = datetime.fromtimestamp(now, self.zone).year + _YEARS_AHEAD
        while True:
            wall = datetime.fromtimestamp(now, self.zone)
            if wall.year > last_year:
                return None
            if wall.month not in self.months:
                now = self._midnight((wall.replace(day=1) + timedelta(days=32)).replace(day=1))
            elif not self._is_day(wall):
                now = self._midnight(wall + timedelta(days=1))
            elif wall.hour not in self.hours:
                now += 3600 - wall.minute * 60
            elif wall.minute not in self.minutes:
                now += 60 * (min((one for one in self.minutes if one > wall.minute), default=60) - wall.minute)
            else:
                return float(now)

    def latest(self, fired: float, now: float) -> float:
        end = now  # it does not fire between the end and now
        while end - fired >= 60:
            middle = (fired + end) / 2
            later = self.next_after(middle)
            if later is not None and later <= now:
                fired = later
            else:
                end = middle
        return fired

    def _is_day(self, wall: datetime) -> bool:
        is_day, is_weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (is_day and is_weekday) if self.any_day else (is_day or is_weekday)

    def _midnight(self, day: datetime) -> int:
        return int(datetime(day.year, day.month, day.day, tzinfo=self.zone).timestamp())


@lru_cache(maxsize=4096)
def parsed(text: str, zone_name: str = "") -> Schedule:
    """The schedule of a text; ValueError (or KeyError, for its zone) if it is none."""
    found = _ZONE.match(text)
    if found is not None:
        zone_name, text = found[1], text[found.end() :]
    zone = ZoneInfo(zone_name) if zone_name else UTC
    if text.startswith(EVERY):
        return Every(parse_seconds(text.removeprefix(EVERY)))
    parts = DESCRIPTORS.get(text, text).split()
    if len(parts) != len(FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    minutes, hours, days, months, weekdays = (_values(part, bounds) for part, bounds in zip(parts, FIELDS, strict=True))
    any_day = any(part[0] in "*?" and not part[1:].startswith("/") for part in (parts[2], parts[4]))
    return Fields(minutes, hours, days, months, weekdays, any_day, zone)


def _values(part: str, bounds: Bounds) -> frozenset[int]:
    low, high, names = bounds.low, bounds.high, bounds.names
    found: set[int] = set()
    for item in part.split(","):
        extent, _, step = item.partition("/")
        first, dash, last = extent.partition("-")
        if first in ("*", "?"):
            start, end = low, high
        else:
            start = _value(first, names)
            end = _value(last, names) if dash else (high if step else start)
        if start < low or end > high:
            raise ValueError(f"{item} is not within {low}-{high}")
        found.update(range(start, end + 1, int(step or 1)))
    return frozenset(found)


def _value(text: str, names: Mapping[str, int]) -> int:
    known = names.get(text.lower())
    return int(text) if known is None else known
