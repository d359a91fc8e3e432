"""The scheduler at work, in virtual time over a registry without admission."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.encoded import Encoded
from fairlead.api.errors import ServiceUnavailable
from fairlead.api.resources import Resource
from fairlead.api.verbs import DeleteOptions, PatchType
from fairlead.client.events import SeriesRecorder
from fairlead.client.informer import Informers
from fairlead.runtime import loops, rng
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.loop import Scheduler
from tests.examples import examples
from tests.registry_api import RegistryApi
from tests.scheduler.scheduler_world import node_obj, pod_obj

Obj = dict[str, Any]

NO_ROOM = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 No preemption victims found for incoming pod."
)


class FlakyApi(RegistryApi):
    """Refuses the first so many bindings."""

    def __init__(self, refusals: int = 0) -> None:
        super().__init__()
        self.refusals = refusals

    async def create(self, resource: Resource, obj: Obj, namespace: str = "", **more: Any) -> Encoded:
        if more.get("subresource") == "binding":
            await asyncio.sleep(0.01)
            if self.refusals > 0:
                self.refusals -= 1
                raise ServiceUnavailable("try later")
        return await super().create(resource, obj, namespace, **more)


class Running:
    """A cluster in which a scheduler runs."""

    def __init__(self, api: FlakyApi) -> None:
        self.api = api
        self.informers = Informers(api)
        self.recorder = SeriesRecorder(api, "default-scheduler", host="h")
        self.scheduler = Scheduler(api, ClusterModel(self.informers), recorder=self.recorder)

    async def add_node(self, name: str = "n1", **more: Any) -> None:
        await self.api.put(builtin.NODES, node_obj(name, **more))

    async def add_pod(self, name: str, **more: Any) -> None:
        await self.api.put(builtin.PODS, pod_obj(name, **more))

    async def pod(self, name: str) -> Obj:
        return (await self.api.get(builtin.PODS, name, "default")).obj()

    async def node_of(self, name: str) -> str | None:
        found: str | None = (await self.pod(name))["spec"].get("nodeName")
        return found

    async def conditions(self, name: str) -> list[Obj]:
        found: list[Obj] = (await self.pod(name)).get("status", {}).get("conditions", [])
        return found

    async def events(self) -> list[Obj]:
        await self.recorder.flushed()
        return [event.obj() for event in (await self.api.list(builtin.EVENTS)).items]

    async def placements(self) -> dict[str, str]:
        pods = [pod.obj() for pod in (await self.api.list(builtin.PODS)).items]
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"]}


def in_cluster(story: Callable[[Running], Awaitable[None]], *, refusals: int = 0) -> None:
    """Play a story in virtual time."""

    async def play() -> None:
        rng.seed(1)
        async with FlakyApi(refusals) as api:
            running = Running(api)
            parts = (running.informers.run(), running.recorder.run(), running.scheduler.run())
            tasks = [asyncio.create_task(part) for part in parts]
            await story(running)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    loops.run_virtual(play())


def test_a_pod_is_bound_and_the_event_says_where() -> None:
    async def story(cluster: Running) -> None:
        await cluster.add_node()
        await cluster.add_pod("w", cpu=1)
        await asyncio.sleep(1)
        assert await cluster.node_of("w") == "n1"
        (event,) = await cluster.events()
        assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")
        assert event["message"] == "Successfully assigned default/w to n1"
        assert event["involvedObject"]["kind"] == "Pod"

    in_cluster(story)


def test_a_pod_that_fits_nowhere_is_told_by_condition_and_event() -> None:
    """S0-67, S0-68."""

    async def story(cluster: Running) -> None:
        await cluster.add_node(cpu=1)
        await cluster.add_pod("old", cpu=1, nodeName="n1")
        await cluster.add_pod("w", cpu=1)
        await asyncio.sleep(1)
        (condition,) = await cluster.conditions("w")
        assert condition == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": NO_ROOM,
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
        (event,) = await cluster.events()
        assert (event["type"], event["reason"], event["action"]) == ("Warning", "FailedScheduling", "Scheduling")
        assert event["message"] == NO_ROOM

    in_cluster(story)


def test_the_condition_is_written_only_when_it_says_something_new() -> None:
    async def story(cluster: Running) -> None:
        await cluster.add_node(cpu=1)
        await cluster.add_pod("w", cpu=2)
        await asyncio.sleep(1)
        version = (await cluster.pod("w"))["metadata"]["resourceVersion"]
        await asyncio.sleep(1000)  # tried again every five minutes
        assert (await cluster.pod("w"))["metadata"]["resourceVersion"] == version
        assert {event["reason"] for event in await cluster.events()} == {"FailedScheduling"}
        assert len(await cluster.events()) > 1

    in_cluster(story)


def test_a_new_node_and_a_deleted_pod_make_room() -> None:
    """S0-14, S0-71."""

    async def story(cluster: Running) -> None:
        await cluster.add_node(cpu=1)
        await cluster.add_pod("old", cpu=1, nodeName="n1")
        await cluster.add_pod("w", cpu=1)
        await cluster.add_pod("x", cpu=1)
        await asyncio.sleep(20)
        await cluster.add_node("n2", cpu=1)
        await asyncio.sleep(0.1)
        assert await cluster.node_of("w") == "n2"
        await cluster.api.delete(builtin.PODS, "old", "default", DeleteOptions(grace_period_seconds=0))
        await asyncio.sleep(0.1)
        assert await cluster.node_of("x") == "n1"

    in_cluster(story)


def test_finished_pods_make_room() -> None:
    async def story(cluster: Running) -> None:
        await cluster.add_node(cpu=1)
        await cluster.add_pod("old", cpu=1, nodeName="n1")
        await cluster.add_pod("w", cpu=1)
        await asyncio.sleep(20)
        ended = {"status": {"phase": "Succeeded"}}
        await cluster.api.patch(builtin.PODS, "old", "default", ended, subresource="status")
        await asyncio.sleep(0.1)
        assert await cluster.node_of("w") == "n1"

    in_cluster(story)


def test_a_large_pod_of_high_priority_does_not_block_small_ones() -> None:
    """S3-16."""

    async def story(cluster: Running) -> None:
        await cluster.add_pod("large", cpu=9, priority=100)
        await cluster.add_pod("small", cpu=1)
        await cluster.add_node()
        await asyncio.sleep(5)
        assert await cluster.placements() == {"small": "n1"}

    in_cluster(story)


def test_without_nodes_a_pod_is_tried_again_by_back_off() -> None:
    async def story(cluster: Running) -> None:
        await cluster.add_pod("w")
        await asyncio.sleep(0.1)
        assert (await cluster.conditions("w"))[0]["message"] == "no nodes available to schedule pods"
        await cluster.add_node()
        await asyncio.sleep(0.1)
        assert await cluster.node_of("w") is None
        await asyncio.sleep(3)
        assert await cluster.node_of("w") == "n1"

    in_cluster(story)


def test_pods_of_other_schedulers_are_left_alone_and_still_take_room() -> None:
    async def story(cluster: Running) -> None:
        await cluster.add_node(cpu=1)
        await cluster.add_pod("foreign", cpu=1, schedulerName="other")
        await asyncio.sleep(1)
        assert await cluster.placements() == {}
        binding = {"metadata": {"name": "foreign"}, "target": {"kind": "Node", "name": "n1"}}
        await cluster.api.create(builtin.PODS, binding, "default", name="foreign", subresource="binding")
        await cluster.add_pod("w", cpu=1)
        await asyncio.sleep(1)
        assert await cluster.placements() == {"foreign": "n1"}

    in_cluster(story)


def test_a_gated_pod_is_tried_when_its_gates_are_gone() -> None:
    async def story(cluster: Running) -> None:
        await cluster.add_node()
        await cluster.add_pod("w", schedulingGates=[{"name": "test.dev/g"}])
        await asyncio.sleep(600)
        assert (await cluster.node_of("w"), await cluster.events()) == (None, [])
        await cluster.api.patch(builtin.PODS, "w", "default", {"spec": {"schedulingGates": None}})
        await asyncio.sleep(0.1)
        assert await cluster.node_of("w") == "n1"

    in_cluster(story)


def test_a_pod_that_others_avoid_is_tried_when_it_is_labelled_anew() -> None:
    async def story(cluster: Running) -> None:
        web = {"matchLabels": {"app": "web"}}
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": web}
        shy = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await cluster.add_node()
        await cluster.add_pod("shy", affinity=shy, nodeName="n1")
        await cluster.add_pod("w", labels={"app": "web"})
        await asyncio.sleep(20)
        assert await cluster.node_of("w") is None
        await cluster.api.patch(builtin.PODS, "w", "default", {"metadata": {"labels": {"app": "other"}}})
        await asyncio.sleep(0.1)
        assert await cluster.node_of("w") == "n1"

    in_cluster(story)


NONE = {"nodeSelector": {"disk": "ssd"}}


@pytest.mark.parametrize("ends", ["taken back", "deleted", "moved"])
def test_a_nomination_that_ends_wakes_whoever_had_to_respect_it(ends: str) -> None:
    """The nomination is somebody else's: what the status says is believed. Who is more important sleeps on."""

    async def story(cluster: Running) -> None:
        await cluster.add_node(cpu=1)
        await cluster.add_pod("p", priority=5, cpu=1, **NONE)
        await asyncio.sleep(1)
        nominated: Obj = {"status": {"nominatedNodeName": "n1"}}
        await cluster.api.patch(builtin.PODS, "p", "default", nominated, PatchType.STRATEGIC, subresource="status")
        for name, priority in (("vip", 6), ("equal", 5)):
            await cluster.add_pod(name, priority=priority, cpu=2 if name == "vip" else 1)
        await asyncio.sleep(20)
        assert await cluster.placements() == {}
        if ends == "deleted":
            await cluster.api.delete(builtin.PODS, "p", "default")
        else:
            nominated["status"]["nominatedNodeName"] = "n2" if ends == "moved" else None
            await cluster.api.patch(builtin.PODS, "p", "default", nominated, PatchType.STRATEGIC, subresource="status")
        await asyncio.sleep(0.1)
        assert await cluster.placements() == {"equal": "n1"}
        vip = cluster.scheduler.queue.get("default/vip")
        assert vip is not None
        assert vip.attempts == 1

    in_cluster(story)


