"""Which time of its schedule a cron job should act on now (pkg/controller/cronjob/utils.go)."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.cron import EARLIEST, Schedule
from fairlead.api.jobs import CronJob
from fairlead.runtime.clock import parse_timestamp

#: So many missed times are suspicious.
MANY_MISSED: Final = 100


class Due(msgspec.Struct, frozen=True):
    """The latest time that has come and was not acted on."""

    at: float
    has_missed_many: bool = False


def latest_due(obj: CronJob, schedule: Schedule, now: float) -> Due | None:
    """The time to act on; earlier ones that were missed too are skipped."""
    since = _since(obj, now)
    if since > now:
        return None
    first = schedule.next_after(since)
    if first is None or first > now:
        return None
    second = schedule.next_after(first)
    if second is None or second > now:
        return Due(first)
    distance = max(second - first, 1.0)
    missed = int((now - first) // distance) + 1
    return Due(schedule.latest(second, now), missed > MANY_MISSED)


def _since(obj: CronJob, now: float) -> float:
    last = obj.status.last_schedule_time or obj.metadata.creation_timestamp
    since = max(parse_timestamp(last), EARLIEST) if last else now
    deadline = obj.spec.starting_deadline_seconds
    return max(since, now - deadline) if deadline is not None else since
