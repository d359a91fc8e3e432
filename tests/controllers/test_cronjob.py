"""Cron jobs start jobs at their times, and nothing in between (X-10)."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.controllers.actions import Emit
from fairlead.controllers.cronjob import CronJobs
from fairlead.controllers.kinds import CRON_JOBS
from fairlead.runtime.clock import parse_timestamp
from tests.controllers.cluster import Cluster, run
from tests.controllers.driving import StillWorld, drive, of_type, view
from tests.played import played

TEMPLATE = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}


async def cron_job(cluster: Cluster, schedule: str, **spec: Any) -> None:
    wanted = {"schedule": schedule, "jobTemplate": TEMPLATE} | spec
    await cluster.create(builtin.CRON_JOBS, {"metadata": {"name": "cj"}, "spec": wanted})


async def jobs(cluster: Cluster) -> list[Obj]:
    return sorted(await cluster.all(builtin.JOBS), key=lambda job: str(job["metadata"]["name"]))


async def finish(cluster: Cluster, name: str) -> None:
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    done = {
        "conditions": [condition | {"type": "SuccessCriteriaMet"}, condition],
        "startTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T00:00:01Z",
    }
    await cluster.patch(builtin.JOBS, name, {"status": done}, "status")


@played(run, CronJobs)
async def test_a_job_is_made_at_each_time_and_named_after_it(cluster: Cluster) -> None:
    await cron_job(cluster, "0 * * * *")
    await asyncio.sleep(3 * 3600 + 10)
    made = await jobs(cluster)
    start = int(parse_timestamp("2026-01-01T00:00:00Z")) // 60
    assert [job["metadata"]["name"] for job in made] == [f"cj-{start + 60 * hour}" for hour in (1, 2, 3)]
    assert made[0]["metadata"]["annotations"] == {
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T01:00:00Z"
    }
    found = await cluster.get(builtin.CRON_JOBS, "cj")
    assert found is not None
    assert found["status"]["lastScheduleTime"] == "2026-01-01T03:00:00Z"
    assert [one["name"] for one in found["status"]["active"]] == [job["metadata"]["name"] for job in made]


@pytest.mark.parametrize(("policy", "count"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
@played(run, CronJobs)
async def test_jobs_that_still_run_are_kept_waited_for_or_replaced(cluster: Cluster, policy: str, count: int) -> None:
    await cron_job(cluster, "0 * * * *", concurrencyPolicy=policy)
    await asyncio.sleep(3 * 3600 + 10)
    assert len(await jobs(cluster)) == count


@played(run, CronJobs)
async def test_only_some_finished_jobs_are_kept(cluster: Cluster) -> None:
    await cron_job(cluster, "0 * * * *", successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1)
    await asyncio.sleep(4 * 3600 + 10)
    made = [str(job["metadata"]["name"]) for job in await jobs(cluster)]
    for name in made:
        await finish(cluster, name)
    await asyncio.sleep(1)
    assert [job["metadata"]["name"] for job in await jobs(cluster)] == made[-2:]
    found = await cluster.get(builtin.CRON_JOBS, "cj")
    assert found is not None
    assert "active" not in found["status"]
    assert found["status"]["lastSuccessfulTime"] == "2026-01-01T00:00:01Z"


@played(run, CronJobs)
async def test_of_many_missed_times_only_the_last_is_made_up_for(cluster: Cluster) -> None:
    await cron_job(cluster, "0 0 * * *", suspend=True)
    await cluster.patch(builtin.CRON_JOBS, "cj", {"status": {"lastScheduleTime": "2024-06-01T00:00:00Z"}}, "status")
    await asyncio.sleep(60)
    assert await jobs(cluster) == []
    await cluster.patch(builtin.CRON_JOBS, "cj", {"spec": {"suspend": False}})
    await asyncio.sleep(60)
    [made] = await jobs(cluster)
    assert made["metadata"]["name"] == f"cj-{int(parse_timestamp('2026-01-01T00:00:00Z')) // 60}"
    reasons = {reason for _, reason, _ in await cluster.events()}
    assert reasons == {"SuccessfulCreate", "TooManyMissedTimes"}


@pytest.mark.parametrize(
    ("last", "made"),
    [
        ("0001-01-01T00:00:01Z", 1),
        ("9999-12-31T23:59:59Z", 0),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "America/Anchorage", "Asia/Tokyo"])
@played(run, CronJobs)
async def test_what_was_missed_since_any_year_is_found_at_once(
    cluster: Cluster, last: str, made: int, zone: str
) -> None:
    """Every minute of January: 90 million times since the year 1."""
    await cron_job(cluster, "* * * 1 *", suspend=True, timeZone=zone)
    await cluster.patch(builtin.CRON_JOBS, "cj", {"status": {"lastScheduleTime": last}}, "status")
    await asyncio.sleep(36 * 24 * 3600)  # until February, everywhere
    await cluster.patch(builtin.CRON_JOBS, "cj", {"spec": {"suspend": False}})
    await asyncio.sleep(1)
    for job in await jobs(cluster):
        at = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        assert datetime.fromisoformat(at).replace(tzinfo=None) == datetime(2026, 1, 31, 23, 59)
    assert len(await jobs(cluster)) == made


@played(run, CronJobs)
async def test_a_schedule_that_never_fires_is_told_of(cluster: Cluster) -> None:
    await cron_job(cluster, "59 23 31 2 *")
    await asyncio.sleep(60)
    why = "time difference between two schedules is less than 1 second"
    assert await cluster.events() == [("Warning", "InvalidSchedule", f"invalid schedule: 59 23 31 2 * : {why}")]


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"timeZone": "Mars"}, "UnknownTimeZone", 'invalid timeZone: "Mars": unknown time zone Mars'),
        (
            {"schedule": "TZ=UTC 0 0 * * *"},
            "UnsupportedSchedule",
            'CRON_TZ or TZ used in schedule "TZ=UTC 0 0 * * *" is not officially supported, see '
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
        ),
        ({"schedule": "0 0 * *"}, "UnparseableSchedule", 'unparseable schedule: "0 0 * *" : expected exactly 5 fields'),
    ],
)
def test_what_an_older_release_let_in_is_told_of(spec: Obj, reason: str, message: str) -> None:
    meta = {"name": "cj", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    cron = view(CRON_JOBS, {"metadata": meta, "spec": {"schedule": "0 0 * * *", "jobTemplate": TEMPLATE} | spec})
    [event] = of_type(drive(CronJobs().reconcile(cron, StillWorld())), Emit)
    assert (event.reason, event.type) == (reason, "Warning")
    assert event.message.startswith(message)
