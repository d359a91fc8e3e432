"""Budgets tell how many pods may be disturbed (X-10, S3-50)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.controllers.disruption import DisruptionBudgets, StaleDisruptions
from fairlead.runtime.clock import now, timestamp
from tests.controllers.cluster import Cluster, run
from tests.played import played

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


async def pods(cluster: Cluster, *names: str, owner: Obj | None = None, ready: bool = True, **meta: Any) -> None:
    for name in names:
        references = [owner | {"controller": True}] if owner else []
        made = {
            "metadata": {"name": name, "labels": {"app": "a"}, "ownerReferences": references} | meta,
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        }
        await cluster.create(builtin.PODS, made)
        if ready:
            await cluster.patch(builtin.PODS, name, {"status": READY}, "status")


async def owner(cluster: Cluster, resource: Resource, name: str, replicas: int, **meta: Any) -> Obj:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    made = await cluster.create(resource, {"metadata": {"name": name} | meta, "spec": spec})
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "uid": made["metadata"]["uid"],
    }


async def budget(cluster: Cluster, **spec: Any) -> Obj:
    wanted = {"selector": {"matchLabels": {"app": "a"}}} | spec
    await cluster.create(builtin.POD_DISRUPTION_BUDGETS, {"metadata": {"name": "b"}, "spec": wanted})
    return await status(cluster)


async def status(cluster: Cluster) -> Obj:
    await asyncio.sleep(1)
    found = await cluster.get(builtin.POD_DISRUPTION_BUDGETS, "b")
    assert found is not None
    return dict(found["status"])


def numbers(status: Obj) -> tuple[int, int, int, int]:
    """How many pods are expected, healthy, desired, and allowed to be disturbed."""
    return status["expectedPods"], status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"minAvailable": 2}, (3, 2, 2, 0)),
        ({"minAvailable": 0}, (3, 2, 0, 2)),
        ({"minAvailable": "50%"}, (4, 2, 2, 0)),
        ({"minAvailable": "30%"}, (4, 2, 2, 0)),
        ({"maxUnavailable": 1}, (4, 2, 3, 0)),
        ({"maxUnavailable": "55%"}, (4, 2, 1, 1)),
        ({"maxUnavailable": 9}, (4, 2, 0, 2)),
    ],
)
@played(run, DisruptionBudgets)
async def test_numbers_are_of_the_pods_and_percentages_of_what_their_owners_want(
    cluster: Cluster, spec: Obj, told: tuple[int, ...]
) -> None:
    replica_set = await owner(cluster, builtin.REPLICA_SETS, "r", 4)
    await pods(cluster, "p0", "p1", owner=replica_set)
    await pods(cluster, "p2", owner=replica_set, ready=False)
    found = await budget(cluster, **spec)
    assert numbers(found) == told
    [condition] = found["conditions"]
    assert condition["reason"] == ("SufficientPods" if told[-1] else "InsufficientPods")
    assert condition["message"] == ""
    assert found["observedGeneration"] == condition["observedGeneration"] == 1


@played(run, DisruptionBudgets)
async def test_a_deployment_stands_for_its_replica_sets(cluster: Cluster) -> None:
    deployment = await owner(cluster, builtin.DEPLOYMENTS, "d", 3)
    for name in ("old", "new"):
        references = [deployment | {"controller": True}]
        above = await owner(cluster, builtin.REPLICA_SETS, name, 2, ownerReferences=references)
        await pods(cluster, f"{name}-1", f"{name}-2", owner=above)
    assert numbers(await budget(cluster, maxUnavailable=1)) == (3, 4, 2, 2)


@played(run, DisruptionBudgets)
async def test_pods_without_an_owner_are_no_part_of_a_percentage_and_that_is_told(cluster: Cluster) -> None:
    await pods(cluster, "p0")
    assert numbers(await budget(cluster, maxUnavailable=1)) == (0, 1, 0, 0)
    [(type_, reason, message)] = await cluster.events()
    assert (type_, reason) == ("Warning", "UnmanagedPods")
    selector = "&LabelSelector{MatchLabels:map[string]string{app: a,},MatchExpressions:[]LabelSelectorRequirement{},}"
    assert f"(selector: {selector})" in message


@played(run, DisruptionBudgets)
async def test_an_owner_without_a_scale_makes_the_budget_fail_safe(cluster: Cluster) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-1"}
    await pods(cluster, "p0", owner=job)
    [condition] = (await budget(cluster, maxUnavailable=1))["conditions"]
    text = "jobs.batch does not implement the scale subresource"
    assert (condition["reason"], condition["message"]) == ("SyncFailed", text)


@played(run, DisruptionBudgets)
async def test_an_evicted_pod_counts_as_gone_for_two_minutes(cluster: Cluster) -> None:
    await pods(cluster, "p0", "p1")
    await budget(cluster, minAvailable=1)
    evicted = {"status": {"disruptedPods": {"p0": timestamp(now())}}}
    await cluster.patch(builtin.POD_DISRUPTION_BUDGETS, "b", evicted, "status")
    assert numbers(await status(cluster)) == (2, 1, 1, 0)
    await asyncio.sleep(125)
    assert numbers(await status(cluster)) == (2, 2, 1, 1)
    assert "disruptedPods" not in await status(cluster)
    assert [reason for _, reason, _ in await cluster.events()] == ["NotDeleted"]


@played(run, DisruptionBudgets)
async def test_of_a_pod_with_several_budgets_that_is_told_at_every_change(cluster: Cluster) -> None:
    text = 'Pod "n"/"p" matches multiple PodDisruptionBudgets.  Chose "a" arbitrarily.'

    async def told(cluster: Cluster) -> list[tuple[str, str, str, int]]:
        await asyncio.sleep(1)
        found = await cluster.all(builtin.EVENTS)
        return [
            (one["involvedObject"]["kind"], one["source"]["component"], one["message"], one["count"])
            for one in found
            if (one["type"], one["reason"]) == ("Warning", "MultiplePodDisruptionBudgets")
        ]

    spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "a"}}}
    await cluster.create(builtin.POD_DISRUPTION_BUDGETS, {"metadata": {"name": "a"}, "spec": spec})
    await budget(cluster, minAvailable=0)
    await pods(cluster, "other", labels={"app": "b"})
    assert await told(cluster) == []
    await pods(cluster, "p")
    assert await told(cluster) == [("Pod", "controllermanager", text, 2)]
    await cluster.patch(builtin.PODS, "p", {"metadata": {"labels": {"more": "x"}}})
    assert await told(cluster) == [("Pod", "controllermanager", text, 3)]
    await cluster.delete(builtin.PODS, "p", grace_period_seconds=0)
    assert await told(cluster) == [("Pod", "controllermanager", text, 5)]  # it is marked, then it is gone
    assert (await status(cluster))["expectedPods"] == 0


@played(run, StaleDisruptions)
async def test_an_announced_disruption_that_never_came_is_withdrawn(cluster: Cluster) -> None:
    await pods(cluster, "p0")
    announced = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "x",
        "lastTransitionTime": timestamp(now()),
    }
    await cluster.patch(builtin.PODS, "p0", {"status": {"conditions": [announced]}}, "status")
    for wait, expected in ((100, "True"), (30, "False")):
        await asyncio.sleep(wait)
        found = await cluster.get(builtin.PODS, "p0")
        assert found is not None
        assert found["status"]["conditions"][0]["status"] == expected
