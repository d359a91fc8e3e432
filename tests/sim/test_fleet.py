"""The fleet as the agent of nodes that it did not make itself, over the real server in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import pytest

from fairlead.api.builtin import NAMESPACES, NODES, PODS
from fairlead.api.objects import Obj
from fairlead.cli.inputs import node_objects
from fairlead.client.informer import Informers
from fairlead.compose import Cluster, Settings, components, simulation
from fairlead.runtime import chance
from fairlead.runtime.clock import now, parse_timestamp
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.server.registry import Registry
from fairlead.sim.fleet import LEASE_NAMESPACE, RENEWING
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.store.memory import MemoryStore

READY = {"type": "Ready", "status": "True"}
SHAPE = {"cpu": "2", "memory": "4Gi", "pods": "10"}


def simulated(
    nodes: int, check: Callable[[Registry, Informers], Awaitable[None]], imported: Sequence[Obj] = ()
) -> None:
    async def run() -> None:
        settings = Settings(nodes=tuple(node_objects(None, imported, nodes, NodeShape())), imported=tuple(imported))
        async with simulation(settings) as (registry, informers):
            await check(registry, informers)

    chance.seed(1)
    run_virtual(run())


def pod(name: str, **spec: object) -> Obj:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


async def phase(registry: Registry, name: str) -> tuple[str, str]:
    found = (await registry.get(PODS, name, "default")).obj()
    return found["status"]["phase"], found["status"].get("reason", "")


def test_a_node_that_somebody_made_ready_by_hand_runs_pods() -> None:
    """scenarios.md: `kubectl create` of a Node and a patch of its status give a Ready simulated node."""

    async def check(registry: Registry, informers: Informers) -> None:
        await registry.create(NODES, {"metadata": {"name": "mine"}})
        status = {"capacity": SHAPE, "allocatable": SHAPE, "conditions": [READY]}
        await registry.patch(NODES, "mine", "", {"status": status}, subresource="status")
        await registry.create(PODS, pod("p"), "default")
        await asyncio.sleep(30)
        assert await phase(registry, "p") == ("Running", "")

    simulated(0, check)


def test_a_node_that_has_an_agent_of_its_own_is_left_alone() -> None:
    async def check(registry: Registry, informers: Informers) -> None:
        info = {"kubeletVersion": "v1.36.0", "containerRuntimeVersion": "containerd://2.1"}
        status = {"capacity": SHAPE, "allocatable": SHAPE, "conditions": [READY], "nodeInfo": info}
        await registry.create(NODES, {"metadata": {"name": "real"}, "status": status})
        await registry.create(PODS, pod("p", nodeName="real"), "default")
        await asyncio.sleep(30)
        assert await phase(registry, "p") == ("Pending", "")

    simulated(0, check)


def test_a_pod_bound_past_the_scheduler_is_refused_if_it_does_not_fit() -> None:
    """S0-54: `spec.nodeName` set by hand."""

    async def check(registry: Registry, informers: Informers) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}
        await registry.create(PODS, pod("big", nodeName="node-1", containers=[container]), "default")
        await asyncio.sleep(1)
        assert await phase(registry, "big") == ("Failed", "OutOfcpu")

    simulated(1, check)


def test_a_deleted_pod_is_gone_when_its_node_has_stopped_it() -> None:
    async def check(registry: Registry, informers: Informers) -> None:
        await registry.create(PODS, pod("p"), "default")
        await asyncio.sleep(5)
        await registry.delete(PODS, "p", "default")
        await asyncio.sleep(1)
        assert registry.find("pods", "p", "default") is None

    simulated(1, check)


def test_what_a_dump_shows_goes_on_where_it_was() -> None:
    """Nodes and pods of a real cluster; the ReplicaSet that owns the pod is not in the dump."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-1", "controller": True}
    node: Obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}}
    node["status"] = {
        "capacity": SHAPE,
        "allocatable": SHAPE,
        "conditions": [READY],
        "nodeInfo": {"kubeletVersion": "v1.33.1", "containerRuntimeVersion": "containerd://2.0"},
    }
    running = pod("web-1", nodeName="n") | {"apiVersion": "v1", "kind": "Pod"}
    running["metadata"] |= {"namespace": "default", "uid": "p-1", "ownerReferences": [owner]}
    running["status"] = {"phase": "Running", "startTime": "2025-12-31T00:00:00Z"}

    async def check(registry: Registry, informers: Informers) -> None:
        await asyncio.sleep(120)
        assert await phase(registry, "web-1") == ("Running", "")
        await registry.delete(PODS, "web-1", "default")
        await asyncio.sleep(1)
        assert registry.find("pods", "web-1", "default") is None, "its node is simulated now, and lets it go"

    simulated(0, check, [node, running])


def test_a_pod_that_declares_nonsense_runs_like_any_other() -> None:
    """An annotation is the user's text: whatever it says, the other pods go on."""

    async def check(registry: Registry, informers: Informers) -> None:
        for number, text in enumerate(["nan", "inf", "-inf", "-5", "1e300", "9" * 400, "x"]):
            silly = pod(f"p-{number}")
            keys = ("start-seconds", "lifetime-seconds", "exit-code", "stop-seconds")
            silly["metadata"]["annotations"] = {f"sim.fairlead.dev/{key}": text for key in keys}
            await registry.create(PODS, silly, "default")
        await asyncio.sleep(10)
        assert {await phase(registry, f"p-{number}") for number in range(7)} == {("Running", "")}

    simulated(1, check)


def test_the_namespace_of_the_leases_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    """`kubectl delete namespace kube-node-lease` is a strange idea, but no reason to end."""

    async def main() -> None:
        running = Cluster(server := Server(MemoryStore()))
        await server.open()
        settings = Settings(nodes=tuple(uniform(2, NodeShape())))
        async with components(running, settings, heartbeats=True):
            await asyncio.sleep(60)
            await server.registry.delete(NAMESPACES, LEASE_NAMESPACE)
            await asyncio.sleep(60)
            assert server.registry.find("leases.coordination.k8s.io", "node-2", LEASE_NAMESPACE) is not None
            assert not running.failure.done()

    run_virtual(main())
    assert sum("leases of nodes cannot be renewed" in one for one in caplog.messages) <= 1


def test_leases_are_renewed_some_at_a_time_and_each_in_time() -> None:
    """All at once would hold up everybody else, one after the other would wait for the disk at each."""

    async def main() -> None:
        running = Cluster(server := Server(MemoryStore()))
        await server.open()
        settings = Settings(nodes=tuple(uniform(100, NodeShape())))
        async with components(running, settings, heartbeats=True):
            for _ in range(4):
                await asyncio.sleep(20)
                leases = server.registry.each("leases.coordination.k8s.io", LEASE_NAMESPACE)
                renewed = [parse_timestamp(one.obj()["spec"]["renewTime"]) for one in leases]
                assert len(renewed) == 100
                assert min(renewed) >= now() - 10.1
                assert max(Counter(renewed).values()) < 2 * RENEWING

    run_virtual(main())
