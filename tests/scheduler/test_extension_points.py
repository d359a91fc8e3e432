"""PostFilter, PreBind and Bind for plugins of other packages, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.encoded import Encoded
from fairlead.api.resources import Resource
from fairlead.api.scheduling import GROUP_LABEL
from fairlead.api.verbs import DeleteOptions
from fairlead.client.informer import Informers
from fairlead.runtime import loops, rng
from fairlead.scheduler import plugins
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.configuration import load
from fairlead.scheduler.gangs import POD_GROUPS
from fairlead.scheduler.loop import Scheduler
from tests.registry_api import RegistryApi
from tests.scheduler.own_plugins import CALLS
from tests.scheduler.scheduler_world import Obj, node_obj, pod_obj

OWN = ("SpareRoom", "Licence", "SecondLicence", "OwnBinder")
NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plugins are known by the metadata that pip would write."""
    info = tmp_path / "own-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    points = "".join(f"{name} = tests.scheduler.own_plugins:{name}\n" for name in OWN)
    (info / "entry_points.txt").write_text(f"[fairlead.scheduler.plugins]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    plugins._installed.cache_clear()
    CALLS.clear()
    yield
    plugins._installed.cache_clear()


def enabled(**points: tuple[str, ...]) -> Obj:
    """A profile in which these plugins come first at these points."""
    listed = {
        point: {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in names]}
        for point, names in points.items()
    }
    return {"profiles": [{"plugins": listed}]}


class World:
    def __init__(self, api: RegistryApi) -> None:
        self.api = api

    async def node(self, name: str = "n1", **more: Any) -> None:
        await self.api.put(builtin.NODES, node_obj(name, **more))

    async def pod(self, name: str, **more: Any) -> None:
        await self.api.put(builtin.PODS, pod_obj(name, **more))

    async def node_of(self, name: str) -> str:
        pod = (await self.api.get(builtin.PODS, name, "default")).obj()
        return str(pod["spec"].get("nodeName", ""))

    async def refusal(self, name: str) -> tuple[str, str]:
        """Reason and message of the pod's condition."""
        pod = (await self.api.get(builtin.PODS, name, "default")).obj()
        (condition,) = pod["status"]["conditions"]
        return condition["reason"], condition["message"]


class Overtaken(RegistryApi):
    """Before anything is written of the pod `w`, somebody puts another in its place that no node will do for."""

    def __init__(self) -> None:
        super().__init__()
        self._is_replaced = False

    async def patch(self, resource: Resource, name: str, *args: Any, **more: Any) -> Encoded:
        if name == "w" and not self._is_replaced:
            self._is_replaced = True
            await self.delete(builtin.PODS, name, "default", DeleteOptions(grace_period_seconds=0))
            another = pod_obj(name, nodeSelector={"no": "such"}, labels={"licence": "wanted"})
            another["metadata"]["uid"] = "uid-another"
            await self.put(builtin.PODS, another)
        return await super().patch(resource, name, *args, **more)


def scene(
    configuration: Obj, act: Callable[[World], Awaitable[None]], cluster: Callable[[], RegistryApi] = RegistryApi
) -> None:
    async def play() -> None:
        rng.seed(1)
        async with cluster() as api:
            await api.define(POD_GROUPS)
            informers = Informers(api)
            scheduler = Scheduler(api, ClusterModel(informers, load(configuration)))
            tasks = [asyncio.create_task(informers.run()), asyncio.create_task(scheduler.run())]
            await act(World(api))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    loops.run_virtual(play())


# --- PostFilter -----------------------------------------------------------------------------------------------------

BEFORE_PREEMPTION = enabled(postFilter=("SpareRoom", "DefaultPreemption"))


def test_the_first_plugin_that_nominates_a_pod_ends_the_search_for_room() -> None:
    async def act(world: World) -> None:
        await world.node(cpu=1)
        await world.pod("old", cpu=1, nodeName="n1")
        await world.pod("w", cpu=1, priority=5, labels={"spare": "n1"})
        await asyncio.sleep(5)
        assert await world.refusal("w") == ("Unschedulable", NO_CPU)
        pod = (await world.api.get(builtin.PODS, "w", "default")).obj()
        assert pod["status"]["nominatedNodeName"] == "n1"
        assert await world.node_of("old") == "n1"  # nobody was evicted

    scene(BEFORE_PREEMPTION, act)


