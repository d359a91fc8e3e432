"""Which time of its schedule a cron job should act on now (pkg/controller/cronjob/utils.go)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead.api.jobs import CronJob
from fairlead.controllers.cronjob.schedule import Schedule
from fairlead.runtime.clock import parse_timestamp

#: So many missed times are suspicious.
MANY_MISSED: Final = 100


@dataclass(frozen=True, slots=True)
class Due:
    """The latest time that has come and was not acted on."""

    at: float
    has_missed_many: bool = False


def latest_due(obj: CronJob, schedule: Schedule, now: float) -> Due | None:
    """The time to act on; earlier ones that were missed too are skipped."""
    since = _since(obj, now)
    first = schedule.next_after(since)
    if first is None or first > now:
        return None
    second = schedule.next_after(first)
    if second is None or second > now:
        return Due(first)
    distance = max(second - first, 1.0)
    missed = int((now - first) // distance) + 1
    return Due(_latest_before(schedule, first, distance, now), missed > MANY_MISSED)


def _latest_before(schedule: Schedule, first: float, distance: float, now: float) -> float:
    """The latest time up to now, looked for from nearby: a schedule may have fired for years."""
    reach = distance
    while True:
        start = max(now - reach, first - 1)
        latest = schedule.next_after(start)
        if latest is not None and latest <= now:
            break
        reach *= 2
    while (later := schedule.next_after(latest)) is not None and later <= now:
        latest = later
    return latest


def _since(obj: CronJob, now: float) -> float:
    last = obj.status.last_schedule_time or obj.metadata.creation_timestamp
    since = parse_timestamp(last) if last else now
    deadline = obj.spec.starting_deadline_seconds
    return max(since, now - deadline) if deadline is not None else since