def test_a_waiting_pod_of_any_length_yields_its_nomination_to_a_more_important_one() -> None:
    """Its requirements are worked out anew each time, which must not confuse the queue."""

    async def story(cluster: Running) -> None:
        await cluster.add_node(cpu=1)
        await cluster.add_pod("old", cpu=1, nodeName="n1")
        tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(2000)]
        await cluster.add_pod("p", priority=5, cpu=1, tolerations=tolerations, **NONE)
        await asyncio.sleep(1)
        nominated: Obj = {"status": {"nominatedNodeName": "n1"}}
        await cluster.api.patch(builtin.PODS, "p", "default", nominated, PatchType.STRATEGIC, subresource="status")
        await cluster.add_pod("vip", priority=6, cpu=1)
        await asyncio.sleep(20)
        assert [(await cluster.conditions(name))[0]["reason"] for name in ("vip", "p")] == ["Unschedulable"] * 2
        assert (await cluster.pod("vip"))["status"]["nominatedNodeName"] == "n1"
        assert not any("Error" in event["message"] for event in await cluster.events())
        assert not (await cluster.pod("p"))["status"].get("nominatedNodeName")

    in_cluster(story)


@pytest.mark.parametrize("has_node", [True, False])
def test_a_nomination_is_void_when_binding_fails_or_no_node_is_left(has_node: bool) -> None:
    async def story(cluster: Running) -> None:
        if has_node:
            await cluster.add_node()
        await cluster.add_pod("w", status={"nominatedNodeName": "n1"})
        await asyncio.sleep(0.1)
        assert not (await cluster.pod("w"))["status"].get("nominatedNodeName")

    in_cluster(story, refusals=100)


