"""A deleted namespace removes what is in it and tells what keeps it (X-10)."""

from __future__ import annotations

import asyncio

from fairlead.api import builtin
from fairlead.controllers.namespace import Namespaces
from tests.controllers.cluster import Cluster, run
from tests.played import played


@played(run, Namespaces)
async def test_a_deleted_namespace_takes_its_content_along(cluster: Cluster) -> None:
    await cluster.create(builtin.CONFIG_MAPS, {"metadata": {"name": "c"}})
    await cluster.delete(builtin.NAMESPACES, "n")
    await asyncio.sleep(1)
    assert await cluster.get(builtin.NAMESPACES, "n") is None
    assert await cluster.get(builtin.CONFIG_MAPS, "c") is None


@played(run, Namespaces)
async def test_a_finalizer_keeps_the_namespace_which_says_so_and_goes_when_it_is_gone(cluster: Cluster) -> None:
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await cluster.create(builtin.CONFIG_MAPS, held)
    await cluster.delete(builtin.NAMESPACES, "n")
    await asyncio.sleep(1)
    stuck = await cluster.get(builtin.NAMESPACES, "n")
    assert stuck is not None
    told = {one["type"]: (one["status"], one["reason"], one["message"]) for one in stuck["status"]["conditions"]}
    assert told["NamespaceContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 1 resource instances",
    )
    assert told["NamespaceFinalizersRemaining"][2] == (
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    )
    await cluster.patch(builtin.CONFIG_MAPS, "held", {"metadata": {"finalizers": None}})
    await asyncio.sleep(1)
    assert await cluster.get(builtin.NAMESPACES, "n") is None


@played(run, Namespaces)
async def test_pods_go_before_everything_else(cluster: Cluster) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "x", "containers": [{"name": "c", "image": "i"}]}}
    await cluster.create(builtin.PODS, pod)
    await cluster.create(builtin.CONFIG_MAPS, {"metadata": {"name": "c"}})
    await cluster.delete(builtin.NAMESPACES, "n")
    await asyncio.sleep(20)
    assert await cluster.get(builtin.CONFIG_MAPS, "c") is not None
    await cluster.delete(builtin.PODS, "p", grace_period_seconds=0)
    await asyncio.sleep(1)
    assert await cluster.get(builtin.NAMESPACES, "n") is None


@played(run, Namespaces)
async def test_a_foreign_finalizer_of_the_namespace_is_left_to_its_owner(cluster: Cluster) -> None:
    await cluster.create(builtin.NAMESPACES, {"metadata": {"name": "x"}, "spec": {"finalizers": ["example.com/k"]}})
    await cluster.delete(builtin.NAMESPACES, "x")
    await asyncio.sleep(1)
    kept = await cluster.get(builtin.NAMESPACES, "x")
    assert kept is not None
    assert kept["spec"]["finalizers"] == ["example.com/k"]
    assert [one["status"] for one in kept["status"]["conditions"]] == ["False"] * 5
    assert kept["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
