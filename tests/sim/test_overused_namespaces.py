"""What nodes do, if they are asked to, to pods of namespaces that use more than they deserve (S2-51)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.compose import EVICT_FIRST, REFUSE, Settings, simulation
from fairlead.node.explain import node_story
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from tests.arbitrator.world import World

USAGE = "sim.fairlead.dev/usage-memory"


def played(act: Callable[[World], Awaitable[None]], *strategies: str) -> None:
    """With two nodes of 4 CPUs and the namespaces `greedy` and `modest`, which deserve half of them each."""

    async def play() -> None:
        nodes = tuple(uniform(2, NodeShape("4", "16Gi", 110)))
        settings = Settings(nodes=nodes, arbitrator=True, overused_namespaces=frozenset(strategies))
        async with simulation(settings) as (api, _):
            await asyncio.sleep(5)
            world = World(api)
            for namespace in ("greedy", "modest"):
                await world.namespace(namespace, evictionGrace="1h")
            await act(world)

    run_virtual(play())


async def bound(world: World, namespace: str, name: str, memory: str = "", *, cpu: str = "1", node: int = 1) -> None:
    """A pod that never saw a scheduler, nor asked the arbitrator."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    spec = {"nodeName": f"node-{node}", "containers": [{"name": "c", "image": "i", "resources": resources}]}
    annotations = {USAGE: memory} if memory else {}
    await world.api.create(
        builtin.PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}, namespace
    )


async def status(world: World, namespace: str, name: str) -> Obj:
    found: Obj = (await world.api.get(builtin.PODS, name, namespace)).obj()["status"]
    return found


async def state(world: World, namespace: str, name: str) -> tuple[str, str]:
    found = await status(world, namespace, name)
    return found["phase"], found.get("reason", "")


async def overuse_greedy(world: World) -> None:
    """It holds 5 of the 8 CPUs before anybody else wants any, and `modest` asks for the other half then."""
    await bound(world, "greedy", "small", "1200Mi")
    await bound(world, "greedy", "large", cpu="4", node=2)
    await bound(world, "modest", "hog", "8Gi")
    await world.settle()
    await world.pod("modest", "waiting", cpu="3")  # node-1 has room for 2
    await world.settle(1.5)
    assert (await world.condition("greedy", "Overused"))[0] == "True"


async def run_out_of_memory(world: World) -> None:
    used = 16 * 1024 - 8 * 1024 - 1200 - 90
    await world.api.patch(builtin.NODES, "node-1", "", {"metadata": {"annotations": {USAGE: f"{used}Mi"}}})
    await world.settle(15)


def test_a_node_that_evicts_them_first_spares_whoever_is_further_above_its_request() -> None:
    async def act(world: World) -> None:
        await overuse_greedy(world)
        await run_out_of_memory(world)
        assert await state(world, "greedy", "small") == ("Failed", "Evicted")
        assert await state(world, "modest", "hog") == ("Running", "")
        pod = (await world.api.get(builtin.PODS, "small", "greedy")).obj()
        story = node_story(pod, await world.events("greedy", "Evicted"), [])
        assert story is not None
        assert any("greedy/small" in note and "above what it deserves" in note for note in story.notes)
        assert any("a namespace within what it deserves; modest/hog would" in note for note in story.notes)

    played(act, EVICT_FIRST)


@pytest.mark.parametrize("strategies", [(), (REFUSE,)])
def test_other_nodes_evict_as_a_kubelet_does(strategies: tuple[str, ...]) -> None:
    async def act(world: World) -> None:
        await overuse_greedy(world)
        await run_out_of_memory(world)
        assert await state(world, "greedy", "small") == ("Running", "")
        assert await state(world, "modest", "hog") == ("Failed", "Evicted")

    played(act, *strategies)


def test_a_node_that_refuses_them_takes_pods_of_others() -> None:
    async def act(world: World) -> None:
        await overuse_greedy(world)
        await bound(world, "greedy", "more", cpu="100m")
        await bound(world, "modest", "more", cpu="100m")
        await world.settle(0.5)
        found = await status(world, "greedy", "more")
        assert (found["phase"], found["reason"]) == ("Failed", "NamespaceOverused")
        assert found["message"] == "Pod was rejected: Namespace greedy uses more than it deserves."
        (event,) = await world.events("greedy", "NamespaceOverused")
        assert (event["type"], event["message"]) == ("Warning", "Namespace greedy uses more than it deserves.")
        assert await state(world, "modest", "more") == ("Running", "")
        assert await state(world, "greedy", "small") == ("Running", "")

    played(act, REFUSE)


@pytest.mark.parametrize("strategies", [(), (EVICT_FIRST,)])
def test_other_nodes_take_whom_they_have_room_for(strategies: tuple[str, ...]) -> None:
    async def act(world: World) -> None:
        await overuse_greedy(world)
        await bound(world, "greedy", "more", cpu="100m")
        await world.settle(0.5)
        assert await state(world, "greedy", "more") == ("Running", "")

    played(act, *strategies)
