"""How tests spell durations and moments: `6h`, `90`, `06:00`, `2026-03-01T22:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from fairlead.runtime.clock import parse_timestamp
from fairlead.sim import durations

#: Seconds, a duration as the commands take it (90s, 1h30m, 7d), or Python's.
Duration: TypeAlias = float | str | timedelta
#: A time of day (the next one, in UTC), RFC 3339, Python's (with a time zone), or seconds since the epoch.
Moment: TypeAlias = float | str | datetime

_A_DAY: Final = 86_400
_TIME_OF_DAY: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)


def seconds_of(duration: Duration) -> float:
    """Raises ValueError for what is none, or is negative."""
    if isinstance(duration, str):
        return durations.seconds_of(duration)
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"{duration!r} is no duration: time does not run backwards")
    return seconds


def moment_of(moment: Moment, now: float) -> float:
    """In seconds since the epoch. Raises ValueError for what is none."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError(f"{moment.isoformat()} could be anywhere: give it a time zone, as in tzinfo=UTC")
        return moment.timestamp()
    if not isinstance(moment, str):
        return float(moment)
    if daily := _TIME_OF_DAY.fullmatch(moment):
        hours, minutes, seconds = (int(part or 0) for part in daily.groups())
        of_day = 3600 * hours + 60 * minutes + seconds
        midnight = now - now % _A_DAY
        return midnight + of_day + (_A_DAY if midnight + of_day <= now else 0)
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        raise ValueError(f"{moment!r} is no moment: write 06:00, or 2026-03-01T22:00:00Z") from None
    return parse_timestamp(moment) if found.tzinfo is not None else found.replace(tzinfo=UTC).timestamp()