def test_a_plugin_that_finds_no_room_says_so_and_the_next_one_is_asked() -> None:
    async def act(world: World) -> None:
        await world.node(cpu=1)
        await world.pod("old", cpu=1, nodeName="n1")
        await world.pod("w", cpu=1)
        await asyncio.sleep(5)
        preemption = f"preemption: {NO_CPU}".replace("Insufficient cpu", "No preemption victims found for incoming pod")
        assert await world.refusal("w") == ("Unschedulable", f"{NO_CPU} nothing to spare, {preemption}")

    scene(BEFORE_PREEMPTION, act)


def test_after_a_final_no_nobody_else_is_asked() -> None:
    async def act(world: World) -> None:
        await world.node(cpu=1)
        await world.pod("old", cpu=1, nodeName="n1")
        await world.pod("w", cpu=1, priority=5, labels={"spare": "never"})
        await asyncio.sleep(5)
        assert await world.refusal("w") == ("Unschedulable", f"{NO_CPU} there will never be room")
        assert await world.node_of("old") == "n1"

    scene(BEFORE_PREEMPTION, act)


# --- PreBind --------------------------------------------------------------------------------------------------------

LICENSED = enabled(preBind=("Licence", "SecondLicence"), reserve=("Licence", "SecondLicence"))


def test_a_pod_is_bound_after_what_pre_bind_does() -> None:
    async def act(world: World) -> None:
        await world.node()
        await world.pod("w", labels={"licence": "wanted"})
        await asyncio.sleep(1)
        assert await world.node_of("w") == "n1"
        asked = [call for call in CALLS if "SecondLicence" not in call]
        assert asked == ["Licence reserve w", "Licence pre_bind w"]

    scene(LICENSED, act)


def test_pre_bind_is_left_out_where_it_has_nothing_to_do() -> None:
    async def act(world: World) -> None:
        await world.node()
        await world.pod("w")
        await asyncio.sleep(1)
        assert await world.node_of("w") == "n1"
        assert CALLS == ["Licence reserve w", "SecondLicence reserve w"]

    scene(LICENSED, act)


def test_a_pod_that_takes_the_name_of_another_does_not_go_where_that_was_about_to() -> None:
    """As pods of a StatefulSet do: the node of the first is not told of the second."""

    async def act(world: World) -> None:
        await world.node()
        await world.pod("w", labels={"licence": "wanted"})
        await asyncio.sleep(5)
        assert await world.node_of("w") == ""
        assert (await world.refusal("w"))[0] == "Unschedulable"
        pod = (await world.api.get(builtin.PODS, "w", "default")).obj()
        assert "nominatedNodeName" not in pod["status"]

    scene(LICENSED, act, Overtaken)


@pytest.mark.parametrize(
    ("licence", "why"), [("late", "the licence server is busy"), ("broken", "KeyError: 'licence'")]
)
def test_a_pod_whose_pre_bind_fails_is_unreserved_and_tried_again_after_its_back_off(licence: str, why: str) -> None:
    async def act(world: World) -> None:
        await world.node(cpu=1)
        await world.pod("w", cpu=1, labels={"licence": licence})
        await asyncio.sleep(0.5)
        assert await world.refusal("w") == ("SchedulerError", f'running PreBind plugin "Licence": {why}')
        first = ["Licence reserve w", "SecondLicence reserve w", "Licence pre_bind w"]
        assert [*first, "SecondLicence unreserve w", "Licence unreserve w"] == CALLS  # the last first
        await world.api.patch(builtin.NODES, "n1", "", {"metadata": {"labels": {"licensed": "true"}}})
        await asyncio.sleep(5)
        assert await world.node_of("w") == "n1"

    scene(LICENSED, act)


