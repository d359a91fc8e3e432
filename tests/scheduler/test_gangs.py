"""Gangs in virtual time: all of a group or none, and never a deadlock between two."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.encoded import Encoded
from fairlead.api.resources import Resource
from fairlead.api.scheduling import GROUP_LABEL
from fairlead.api.verbs import WatchQuery
from fairlead.client.informer import Informers
from fairlead.runtime.loops import run_virtual
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.configuration import load
from fairlead.scheduler.gangs import POD_GROUPS
from fairlead.scheduler.loop import Scheduler
from tests.examples import examples
from tests.played import played
from tests.registry_api import RegistryApi
from tests.scheduler.scheduler_world import Obj, node_obj, pod_obj

GANGS = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}}]}


class SlowApi(RegistryApi):
    """A server that takes its time to bind, and to write claims of devices."""

    async def create(self, resource: Resource, obj: Obj, *args: Any, subresource: str = "", **more: Any) -> Encoded:
        if subresource == "binding":
            await asyncio.sleep(5)
        return await super().create(resource, obj, *args, subresource=subresource, **more)

    async def patch(self, resource: Resource, *args: Any, **more: Any) -> Encoded:
        if resource == builtin.RESOURCE_CLAIMS:
            await asyncio.sleep(1)
        return await super().patch(resource, *args, **more)


class World:
    def __init__(self, api: SlowApi, model: ClusterModel) -> None:
        self.api, self.model = api, model

    async def node(self, name: str, cpu: int) -> None:
        await self.api.put(builtin.NODES, node_obj(name, cpu=cpu))

    async def group(self, name: str, least: int) -> None:
        group: Obj = {"metadata": {"name": name, "namespace": "default"}, "spec": {"minMember": least}}
        await self.api.create(POD_GROUPS, group, "default")

    async def pods(self, group: str, *numbers: int, cpu: int = 1, metadata: Obj | None = None, **spec: Any) -> None:
        for number in numbers:
            pod = pod_obj(f"{group}-{number}", cpu=cpu, **spec)
            pod["metadata"] |= {"labels": {GROUP_LABEL: group}} | (metadata or {})
            await self.api.put(builtin.PODS, pod)

    async def placed(self) -> dict[str, int]:
        """How many pods of each group have a node, some time later."""
        await asyncio.sleep(30)
        found: dict[str, int] = {}
        for item in (await self.api.list(builtin.PODS)).items:
            pod = item.obj()
            if "nodeName" in pod["spec"]:
                group = pod["metadata"]["labels"][GROUP_LABEL]
                found[group] = found.get(group, 0) + 1
        return found

    async def message(self, name: str) -> str:
        pod = (await self.api.get(builtin.PODS, name, "default")).obj()
        return str(pod["status"]["conditions"][0]["message"])


def scene(act: Callable[[World], Awaitable[None]], configuration: Any = GANGS) -> None:
    async def play() -> None:
        async with SlowApi() as api:
            await api.define(POD_GROUPS)
            informers = Informers(api)
            model = ClusterModel(informers, load(configuration))
            scheduler = Scheduler(api, model)
            tasks = [asyncio.create_task(informers.run()), asyncio.create_task(scheduler.run())]
            await act(World(api, model))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(play())


@played(scene)
async def test_a_group_starts_when_all_of_it_fits_and_not_before(world: World) -> None:
    await world.node("n1", 2)
    await world.group("train", 3)
    await world.pods("train", 0, 1, 2)
    assert await world.placed() == {}
    assert await world.message("train-0") == (
        "only 2 of the 3 pods that PodGroup default/train needs would fit: 0/1 nodes are available: 1 Insufficient cpu."
    )
    await world.node("n2", 2)
    assert await world.placed() == {"train": 3}


@played(scene)
async def test_a_group_waits_for_its_pods_and_for_its_object(world: World) -> None:
    await world.node("n1", 8)
    await world.pods("train", 0)
    assert await world.placed() == {}
    assert await world.message("train-0") == "PodGroup default/train not found"
    await world.group("train", 2)
    assert await world.placed() == {}
    assert "cannot find enough sibling pods, current pods number: 1" in await world.message("train-0")
    await world.pods("train", 1)
    assert await world.placed() == {"train": 2}


@played(scene)
async def test_a_group_waits_for_those_of_it_that_are_gated(world: World) -> None:
    await world.node("n1", 8)
    await world.group("train", 2)
    await world.pods("train", 0)
    await world.pods("train", 1, schedulingGates=[{"name": "quota"}])
    assert await world.placed() == {}
    assert "cannot find enough sibling pods, current pods number: 1" in await world.message("train-0")
    await world.api.patch(builtin.PODS, "train-1", "default", {"spec": {"schedulingGates": None}})
    assert await world.placed() == {"train": 2}


@played(scene)
async def test_a_pod_that_is_going_away_is_none_of_its_group(world: World) -> None:
    """It keeps a finalizer, and would be refused a node by the server."""
    await world.node("n1", 8)
    await world.group("train", 2)
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/late"]}
    await world.pods("train", 0, metadata=going)
    await world.pods("train", 1)
    assert await world.placed() == {}
    assert "cannot find enough sibling pods, current pods number: 1" in await world.message("train-1")
    await world.pods("train", 2)
    assert await world.placed() == {"train": 2}


@played(scene)
async def test_more_than_the_group_needs_go_where_there_is_room(world: World) -> None:
    await world.node("n1", 3)
    await world.group("train", 2)
    await world.pods("train", 0, 1, 2, 3)
    assert await world.placed() == {"train": 3}


@played(scene)
async def test_who_comes_while_the_others_are_being_bound_belongs_to_them(world: World) -> None:
    await world.node("n1", 3)
    await world.group("train", 2)
    await world.pods("train", 0, 1)
    await asyncio.sleep(1)
    began = (await world.api.list(builtin.PODS)).resource_version
    await world.pods("train", 2)
    assert await world.placed() == {"train": 3}
    query = WatchQuery(fields="metadata.name=train-2", resource_version=began, timeout_seconds=1)
    seen = [event.object.obj()["status"] async for event in world.api.watch(builtin.PODS, "default", query)]
    assert [condition["status"] for status in seen for condition in status.get("conditions", ())] == ["True"]


@played(scene)
async def test_two_groups_that_fit_only_one_after_the_other_do_not_block_each_other(world: World) -> None:
    await world.node("n1", 4)
    await world.group("a", 3)
    await world.group("b", 3)
    for number in range(3):  # they arrive by turns
        await world.pods("a", number)
        await world.pods("b", number)
    assert sorted((await world.placed()).values()) == [3]
    await world.node("n2", 4)
    assert await world.placed() == {"a": 3, "b": 3}


@played(scene, None)
async def test_nobody_is_held_back_unless_the_profile_asks_for_it(world: World) -> None:
    await world.node("n1", 2)
    await world.pods("train", 0, 1, 2)
    assert await world.placed() == {"train": 2}


@settings(max_examples=examples(25))
@given(
    nodes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    groups=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=4),
)
def test_every_group_has_none_or_at_least_its_minimum(nodes: list[int], groups: list[tuple[int, int]]) -> None:
    async def act(world: World) -> None:
        for number, cpu in enumerate(nodes):
            await world.node(f"n{number}", cpu)
        for number, (size, _) in enumerate(groups):
            await world.group(f"g{number}", size)
        for number, (size, cpu) in enumerate(groups):
            await world.pods(f"g{number}", *range(size), cpu=cpu)
        placed = await world.placed()
        assert all(count >= groups[int(name[1:])][0] for name, count in placed.items())

    scene(act)


@played(scene)
async def test_a_waiting_pod_whose_label_changes_counts_for_its_new_group_alone(world: World) -> None:
    await world.node("n1", 9)
    await world.group("old", 2)
    await world.group("new", 2)
    await world.pods("old", 0)
    await world.pods("new", 0)
    await asyncio.sleep(1)
    patch = {"metadata": {"labels": {GROUP_LABEL: "new"}}}
    await world.api.patch(builtin.PODS, "old-0", "default", patch)
    assert await world.placed() == {"new": 2}
    await world.pods("old", 1)
    assert await world.placed() == {"new": 2}
