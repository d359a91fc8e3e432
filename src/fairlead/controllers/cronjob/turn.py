"""One turn of a cron job: note what is running, start what is due, remove what finished long ago.

Its next turn is at the next time of its schedule. Source: pkg/controller/cronjob/cronjob_controllerv2.go.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime
from email.utils import formatdate
from typing import Any, Final

import msgspec

from fairlead.api.cron import Schedule, ScheduleError, parse, time_zone
from fairlead.api.encoded import Encoded
from fairlead.api.errors import AlreadyExists, ApiError, is_namespace_terminating
from fairlead.api.event_types import WARNING
from fairlead.api.jobs import CronJob, CronJobStatus, Job
from fairlead.api.objects import Obj
from fairlead.api.references import reference
from fairlead.api.verbs import BACKGROUND
from fairlead.api.workloads import template_of
from fairlead.controllers.actions import Action, Actions, Create, Delete, Emit, Requeue, update_status
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.claims import controller_reference, owner_of
from fairlead.controllers.cronjob.times import latest_due
from fairlead.controllers.kinds import CRON_JOBS, JOBS
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import parse_timestamp, timestamp

SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"

#: A little after the time itself, so that a clock that is a little slow does not find it in the future.
DELTA_SECONDS: Final = 0.1

_ZONE_IN_SCHEDULE: Final = (
    "CRON_TZ or TZ used in schedule {} is not officially supported, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)


class CronJobs(Controller[CronJob]):
    name = "cronjob-controller"
    queue_name = "cronjob"
    account = "cronjob-controller"
    kind = CRON_JOBS
    watches = (Watch(JOBS, owner_of(CRON_JOBS)),)

    def reconcile(self, obj: CronJob, world: World) -> Actions:
        jobs = world.owned(JOBS, obj)
        status = yield from _noticed(obj, jobs)
        if not obj.metadata.is_terminating:
            yield from _clean_up(obj, jobs)
            status = yield from _start(obj, status, jobs, world.now)
        yield from update_status(CRON_JOBS, obj, obj.status, status)


def _noticed(obj: CronJob, jobs: Sequence[Job]) -> Generator[Action, Any, CronJobStatus]:
    """The status with the jobs that are still running, and the last success."""
    active = {job_reference.uid: job_reference for job_reference in obj.status.active}
    last_success = obj.status.last_successful_time
    there = {job.metadata.uid for job in jobs}
    for job in jobs:
        uid, name = job.metadata.uid, job.metadata.name
        if uid not in active and job.finished is None:
            text = f"Saw a job that the controller did not create or forgot: {name}"
            yield Emit("UnexpectedJob", text, WARNING)
        elif uid in active and job.finished is not None:
            del active[uid]
            yield Emit("SawCompletedJob", f"Saw completed job: {name}, condition: {job.finished.type}")
        done = job.status.completion_time
        if job.status.condition("Complete") is not None and done and (last_success is None or done > last_success):
            last_success = done
    for uid, lost in list(active.items()):
        if uid not in there:
            del active[uid]
            yield Emit("MissingJob", f"Active job went missing: {lost.name}")
    return msgspec.structs.replace(obj.status, active=tuple(active.values()), last_successful_time=last_success)


def _start(
    obj: CronJob, status: CronJobStatus, jobs: Sequence[Job], now: float
) -> Generator[Action, Any, CronJobStatus]:
    """Start the job that is due, if it may run; the next turn is when the next one is."""
    zone = obj.spec.time_zone or ""
    if time_zone(zone) is None:
        yield Emit("UnknownTimeZone", f"invalid timeZone: {go_quote(zone)}: unknown time zone {zone}", WARNING)
        return status
    if obj.spec.suspend:
        return status
    if "TZ" in obj.spec.schedule:
        yield Emit("UnsupportedSchedule", _ZONE_IN_SCHEDULE.format(go_quote(obj.spec.schedule)), WARNING)
    try:
        schedule = parse(obj.spec.schedule, zone)
    except ScheduleError as error:
        yield Emit("UnparseableSchedule", f"unparseable schedule: {go_quote(obj.spec.schedule)} : {error}", WARNING)
        return status
    following = schedule.next_after(now)
    if following is None:  # in the words of a division of time in which nothing passes between two schedules
        why = "time difference between two schedules is less than 1 second"
        yield Emit("InvalidSchedule", f"invalid schedule: {obj.spec.schedule} : {why}", WARNING)
        return status
    yield Requeue(following - now + DELTA_SECONDS)
    at = yield from _due(obj, status, schedule, now)
    if at is None:
        return status
    if status.active and obj.spec.concurrency_policy == "Forbid":
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        yield Emit("JobAlreadyActive", text)
        return status
    if obj.spec.concurrency_policy == "Replace":
        running = {job_reference.uid for job_reference in status.active}
        for job in jobs:
            if job.metadata.uid in running:
                yield from _delete(job)
        status = msgspec.structs.replace(status, active=())
    return (yield from _create(obj, status, at))


def _due(obj: CronJob, status: CronJobStatus, schedule: Schedule, now: float) -> Generator[Action, Any, float | None]:
    """The time to start a job for."""
    due = latest_due(obj, schedule, now)
    if due is None:
        return None
    if due.has_missed_many:
        text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        yield Emit("TooManyMissedTimes", text, WARNING)
    deadline = obj.spec.starting_deadline_seconds
    if deadline is not None and due.at + deadline < now:
        yield Emit(
            "MissSchedule",
            f"Missed scheduled time to start a job: {formatdate(due.at).replace('-0000', '+0000')}",
            WARNING,
        )
        return None
    was_started = status.last_schedule_time is not None and parse_timestamp(status.last_schedule_time) >= due.at
    return None if was_started else due.at


def _create(obj: CronJob, status: CronJobStatus, at: float) -> Generator[Action, Any, CronJobStatus]:
    job = _job(obj, at)
    name = job["metadata"]["name"]
    try:
        stored: Encoded = yield Create(JOBS, job)
    except AlreadyExists:  # made by an earlier turn that could not say so
        return msgspec.structs.replace(status, last_schedule_time=timestamp(at))
    except ApiError as error:
        if not is_namespace_terminating(error):
            yield Emit("FailedCreate", f"Error creating job: {error}", WARNING)
            raise
        return status
    yield Emit("SuccessfulCreate", f"Created job {name}")
    made = reference(stored.view(Job), JOBS.resource)
    return msgspec.structs.replace(status, active=(*status.active, made), last_schedule_time=timestamp(at))


def _job(obj: CronJob, at: float) -> Obj:
    """The job for one time; its name says which, so that none is made twice."""
    template = template_of(obj.spec.job_template)
    of_template = template.get("metadata", {})
    zone = time_zone(obj.spec.time_zone or "")
    written = datetime.fromtimestamp(at, zone).isoformat().replace("+00:00", "Z")
    meta: Obj = {
        "name": f"{obj.metadata.name}-{int(at) // 60}",
        "namespace": obj.metadata.namespace,
        "annotations": of_template.get("annotations", {}) | {SCHEDULED_AT: written},
        "ownerReferences": [controller_reference(CRON_JOBS, obj)],
    }
    if "labels" in of_template:
        meta["labels"] = of_template["labels"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": template.get("spec", {})}


def _clean_up(obj: CronJob, jobs: Sequence[Job]) -> Actions:
    """Remove the oldest finished jobs beyond those that are kept."""
    for type_, kept in (
        ("Complete", obj.spec.successful_jobs_history_limit),
        ("Failed", obj.spec.failed_jobs_history_limit),
    ):
        finished = [job for job in jobs if job.status.condition(type_) is not None and not job.metadata.is_terminating]
        finished.sort(key=lambda job: (job.status.start_time is None, job.status.start_time or "", job.metadata.name))
        surplus = len(finished) - kept if kept is not None else 0
        for job in finished[: max(surplus, 0)]:
            yield from _delete(job)


def _delete(job: Job) -> Actions:
    try:
        yield Delete(JOBS, job, BACKGROUND)
    except ApiError as error:
        yield Emit("FailedDelete", f"Deleted job: {error}", WARNING)
        raise
    yield Emit("SuccessfulDelete", f"Deleted job {job.metadata.name}")
