"""Gangs whose pods claim devices: one claim is allocated once, and all pods of the gang go where its devices are."""

from __future__ import annotations

import asyncio

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.scheduler.explain import explain
from tests.played import played
from tests.scheduler.devices_world import asked, claim_obj, class_obj, named_claims, slice_obj
from tests.scheduler.test_gangs import World, scene

CLAIMS = builtin.RESOURCE_CLAIMS


async def devices_of(world: World, *nodes: str, most: int = 8) -> None:
    """Nodes, each with two devices of its own."""
    await world.api.create(builtin.DEVICE_CLASSES, class_obj())
    for node in nodes:
        await world.node(node, most)
        await world.api.create(builtin.RESOURCE_SLICES, slice_obj(node, "a", "b", node=node))


async def claim(world: World, name: str, count: int = 1) -> None:
    obj = claim_obj(name, asked(count=count))
    del obj["metadata"]["uid"]
    await world.api.create(CLAIMS, obj, "default")


async def status_of(world: World, name: str) -> Obj:
    status: Obj = (await world.api.get(CLAIMS, name, "default")).obj().get("status", {})
    return status


async def nodes_of(world: World) -> dict[str, str]:
    pods = [item.obj() for item in (await world.api.list(builtin.PODS)).items]
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}


@played(scene)
async def test_a_gang_that_shares_a_claim_starts_where_its_device_is(world: World) -> None:
    await devices_of(world, "n1", "n2")
    await claim(world, "shared")
    await world.group("train", 8)
    await world.pods("train", *range(8), resourceClaims=named_claims("shared"))
    assert await world.placed() == {"train": 8}
    status = await status_of(world, "shared")
    (result,) = status["allocation"]["devices"]["results"]
    assert set((await nodes_of(world)).values()) == {result["pool"]}
    assert sorted(pod["name"] for pod in status["reservedFor"]) == sorted(await nodes_of(world))


@played(scene)
async def test_a_gang_may_share_one_claim_and_have_others_for_each_pod(world: World) -> None:
    await devices_of(world, "n1")
    await world.api.create(builtin.RESOURCE_SLICES, slice_obj("net", *"cdef", allNodes=True))
    await claim(world, "shared")
    await world.group("train", 3)
    for number in range(3):
        await claim(world, f"own-{number}")
        await world.pods("train", number, resourceClaims=named_claims("shared", f"own-{number}"))
    assert await world.placed() == {"train": 3}


@played(scene)
async def test_a_gang_that_is_too_large_for_the_node_of_its_claim_keeps_no_device(world: World) -> None:
    await devices_of(world, "n1", most=2)
    await claim(world, "shared", 2)
    await claim(world, "single")
    await world.group("train", 3)
    await world.pods("train", 0, 1, 2, resourceClaims=named_claims("shared"))
    assert await world.placed() == {}
    assert "only 2 of the 3 pods" in await world.message("train-0")
    assert not await status_of(world, "shared")
    await world.group("other", 1)
    await world.pods("other", 0, resourceClaims=named_claims("single"))
    assert await world.placed() == {"other": 1}


@played(scene)
async def test_a_pod_that_is_no_member_waits_until_a_gang_has_its_claim(world: World) -> None:
    """As upstream has it: what is being allocated is shared within one decision about a group alone."""
    await devices_of(world, "n1", "n2")
    await claim(world, "shared")
    await world.group("train", 2)
    await world.group("late", 1)
    await world.pods("train", 0, 1, resourceClaims=named_claims("shared"))
    await asyncio.sleep(0.1)
    await world.pods("late", 0, resourceClaims=named_claims("shared"))
    await asyncio.sleep(0.1)
    assert "in the process of being allocated" in await world.message("late-0")
    assert await world.placed() == {"train": 2, "late": 1}
    assert len(set((await nodes_of(world)).values())) == 1


@played(scene)
async def test_who_waits_for_a_claim_of_its_gang_is_told_who_else_has_to_fit(world: World) -> None:
    await devices_of(world, "n1", most=2)
    await world.node("large", 16)
    await claim(world, "shared")
    await world.group("train", 3)
    await world.pods("train", 0, 1, 2, resourceClaims=named_claims("shared"))
    await asyncio.sleep(20)
    told = explain(world.model, "default/train-0")
    assert told is not None
    assert [scored.node for scored in told.scored] == ["n1"]
    assert told.notes == [
        "it starts with its group: 3 pods of it must fit at once, and this tells of one",
        "where it gets the devices of shared, 2 of its group that share the claim must fit as well",
    ]
