"""Jobs run pods to their end, count each once, and say how it went (X-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.controllers.garbage import GarbageCollector
from fairlead.controllers.job import Jobs, OrphanedJobPods
from fairlead.controllers.job.indexes import Indexes
from fairlead.controllers.ttl import FinishedJobs
from fairlead.runtime.clock import now, timestamp
from tests.controllers.cluster import Cluster, run

INDEX = "batch.kubernetes.io/job-completion-index"


async def job(cluster: Cluster, **spec: Any) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    await cluster.create(builtin.JOBS, {"metadata": {"name": "j"}, "spec": {"template": template} | spec})
    await asyncio.sleep(0.5)


async def pods(cluster: Cluster) -> list[Obj]:
    await asyncio.sleep(0.5)
    return sorted(await cluster.all(builtin.PODS), key=lambda pod: str(pod["metadata"]["name"]))


async def status(cluster: Cluster) -> Obj:
    await asyncio.sleep(0.5)
    found = await cluster.get(builtin.JOBS, "j")
    assert found is not None
    return dict(found.get("status", {}))


async def ends(cluster: Cluster, pod: Obj, phase: str = "Succeeded", code: int = 0, **told: Any) -> None:
    state = {"terminated": {"exitCode": code, "finishedAt": timestamp(now())}}
    told = {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]} | told
    await cluster.patch(builtin.PODS, pod["metadata"]["name"], {"status": told}, "status")


def conditions(status: Obj) -> dict[str, tuple[str, str]]:
    return {
        one["type"]: (one["reason"], one["message"]) for one in status.get("conditions", ()) if one["status"] == "True"
    }


def running(test: Callable[[Cluster], Awaitable[None]]) -> None:
    run(test, Jobs, OrphanedJobPods, FinishedJobs, GarbageCollector)


def test_a_job_replaces_what_succeeds_until_it_is_complete() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, parallelism=2, completions=3)
        assert {name: (await status(cluster))[name] for name in ("active", "ready", "terminating")} == {
            "active": 2,
            "ready": 0,
            "terminating": 0,
        }
        for _ in range(3):
            [first, *_] = [pod for pod in await pods(cluster) if pod["status"]["phase"] == "Pending"]
            assert first["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
            await ends(cluster, first)
        done = await status(cluster)
        why = ("CompletionsReached", "Reached expected number of succeeded pods")
        assert conditions(done) == {"SuccessCriteriaMet": why, "Complete": why}
        assert (done["succeeded"], done["uncountedTerminatedPods"]) == (3, {})
        assert "active" not in done
        assert not any(pod["metadata"].get("finalizers") for pod in await pods(cluster))
        assert ("Normal", "Completed", "Job completed") in await cluster.events()

    running(test)


def test_less_parallelism_takes_the_youngest_pods_whatever_they_say_they_cost() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, parallelism=1, completions=3)
        [oldest] = await pods(cluster)
        cheap = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}
        await cluster.patch(builtin.PODS, oldest["metadata"]["name"], cheap)
        await asyncio.sleep(100)
        await cluster.patch(builtin.JOBS, "j", {"spec": {"parallelism": 2}})
        assert len(await pods(cluster)) == 2
        await cluster.patch(builtin.JOBS, "j", {"spec": {"parallelism": 1}})
        assert [pod["metadata"]["name"] for pod in await pods(cluster)] == [oldest["metadata"]["name"]]

    running(test)


def test_failures_are_retried_after_a_growing_wait_until_the_limit() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, backoffLimit=2)
        for wait in (10, 20):
            [alive] = [pod for pod in await pods(cluster) if pod["status"]["phase"] == "Pending"]
            await ends(cluster, alive, "Failed", 1)
            await asyncio.sleep(wait - 3)
            assert all(pod["status"]["phase"] == "Failed" for pod in await pods(cluster))
            await asyncio.sleep(3)
        [alive] = [pod for pod in await pods(cluster) if pod["status"]["phase"] == "Pending"]
        await ends(cluster, alive, "Failed", 1)
        failed = await status(cluster)
        why = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        assert conditions(failed) == {"FailureTarget": why, "Failed": why}
        assert failed["failed"] == 3
        assert ("Warning", *why) in await cluster.events()

    running(test)


def test_a_job_past_its_deadline_takes_its_pods_down_and_counts_them_as_failed() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, activeDeadlineSeconds=60, parallelism=2, completions=2)
        await asyncio.sleep(57)
        assert len(await pods(cluster)) == 2
        await asyncio.sleep(5)
        failed = await status(cluster)
        assert conditions(failed)["Failed"][0] == "DeadlineExceeded"
        assert (failed["failed"], failed["terminating"]) == (2, 0)
        assert await pods(cluster) == []

    running(test)


def test_numbered_pods_know_their_number() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, completionMode="Indexed", completions=3, parallelism=3)
        made = await pods(cluster)
        assert [pod["metadata"]["annotations"][INDEX] for pod in made] == ["0", "1", "2"]
        assert [pod["metadata"]["generateName"] for pod in made] == ["j-0-", "j-1-", "j-2-"]
        assert [pod["spec"]["hostname"] for pod in made] == ["j-0", "j-1", "j-2"]
        [variable] = made[1]["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        await ends(cluster, made[0])
        await ends(cluster, made[2])
        found = await status(cluster)
        assert (found["succeeded"], found["active"], found["completedIndexes"]) == (2, 1, "0,2")
        await ends(cluster, made[1])
        assert (await status(cluster))["completedIndexes"] == "0-2"

    running(test)


def test_an_index_has_failures_of_its_own() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=1)
        first, second = await pods(cluster)
        await ends(cluster, second)
        await ends(cluster, first, "Failed", 1)
        await asyncio.sleep(11)
        [again] = [pod for pod in await pods(cluster) if pod["status"]["phase"] == "Pending"]
        assert again["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
        await ends(cluster, again, "Failed", 1)
        failed = await status(cluster)
        assert conditions(failed)["Failed"] == ("FailedIndexes", "Job has failed indexes")
        assert (failed["succeeded"], failed["failed"], failed["failedIndexes"]) == (1, 2, "0")

    running(test)


def test_a_failure_policy_can_end_the_job_or_overlook_the_failure() -> None:
    async def test(cluster: Cluster) -> None:
        rules = [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}},
        ]
        await job(cluster, podFailurePolicy={"rules": rules}, backoffLimit=0)
        [pod] = await pods(cluster)
        await ends(cluster, pod, "Failed", 137, conditions=[{"type": "DisruptionTarget", "status": "True"}])
        await asyncio.sleep(11)
        [again] = [pod for pod in await pods(cluster) if pod["status"]["phase"] == "Pending"]
        assert "failed" not in await status(cluster)
        await ends(cluster, again, "Failed", 42)
        name = again["metadata"]["name"]
        text = f"Container c for pod n/{name} failed with exit code 42 matching FailJob rule at index 1"
        assert conditions(await status(cluster))["Failed"] == ("PodFailurePolicy", text)

    running(test)


def test_a_failure_policy_without_rules_is_none() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, podFailurePolicy={}, backoffLimit=0)
        [pod] = await pods(cluster)
        await ends(cluster, pod, "Failed", 1)
        assert conditions(await status(cluster))["Failed"][0] == "BackoffLimitExceeded"

    running(test)


def test_a_success_policy_ends_the_job_early() -> None:
    async def test(cluster: Cluster) -> None:
        policy = {"rules": [{"succeededIndexes": "0"}]}
        await job(cluster, completionMode="Indexed", completions=3, parallelism=3, successPolicy=policy)
        await ends(cluster, (await pods(cluster))[0])
        done = await status(cluster)
        assert conditions(done)["Complete"] == ("SuccessPolicy", "Matched rules at index 0")
        assert done["succeeded"] == 1
        assert "failed" not in done

    running(test)


def test_a_suspended_job_has_no_pods_and_begins_anew_when_resumed() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, suspend=True)
        found = await status(cluster)
        assert conditions(found) == {"Suspended": ("JobSuspended", "Job suspended")}
        assert "startTime" not in found
        await cluster.patch(builtin.JOBS, "j", {"spec": {"suspend": False}})
        assert len(await pods(cluster)) == 1
        await cluster.patch(builtin.JOBS, "j", {"spec": {"suspend": True}})
        assert await pods(cluster) == []
        assert [reason for _, reason, _ in await cluster.events()].count("Suspended") == 1  # counted, not repeated

    running(test)


def test_a_job_that_had_started_can_be_suspended_and_resumed() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, parallelism=2)
        started = (await status(cluster))["startTime"]
        await cluster.patch(builtin.JOBS, "j", {"spec": {"suspend": True}})
        suspended = await status(cluster)
        assert conditions(suspended) == {"Suspended": ("JobSuspended", "Job suspended")}
        assert {"startTime", "active"}.isdisjoint(suspended)
        await asyncio.sleep(10)
        await cluster.patch(builtin.JOBS, "j", {"spec": {"suspend": False}})
        resumed = await status(cluster)
        assert (resumed["active"], len(await pods(cluster))) == (2, 2)
        assert resumed["startTime"] > started
        [condition] = resumed["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "JobResumed")
        assert [reason for _, reason, _ in await cluster.events()].count("Resumed") == 1

    running(test)


def test_a_suspended_job_with_nothing_to_do_is_complete() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, suspend=True, completions=0)
        done = await status(cluster)
        assert conditions(done)["Complete"][0] == "CompletionsReached"
        assert "completionTime" in done
        assert "startTime" not in done
        assert await cluster.events() == [("Normal", "Completed", "Job completed")]

    running(test)


@pytest.mark.parametrize(("policy", "count"), [("TerminatingOrFailed", 2), ("Failed", 1)])
def test_a_terminating_pod_is_replaced_at_once_or_when_it_is_gone(policy: str, count: int) -> None:
    async def test(cluster: Cluster) -> None:
        template = {"spec": {"restartPolicy": "Never", "nodeName": "lost", "containers": [{"name": "c", "image": "i"}]}}
        await job(cluster, podReplacementPolicy=policy, template=template)
        [pod] = await pods(cluster)
        await cluster.delete(builtin.PODS, pod["metadata"]["name"])
        await asyncio.sleep(11)  # a deleted pod is a failure, and the next one waits
        assert len(await pods(cluster)) == count
        assert (await status(cluster))["terminating"] == 1

    running(test)


def test_a_deleted_job_takes_its_pods_along() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, parallelism=2)
        await cluster.delete(builtin.JOBS, "j", propagation_policy="Background")
        assert await pods(cluster) == []

    running(test)


def test_a_finished_job_goes_after_its_time() -> None:
    async def test(cluster: Cluster) -> None:
        await job(cluster, ttlSecondsAfterFinished=100)
        [pod] = await pods(cluster)
        await ends(cluster, pod)
        await asyncio.sleep(90)
        assert conditions(await status(cluster))
        await asyncio.sleep(20)
        assert await cluster.get(builtin.JOBS, "j") is None
        assert await pods(cluster) == []

    running(test)


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [([0, 1], "0,1"), ([0, 1, 3], "0,1,3"), ([1, 3, 4, 5, 7], "1,3-5,7"), ([], ""), ([4], "4")],
)
def test_neighbours_are_written_as_intervals_from_three_on(indexes: list[int], expected: str) -> None:
    assert str(Indexes.of(indexes)) == expected


@given(st.sets(st.integers(0, 60)))
def test_written_indexes_read_back(indexes: set[int]) -> None:
    assert Indexes.parsed(str(Indexes.of(indexes)), 100) == Indexes.of(indexes)


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)), st.integers(0, 25), st.integers(0, 20))
def test_indexes_are_sets(some: set[int], others: set[int], wanted: int, completions: int) -> None:
    indexes = Indexes.of(some)
    assert [one in indexes for one in range(25)] == [one in some for one in range(25)]
    assert (len(indexes), indexes | Indexes.of(others)) == (len(some), Indexes.of(some | others))
    assert indexes.count_shared(Indexes.of(others)) == len(some & others)
    free = [one for one in range(completions) if one not in some]
    assert indexes.lowest_missing(wanted, completions) == free[:wanted]


def test_a_job_of_two_thousand_million_indexes_knows_which_are_left() -> None:
    async def test(cluster: Cluster) -> None:
        many = 2**31 - 1
        policy = {"rules": [{"succeededIndexes": f"0-{many - 1}", "succeededCount": many}]}
        await job(cluster, completions=many, completionMode="Indexed", successPolicy=policy, suspend=True)
        done = {"completedIndexes": f"0-9,12-{many - 1}", "succeeded": many - 2}
        await cluster.patch(builtin.JOBS, "j", {"status": done}, "status")
        await cluster.patch(builtin.JOBS, "j", {"spec": {"suspend": False, "parallelism": 5}})
        assert [pod["metadata"]["labels"][INDEX] for pod in await pods(cluster)] == ["10", "11"]

    running(test)
