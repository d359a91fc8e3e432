"""What belongs to nobody is removed; owners decide whether their dependents go before, after, or not at all (X-10)."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead.api.builtin import CONFIG_MAPS, HORIZONTAL_POD_AUTOSCALERS, NAMESPACES
from fairlead.api.objects import Obj
from fairlead.controllers.garbage import GarbageCollector
from tests.controllers.cluster import Cluster, run
from tests.played import played


async def boss(cluster: Cluster, name: str = "boss", namespace: str = "n", **meta: Any) -> Obj:
    """A config map, as a reference to it."""
    made = await cluster.create(CONFIG_MAPS, {"metadata": {"name": name} | meta}, namespace)
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"]}


async def dependent(cluster: Cluster, name: str, *owners: Obj, **meta: Any) -> Obj:
    return await boss(cluster, name, ownerReferences=list(owners), **meta)


async def names(cluster: Cluster) -> list[str]:
    return sorted(one["metadata"]["name"] for one in await cluster.all(CONFIG_MAPS))


@played(run, GarbageCollector)
async def test_dependents_go_after_their_owner_to_any_depth(cluster: Cluster) -> None:
    a = await boss(cluster)
    b = await dependent(cluster, "b", a)
    await dependent(cluster, "c", b)
    await cluster.delete(CONFIG_MAPS, "boss", propagation_policy="Background")
    await asyncio.sleep(1)
    assert await names(cluster) == []


@played(run, GarbageCollector)
async def test_an_owner_in_the_foreground_waits_for_those_that_block_it(cluster: Cluster) -> None:
    owner = await boss(cluster)
    await dependent(cluster, "d", owner | {"blockOwnerDeletion": True}, finalizers=["example.com/hold"])
    await asyncio.sleep(1)
    await cluster.delete(CONFIG_MAPS, "boss", propagation_policy="Foreground")
    await asyncio.sleep(10)
    assert await names(cluster) == ["boss", "d"]
    await cluster.patch(CONFIG_MAPS, "d", {"metadata": {"finalizers": None}})
    await asyncio.sleep(1)
    assert await names(cluster) == []


@played(run, GarbageCollector)
async def test_an_orphaning_owner_is_forgotten_by_its_dependents(cluster: Cluster) -> None:
    await dependent(cluster, "d", await boss(cluster))
    await cluster.delete(CONFIG_MAPS, "boss", propagation_policy="Orphan")
    await asyncio.sleep(10)
    kept = await cluster.get(CONFIG_MAPS, "d")
    assert kept is not None
    assert "ownerReferences" not in kept["metadata"]
    assert await names(cluster) == ["d"]


@played(run, GarbageCollector)
async def test_one_of_two_owners_keeps_the_dependent(cluster: Cluster) -> None:
    first, second = await boss(cluster), await boss(cluster, "second")
    await dependent(cluster, "d", first, second)
    await cluster.delete(CONFIG_MAPS, "boss")
    await asyncio.sleep(1)
    kept = await cluster.get(CONFIG_MAPS, "d")
    assert kept is not None
    assert [one["name"] for one in kept["metadata"]["ownerReferences"]] == ["second"]


@played(run, GarbageCollector)
async def test_an_owner_that_never_was_counts_as_gone_but_an_unknown_kind_does_not(cluster: Cluster) -> None:
    await dependent(cluster, "d", {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "u-1"})
    await dependent(cluster, "e", {"apiVersion": "x.io/v1", "kind": "Widget", "name": "w", "uid": "u-2"})
    await asyncio.sleep(3600)
    assert await names(cluster) == ["e"]


@played(run, GarbageCollector, namespaces=("n", "other"))
async def test_an_owner_in_another_namespace_is_none_and_that_is_told(cluster: Cluster) -> None:
    far = await boss(cluster, "far", "other")
    await dependent(cluster, "d", far)
    await asyncio.sleep(1)
    assert await names(cluster) == []
    text = f'ownerRef [v1/ConfigMap, namespace: n, name: far, uid: {far["uid"]}] does not exist in namespace "n"'
    assert await cluster.events() == [("Warning", "OwnerRefInvalidNamespace", text)]


@played(run, GarbageCollector)
async def test_an_owner_of_another_kind_or_name_is_none(cluster: Cluster) -> None:
    owner = await boss(cluster)
    await dependent(cluster, "d", owner | {"apiVersion": "apps/v1", "kind": "ReplicaSet"})
    await dependent(cluster, "e", owner | {"name": "other"})
    await dependent(cluster, "f", owner)
    await asyncio.sleep(1)
    assert await names(cluster) == ["boss", "f"]
    assert await cluster.events() == []


@played(run, GarbageCollector)
async def test_an_owner_may_be_named_by_any_version_of_its_kind(cluster: Cluster) -> None:
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 1}
    made = await cluster.create(HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": "h"}, "spec": spec})
    for version in ("v1", "v2"):
        owner = {"apiVersion": f"autoscaling/{version}", "kind": made["kind"], "name": "h"}
        await dependent(cluster, version, owner | {"uid": made["metadata"]["uid"]})
    await asyncio.sleep(1)
    assert await names(cluster) == ["v1", "v2"]


@played(run, GarbageCollector, namespaces=("n", "other"))
async def test_a_namespaced_object_may_belong_to_a_cluster_wide_one(cluster: Cluster) -> None:
    made = await cluster.get(NAMESPACES, "other")
    assert made is not None
    await dependent(
        cluster,
        "d",
        {"apiVersion": "v1", "kind": "Namespace", "name": "other", "uid": made["metadata"]["uid"]},
    )
    await asyncio.sleep(1)
    assert await names(cluster) == ["d"]
