"""The workload controllers over the real registry, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.controllers.daemonset import DaemonSets
from fairlead.controllers.deployment import Deployments
from fairlead.controllers.replication import ReplicaSets, ReplicationControllers
from fairlead.controllers.statefulset import StatefulSets
from fairlead.runtime import clock, rng
from tests.controllers.cluster import Cluster, run
from tests.played import played


def spec(version: str = "1", **more: Any) -> Obj:
    template = {
        "metadata": {"labels": {"app": "a", "v": version}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {"selector": {"matchLabels": {"app": "a"}}, "template": template} | more


async def settle(world: Cluster) -> None:
    """Make every pod ready, as kubelets would, until the controllers make no more."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": clock.timestamp()}
    for _ in range(20):
        await asyncio.sleep(1)
        waiting = [one for one in await world.all(builtin.PODS) if one["status"]["phase"] == "Pending"]
        for pod in waiting:
            status = {"status": {"phase": "Running", "conditions": [ready]}}
            await world.patch(builtin.PODS, pod["metadata"]["name"], status, "status")
        if not waiting:
            return
    raise AssertionError("the controllers never come to rest")


async def status_of(world: Cluster, resource: Any, name: str) -> Obj:
    found = await world.get(resource, name)
    assert found is not None
    status: Obj = found["status"]
    return status


async def roll_out(world: Cluster) -> None:
    await world.create(builtin.DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec(replicas=4)})
    await settle(world)
    await world.patch(builtin.DEPLOYMENTS, "d", {"spec": spec("2")})
    await settle(world)


@played(run, Deployments, ReplicaSets)
async def test_a_rollout_ends_with_all_pods_new_and_the_old_set_kept_empty(world: Cluster) -> None:
    await roll_out(world)
    status = await status_of(world, builtin.DEPLOYMENTS, "d")
    assert (status["updatedReplicas"], status["availableReplicas"], status["observedGeneration"]) == (4, 4, 2)
    assert {one["metadata"]["labels"]["v"] for one in await world.all(builtin.PODS)} == {"2"}
    sets = await world.all(builtin.REPLICA_SETS)
    assert sorted(one["spec"]["replicas"] for one in sets) == [0, 4]


@played(run, Deployments, ReplicaSets)
async def test_an_annotation_brings_the_last_template_back(world: Cluster) -> None:
    await roll_out(world)
    wish = {"metadata": {"annotations": {"deprecated.deployment.rollback.to": "0"}}}
    await world.patch(builtin.DEPLOYMENTS, "d", wish)
    await settle(world)
    found = await world.get(builtin.DEPLOYMENTS, "d")
    assert found is not None
    assert found["spec"]["template"]["metadata"]["labels"] == {"app": "a", "v": "1"}
    assert found["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "3"}
    assert found["status"]["updatedReplicas"] == 4


@played(run, ReplicationControllers)
async def test_a_thousand_replicas_come_and_go(world: Cluster) -> None:
    owner = {"metadata": {"name": "r"}, "spec": spec(replicas=1000) | {"selector": {"app": "a"}}}
    await world.create(builtin.REPLICATION_CONTROLLERS, owner)
    await settle(world)
    assert (await status_of(world, builtin.REPLICATION_CONTROLLERS, "r"))["availableReplicas"] == 1000
    await world.patch(builtin.REPLICATION_CONTROLLERS, "r", {"spec": {"replicas": 3}})
    await settle(world)
    assert (await status_of(world, builtin.REPLICATION_CONTROLLERS, "r"))["replicas"] == 3


@played(run, StatefulSets)
async def test_a_stateful_set_rolls_back_to_a_revision_that_it_has(world: Cluster) -> None:
    await world.create(builtin.STATEFUL_SETS, {"metadata": {"name": "s"}, "spec": spec(replicas=2, serviceName="x")})
    await settle(world)
    for version in ("2", "1"):
        await world.patch(builtin.STATEFUL_SETS, "s", {"spec": {"template": spec(version)["template"]}})
        await settle(world)
    revisions = await world.all(builtin.CONTROLLER_REVISIONS)
    assert sorted(one["revision"] for one in revisions) == [2, 3]
    status = await status_of(world, builtin.STATEFUL_SETS, "s")
    newest = max(revisions, key=lambda one: one["revision"])
    assert status["currentRevision"] == status["updateRevision"] == newest["metadata"]["name"]


@played(run, DaemonSets)
async def test_a_daemon_set_follows_the_nodes(world: Cluster) -> None:
    await world.create(builtin.DAEMON_SETS, {"metadata": {"name": "ds"}, "spec": spec()})
    for name in ("n1", "n2"):
        await world.create(builtin.NODES, {"metadata": {"name": name}})
        await world.patch(builtin.NODES, name, {"spec": {"taints": None}})
    await settle(world)
    assert (await status_of(world, builtin.DAEMON_SETS, "ds"))["numberAvailable"] == 2
    await world.delete(builtin.NODES, "n1")
    await asyncio.sleep(1)
    assert len(await world.all(builtin.PODS)) == 1


@pytest.mark.parametrize("story", [roll_out])
def test_the_same_seed_makes_the_same_world(story: Callable[[Cluster], Awaitable[None]]) -> None:
    worlds: list[Any] = []

    async def test(world: Cluster) -> None:
        rng.seed(7)
        await story(world)
        worlds.append([await world.all(kind) for kind in (builtin.PODS, builtin.REPLICA_SETS, builtin.EVENTS)])

    for _ in range(2):
        run(test, Deployments, ReplicaSets)
    assert worlds[0] == worlds[1]