@pytest.mark.parametrize(
    ("requirement", "why"),
    [
        (
            {"key": "zone", "operator": "In", "values": ["a", "b c"]},
            '[0].matchExpressions[0].values[1][zone]: Invalid value: "b c": a valid label must be an empty string or',
        ),
        (
            {"key": "cpus", "operator": "Gt", "values": ["many"]},
            "[0].matchExpressions[0].values[0]: Invalid value: \"many\": for 'Gt', 'Lt' operators, the value must",
        ),
    ],
)
def test_a_preference_that_nobody_understands_matters_where_there_is_a_choice(requirement: Obj, why: str) -> None:
    async def story(cluster: Running) -> None:
        preferred = [{"weight": 1, "preference": {"matchExpressions": [requirement]}}]
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        await cluster.add_node("n1", cpu=1)
        await cluster.add_pod("first", cpu=1, affinity=affinity)
        await asyncio.sleep(0.1)
        assert (await cluster.pod("first"))["spec"]["nodeName"] == "n1"
        for name in ("n2", "n3"):
            await cluster.add_node(name, cpu=1)
        await cluster.add_pod("second", cpu=1, affinity=affinity)
        await asyncio.sleep(0.1)
        (condition,) = await cluster.conditions("second")
        assert condition["reason"] == "SchedulerError"
        assert condition["message"].startswith(f'running PreScore plugin "NodeAffinity": {why}')
        await cluster.add_pod("third", cpu=1)
        await asyncio.sleep(3)  # the second is tried again, and has no choice any more
        assert (await cluster.pod("second"))["spec"].get("nodeName")

    in_cluster(story)


