"""Quotas tell what is used, and take back what is gone (X-10, S1-02)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from fairlead.api import builtin
from fairlead.api.encoded import encoded
from fairlead.api.objects import Obj
from fairlead.api.quota_scopes import ResourceQuota
from fairlead.controllers.actions import GiveWay, ListAll, Patch
from fairlead.controllers.base import World
from fairlead.controllers.quota import TURN_OBJECTS, ResourceQuotas
from tests.controllers.cluster import Cluster, run
from tests.played import played
from tests.work import calls


def pod(name: str, cpu: str = "100m", **spec: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]} | spec}


async def quota(cluster: Cluster, **spec: Any) -> None:
    await cluster.create(builtin.RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": spec})
    await asyncio.sleep(1)


async def used(cluster: Cluster) -> Obj:
    found = await cluster.get(builtin.RESOURCE_QUOTAS, "q")
    assert found is not None
    return {} if "status" not in found else dict(found["status"].get("used", {}))


@played(run, ResourceQuotas)
async def test_a_new_quota_counts_what_is_there_and_what_is_not(cluster: Cluster) -> None:
    await cluster.create(builtin.PODS, pod("a"))
    hard = {
        "pods": "5",
        "requests.cpu": "1",
        "count/deployments.apps": "3",
        "services": "1",
        "count/nope.x.io": "1",
        "count/events": "3",
    }
    await quota(cluster, hard=hard)
    assert await used(cluster) == {
        "pods": "1",
        "requests.cpu": "100m",
        "count/deployments.apps": "0",
        "services": "0",
    }


@played(run, ResourceQuotas)
async def test_a_deleted_or_finished_pod_is_given_back(cluster: Cluster) -> None:
    await quota(cluster, hard={"pods": "5", "count/pods": "9", "requests.cpu": "1"})
    for name in ("a", "b", "c"):
        await cluster.create(builtin.PODS, pod(name))
    assert await used(cluster) == {"pods": "3", "count/pods": "3", "requests.cpu": "300m"}
    await cluster.delete(builtin.PODS, "a")
    await cluster.patch(builtin.PODS, "b", {"status": {"phase": "Succeeded"}}, "status")
    await asyncio.sleep(1)
    assert await used(cluster) == {"pods": "1", "count/pods": "2", "requests.cpu": "100m"}


@played(run, ResourceQuotas)
async def test_a_pod_that_outstays_its_grace_on_a_lost_node_is_given_back(cluster: Cluster) -> None:
    await quota(cluster, hard={"pods": "5"})
    await cluster.create(builtin.PODS, pod("a", nodeName="lost"))
    await cluster.create(builtin.PODS, pod("b", nodeName="lost"))
    await cluster.create(builtin.PODS, pod("c"))
    await cluster.delete(builtin.PODS, "a")
    await cluster.delete(builtin.PODS, "c")
    await asyncio.sleep(1)
    assert await used(cluster) == {"pods": "2"}
    await asyncio.sleep(100)
    assert await used(cluster) == {"pods": "1"}


@played(run, ResourceQuotas)
async def test_a_changed_quota_forgets_what_it_does_not_limit_any_more(cluster: Cluster) -> None:
    await quota(cluster, hard={"pods": "5", "secrets": "10"})
    await cluster.patch(builtin.RESOURCE_QUOTAS, "q", {"spec": {"hard": {"secrets": None}}})
    await asyncio.sleep(1)
    found = await cluster.get(builtin.RESOURCE_QUOTAS, "q")
    assert found is not None
    assert found["status"] == {"hard": {"pods": "5"}, "used": {"pods": "0"}}


@played(run, ResourceQuotas)
async def test_a_charge_that_nothing_came_of_is_taken_back_after_five_minutes(cluster: Cluster) -> None:
    await quota(cluster, hard={"pods": "5"})
    await cluster.patch(builtin.RESOURCE_QUOTAS, "q", {"status": {"used": {"pods": "4"}}}, "status")
    await asyncio.sleep(200)
    assert await used(cluster) == {"pods": "4"}
    await asyncio.sleep(200)
    assert await used(cluster) == {"pods": "0"}


@played(run, ResourceQuotas)
async def test_a_pod_that_gets_a_deadline_is_given_back_by_the_quota_for_pods_without(cluster: Cluster) -> None:
    await cluster.create(builtin.PODS, pod("a"))
    await quota(cluster, hard={"pods": "5"}, scopes=["NotTerminating"])
    assert await used(cluster) == {"pods": "1"}
    await cluster.patch(builtin.PODS, "a", {"spec": {"activeDeadlineSeconds": 1000}})
    await asyncio.sleep(1)
    assert await used(cluster) == {"pods": "0"}


@played(run, ResourceQuotas)
async def test_what_a_resized_container_has_given_up_is_given_back(cluster: Cluster) -> None:
    def status(cpu: str) -> Obj:
        resources = {"requests": {"cpu": cpu}}
        common = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
        return {
            "status": {"containerStatuses": [common | {"resources": resources, "allocatedResources": {"cpu": cpu}}]}
        }

    await cluster.create(builtin.PODS, pod("a"))
    await cluster.patch(builtin.PODS, "a", status("500m"), "status")
    await quota(cluster, hard={"requests.cpu": "1"})
    assert await used(cluster) == {"requests.cpu": "500m"}
    await cluster.patch(builtin.PODS, "a", status("100m"), "status")
    await asyncio.sleep(1)
    assert await used(cluster) == {"requests.cpu": "100m"}


@played(run, ResourceQuotas)
async def test_a_claim_is_recounted_when_its_size_or_its_attributes_change(cluster: Cluster) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeAttributesClassName": "fast",
    }
    await cluster.create(builtin.PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "c"}, "spec": spec})
    grown = {
        "phase": "Bound",
        "allocatedResources": {"storage": "9Gi"},
        "currentVolumeAttributesClassName": "fast",
    }
    await cluster.patch(builtin.PERSISTENT_VOLUME_CLAIMS, "c", {"status": grown}, "status")
    fast = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["fast"]}
    await quota(cluster, hard={"requests.storage": "20Gi"}, scopeSelector={"matchExpressions": [fast]})
    assert await used(cluster) == {"requests.storage": "9Gi"}
    await cluster.patch(
        builtin.PERSISTENT_VOLUME_CLAIMS, "c", {"status": {"allocatedResources": {"storage": "1Gi"}}}, "status"
    )
    await asyncio.sleep(1)
    assert await used(cluster) == {"requests.storage": "1Gi"}
    await cluster.patch(builtin.PERSISTENT_VOLUME_CLAIMS, "c", {"spec": {"volumeAttributesClassName": "slow"}})
    await cluster.patch(
        builtin.PERSISTENT_VOLUME_CLAIMS, "c", {"status": {"currentVolumeAttributesClassName": "slow"}}, "status"
    )
    await asyncio.sleep(1)
    assert await used(cluster) == {"requests.storage": "0"}


@played(run, ResourceQuotas)
async def test_devices_are_recounted_when_their_class_gets_another_name(cluster: Cluster) -> None:
    asked = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [asked]}}}
    await cluster.create(builtin.DEVICE_CLASSES, {"metadata": {"name": "gpu"}})
    await cluster.create(builtin.RESOURCE_CLAIMS, claim)
    resources = {"limits": {"example.com/gpu": "1"}}
    container = {"name": "c", "image": "i", "resources": resources}
    await cluster.create(builtin.PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    devices = "gpu.deviceclass.resource.k8s.io/devices"
    await quota(cluster, hard={"requests.example.com/gpu": "9", devices: "9"})
    assert await used(cluster) == {"requests.example.com/gpu": "1", devices: "2"}
    patch = {"spec": {"extendedResourceName": "example.com/gpu"}}
    await cluster.patch(builtin.DEVICE_CLASSES, "gpu", patch)
    await asyncio.sleep(1)
    assert await used(cluster) == {"requests.example.com/gpu": "3", devices: "2"}


def test_a_recount_of_thousands_of_objects_or_names_gives_way() -> None:
    pods = [encoded(pod(f"p{number}")) for number in range(3 * TURN_OBJECTS)]
    names = {f"requests.example.com/r{number}": "1" for number in range(2 * TURN_OBJECTS)}
    spec = {"hard": {"pods": "1", "requests.cpu": "1"} | names}
    found = encoded({"metadata": {"name": "q", "namespace": "default"}, "spec": spec}).view(ResourceQuota)
    actions = ResourceQuotas().reconcile(found, cast(World, SimpleNamespace(now=0.0, of=lambda kind: ())))
    ways, outcome = 0, None
    while not isinstance(action := actions.send(outcome), Patch):
        ways += isinstance(action, GiveWay)
        outcome = pods if isinstance(action, ListAll) and action.kind.resource == builtin.PODS else []
    assert action.patch["status"]["used"]["requests.cpu"] == "150"
    assert ways == 4


def recount(pods: int, **spec: Any) -> Iterator[int]:
    """The turns of a recount: how many functions each of them calls."""
    listed = [encoded(pod(f"p{number}")) for number in range(pods)]
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "1"}} | spec}
    found = encoded(quota).view(ResourceQuota)
    actions = ResourceQuotas().reconcile(found, cast(World, SimpleNamespace(now=0.0, of=lambda kind: ())))
    outcome: list[Any] = [None]
    while not isinstance(outcome[-1], Patch):
        answer = listed if isinstance(outcome[-1], ListAll) else None
        yield calls(partial(lambda answer: outcome.append(actions.send(answer)), answer))


def test_a_scope_that_is_named_again_and_again_is_looked_at_once() -> None:
    assert sum(recount(50, scopes=["NotTerminating"] * 300)) < 1.2 * sum(recount(50, scopes=["NotTerminating"])) + 500


def test_a_recount_by_thousands_of_conditions_gives_way_more_often() -> None:
    conditions = [{"scopeName": "PriorityClass", "operator": "NotIn", "values": [f"v{n}"]} for n in range(500)]
    turns = list(recount(60, scopeSelector={"matchExpressions": conditions}))
    assert max(turns) < sum(turns) / 2