def test_a_rejected_pod_is_unschedulable_until_something_helps_the_plugin_that_rejected_it() -> None:
    async def act(world: World) -> None:
        await world.node(cpu=1)
        await world.pod("w", cpu=1, labels={"licence": "rejected"})
        await asyncio.sleep(20)
        assert await world.refusal("w") == ("Unschedulable", "0/1 nodes are available: 1 node(s) had no licence.")
        assert CALLS.count("Licence pre_bind w") == 1  # no back-off ends what only a licence can
        assert CALLS[-2:] == ["SecondLicence unreserve w", "Licence unreserve w"]
        await world.api.patch(builtin.NODES, "n1", "", {"metadata": {"labels": {"licensed": "true"}}})
        await asyncio.sleep(1)
        assert await world.node_of("w") == "n1"

    scene(LICENSED, act)


def test_a_plugin_that_breaks_at_reserve_leaves_nothing_assumed() -> None:
    async def act(world: World) -> None:
        await world.node(cpu=1)
        await world.pod("w", cpu=1, priority=5, labels={"licence": "unreservable"})
        await asyncio.sleep(0.5)
        assert await world.refusal("w") == ("SchedulerError", "RuntimeError: no reservation")
        await world.pod("x", cpu=1)
        await asyncio.sleep(0.3)
        assert await world.node_of("x") == "n1"

    scene(LICENSED, act)


# --- Bind -----------------------------------------------------------------------------------------------------------

OWN_FIRST = enabled(bind=("OwnBinder", "DefaultBinder"))


def test_a_bind_plugin_that_skips_leaves_the_pod_to_the_next() -> None:
    async def act(world: World) -> None:
        await world.node()
        await world.pod("theirs")
        await world.pod("ours", labels={"binder": "own"})
        await asyncio.sleep(1)
        assert [await world.node_of(name) for name in ("theirs", "ours")] == ["n1", "n1"]
        assert sorted(CALLS) == ["OwnBinder bind ours", "OwnBinder bind theirs"]

    scene(OWN_FIRST, act)


@pytest.mark.parametrize(
    ("binder", "refusal"),
    [
        ("forbidden", ("SchedulerError", 'running Bind plugin "OwnBinder": not on my watch')),
        ("rejected", ("Unschedulable", "0/1 nodes are available: 1 node(s) would not have it.")),
    ],
)
def test_a_bind_plugin_that_fails_is_the_last_to_be_asked(binder: str, refusal: tuple[str, str]) -> None:
    async def act(world: World) -> None:
        await world.node()
        await world.pod("w", labels={"binder": binder})
        await asyncio.sleep(0.5)
        assert await world.refusal("w") == refusal
        assert await world.node_of("w") == ""

    scene(OWN_FIRST, act)


def test_a_pod_that_every_bind_plugin_skips_is_tried_again() -> None:
    async def act(world: World) -> None:
        await world.node()
        await world.pod("w")
        await asyncio.sleep(5)
        assert await world.refusal("w") == ("SchedulerError", "no Bind plugin of the profile binds this pod")
        assert len(CALLS) > 1

    scene(enabled(bind=("OwnBinder",)), act)


def test_nobody_of_a_gang_is_lost_when_a_plugin_breaks_over_one_member() -> None:
    async def act(world: World) -> None:
        await world.node(cpu=2)
        group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}}
        await world.api.create(POD_GROUPS, group, "default")
        await world.pod("whole", cpu=1, labels={GROUP_LABEL: "g"})
        await world.pod("torn", cpu=1, labels={GROUP_LABEL: "g", "licence": "unreservable"})
        await asyncio.sleep(5)
        await world.api.delete(builtin.PODS, "torn", "default")
        await world.pod("late", cpu=1, labels={GROUP_LABEL: "g"})
        await asyncio.sleep(15)
        assert [await world.node_of(name) for name in ("whole", "late")] == ["n1", "n1"]

    names = ("Coscheduling", "Licence")
    multi = {"multiPoint": {"enabled": [{"name": name} for name in names]}}
    scene({"profiles": [{"plugins": multi}]}, act)