def test_a_refused_binding_gives_the_room_back_and_is_tried_again() -> None:
    async def story(cluster: Running) -> None:
        await cluster.add_node(cpu=1)
        await cluster.add_pod("w", cpu=1)
        await asyncio.sleep(0.1)
        assert cluster.scheduler.model.snapshot.pods_placed == 0
        (condition,) = await cluster.conditions("w")
        assert (condition["reason"], condition["message"]) == (
            "SchedulerError",
            'running Bind plugin "DefaultBinder": try later',
        )
        await asyncio.sleep(3)
        assert await cluster.node_of("w") == "n1"

    in_cluster(story, refusals=1)


def test_a_pod_deleted_while_it_is_being_bound_is_forgotten() -> None:
    async def story(cluster: Running) -> None:
        await cluster.add_node(cpu=1)
        await cluster.add_pod("w", cpu=1)
        await asyncio.sleep(0.001)
        assert cluster.scheduler.model.snapshot.pods_placed == 1
        await cluster.api.delete(builtin.PODS, "w", "default")
        await cluster.add_pod("x", cpu=1)
        await asyncio.sleep(5)
        assert await cluster.placements() == {"x": "n1"}

    in_cluster(story)


@settings(max_examples=examples(40))
@given(
    st.lists(st.tuples(st.sampled_from([300, 400, 700, 1000]), st.integers(0, 3)), max_size=30),
    st.integers(0, 10),
)
def test_no_node_is_ever_overcommitted(arrivals: list[tuple[int, int]], refusals: int) -> None:
    """S0-50, whatever arrives when, and however many bindings fail; and everything that fits is placed in the end."""

    async def story(cluster: Running) -> None:
        for name in ("n1", "n2", "n3"):
            await cluster.add_node(name, cpu=2)
        asked = {}
        for number, (cpu_milli, pause) in enumerate(arrivals):
            asked[f"p{number}"] = cpu_milli
            await cluster.add_pod(f"p{number}", cpu=f"{cpu_milli}m")
            await asyncio.sleep(pause / 100)
        await asyncio.sleep(120)
        placements = await cluster.placements()
        used = {
            name: sum(asked[pod] for pod, where in placements.items() if where == name) for name in ("n1", "n2", "n3")
        }
        assert max(used.values()) <= 2000
        waiting = [cpu for pod, cpu in asked.items() if pod not in placements]
        assert min(waiting, default=9999) > 2000 - min(used.values())

    in_cluster(story, refusals=refusals)


def test_the_same_seed_makes_the_same_choices() -> None:
    outcomes: list[dict[str, str]] = []

    async def story(cluster: Running) -> None:
        for number in range(20):
            await cluster.add_node(f"n{number}")
        for number in range(100):
            await cluster.add_pod(f"p{number}", cpu="100m")
        await asyncio.sleep(5)
        outcomes.append(await cluster.placements())

    in_cluster(story)
    in_cluster(story)
    assert len(outcomes[0]) == 100
    assert outcomes[0] == outcomes[1]
