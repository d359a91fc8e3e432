"""When a cron schedule fires.

Times are walked in real seconds and looked at on the wall clock of the schedule's zone, so an hour that a zone skips is
skipped, and one that it repeats counts twice, as with github.com/robfig/cron/v3.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Protocol

import msgspec

#: A schedule that does not fire for so long never will (30 February).
_YEARS_AHEAD: Final = 5

#: Before this a calendar may not know a time in every zone.
EARLIEST: Final = datetime(2, 1, 1, tzinfo=UTC).timestamp()


class Schedule(Protocol):
    def next_after(self, time: float) -> float | None:
        """The first time after `time`; None if it never fires again."""
        ...

    def latest(self, fired: float, now: float) -> float:
        """The last time up to now, given an earlier one. Found in few steps, however many times lie between."""
        ...


class EverySchedule(msgspec.Struct, frozen=True):
    """At a fixed distance."""

    seconds: int

    def next_after(self, time: float) -> float | None:
        return float(int(time) + self.seconds)

    def latest(self, fired: float, now: float) -> float:
        return fired + (now - fired) // self.seconds * self.seconds


class FieldSchedule(msgspec.Struct, frozen=True):
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
                now += 60 * (min((minute for minute in self.minutes if minute > wall.minute), default=60) - wall.minute)
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
