"""Consumers of the documents' misspelt group, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.errors import Invalid
from fairlead.arbitrator.objects import CONSUMERS, MISSPELT_CONSUMERS, THE_NAME
from tests.arbitrator.world import World, scene
from tests.played import played

Obj = dict[str, Any]


async def spec(world: World) -> Obj:
    found: Obj = (await world.api.get(CONSUMERS, THE_NAME, "a")).obj()["spec"]
    return {key: value for key, value in found.items() if key in ("hard", "weight")}


async def write(world: World, **spec: Any) -> None:
    metadata = {"name": THE_NAME, "namespace": "a"}
    await world.api.create(MISSPELT_CONSUMERS, {"metadata": metadata, "spec": spec}, "a")


@played(scene)
async def test_what_it_says_is_said_until_somebody_says_otherwise(world: World) -> None:
    """S2-11."""
    await world.namespace("a", weight=7)
    await write(world, hard={"cpu": "4"})
    await world.settle()
    assert await spec(world) == {"hard": {"cpu": "4"}, "weight": 1}
    await world.consumer("a", weight=3)
    await world.settle()
    assert await spec(world) == {"hard": {"cpu": "4"}, "weight": 3}
    await world.api.patch(MISSPELT_CONSUMERS, THE_NAME, "a", {"spec": {"hard": None, "weight": 2}})
    await world.settle()
    assert await spec(world) == {"weight": 2}
    await world.consumer("a", hard={"cpu": "5"})
    await world.api.delete(MISSPELT_CONSUMERS, THE_NAME, "a")
    await world.settle()
    assert await spec(world) == {"hard": {"cpu": "5"}, "weight": 1}  # the copy goes, what was said since does not
    await world.consumer("a", weight=4)
    await world.settle()
    assert await spec(world) == {"hard": {"cpu": "5"}, "weight": 4}


@played(scene)
async def test_without_it_the_system_is_unlimited_again(world: World) -> None:
    metadata = {"name": THE_NAME, "namespace": "kube-system"}
    await world.settle()
    await world.api.create(MISSPELT_CONSUMERS, {"metadata": metadata, "spec": {"weight": 3}}, "kube-system")
    await world.settle()
    found = (await world.api.get(CONSUMERS, THE_NAME, "kube-system")).obj()["spec"]
    assert (found.get("unlimited", False), found["weight"]) == (False, 3)
    await world.api.delete(MISSPELT_CONSUMERS, THE_NAME, "kube-system")
    await world.settle()
    found = (await world.api.get(CONSUMERS, THE_NAME, "kube-system")).obj()["spec"]
    assert (found["unlimited"], found["weight"]) == (True, 1)


@played(scene)
async def test_it_is_reviewed_like_any_other(world: World) -> None:
    await world.namespace("a")
    with pytest.raises(Invalid, match="must be less than or equal to hard"):
        await write(world, hard={"cpu": "1"}, reserved={"cpu": "2"})
