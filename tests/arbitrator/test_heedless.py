"""Where schedulers ask nobody and pods have no gate, replacements take the room that is made for others: then little is
taken back, with notice for everybody, and it is said that it does not help (S2-38).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, EventType, WatchQuery
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.metrics import ArbitratorMetrics
from fairlead.arbitrator.objects import ALLOCATIONS
from fairlead.arbitrator_wiring.component import ArbitratorComponent
from fairlead.client.informer import Informers
from fairlead.compose import Settings, simulation
from fairlead.runtime import clock
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from tests.arbitrator.world import World
from tests.examples import examples

Obj = dict[str, Any]
_HOUR = 3600.0


@dataclass
class Record:
    """What an onlooker sees: who was told and when, who was evicted and when."""

    metrics: ArbitratorMetrics = field(default_factory=ArbitratorMetrics)
    notified_at: dict[str, dict[str, float]] = field(default_factory=dict)  # by namespace and uid, of those on notice
    #: For each eviction: its namespace, and how long after its own notice it was; -1 without one.
    after: list[tuple[str, float]] = field(default_factory=list)
    pods: dict[str, Obj] = field(default_factory=dict)
    #: How many pods of "giver" were ready when one of them had just been evicted.
    left: list[int] = field(default_factory=list)

    def allocation(self, type_: EventType, allocation: Obj) -> None:
        namespace = allocation["metadata"]["namespace"]
        before = self.notified_at.get(namespace, {})
        victims = ((allocation.get("status") or {}).get("proposal") or {}).get("victims", ())
        self.notified_at[namespace] = {victim["uid"]: before.get(victim["uid"], clock.now()) for victim in victims}

    def pod(self, type_: EventType, pod: Obj) -> None:
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        old = self.pods.get(uid)
        self.pods[uid] = pod
        if type_ is EventType.DELETED:
            del self.pods[uid]
        if _is_evicted(pod) and not (old and _is_evicted(old)):
            deadlines = self.notified_at.get(namespace, {}).get(uid)
            self.after.append((namespace, -1.0 if deadlines is None else clock.now() - deadlines))
            self.left.append(sum(_is_ready(pod_seen) for pod_seen in self.pods.values()))

    def reclaims(self, namespace: str, result: str) -> int:
        return int(self.metrics.reclaims.values.get((namespace, result), 0))


def _is_evicted(pod: Obj) -> bool:
    return any(condition.get("reason") == "EvictionByEvictionAPI" for condition in pod["status"].get("conditions", ()))


def _is_ready(pod: Obj) -> bool:
    conditions = {condition["type"]: condition["status"] for condition in pod["status"].get("conditions", ())}
    is_leaving = "deletionTimestamp" in pod["metadata"]
    return pod["metadata"]["namespace"] == "giver" and conditions.get("Ready") == "True" and not is_leaving


async def _is(world: World, namespace: str, type_: str, expected: tuple[str, str]) -> bool:
    return await world.condition(namespace, type_) == expected


@asynccontextmanager
async def _in_the_background(*work: Awaitable[None]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(job) for job in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(api: Api, resource: Resource, note: Callable[[EventType, Obj], None]) -> None:
    async for change in api.watch(resource, "", WatchQuery()):
        note(change.type, change.object.obj())


def heedless(act: Callable[[World, Record], Awaitable[None]], *, nodes: int, cpu: int) -> None:
    """A cluster whose scheduler knows of no arbitrator, and one beside it."""

    async def play() -> None:
        record = Record()
        async with simulation(Settings(nodes=tuple(uniform(nodes, NodeShape(str(cpu), "64Gi", 110))))) as (api, _):
            informers = Informers(api)
            component = ArbitratorComponent(api, informers, GrantTable(Accounting()), observer=record.metrics)
            async with _in_the_background(informers.run(), component.run()):
                await asyncio.sleep(5)
                onlookers = (_watch(api, ALLOCATIONS, record.allocation), _watch(api, builtin.PODS, record.pod))
                async with _in_the_background(*onlookers):
                    await act(World(api), record)

    run_virtual(play())


@dataclass(frozen=True)
class Story:
    """`giver` has everything and replaces whoever goes; then the others come."""

    nodes: int
    cpu: int
    grace: int
    size: int
    wanted: dict[str, int]
    budget: int
    is_stronger: bool

    @property
    def held(self) -> int:
        return self.nodes * self.cpu


@st.composite
def _stories(draw: st.DrawFn) -> Story:
    nodes, cpu = draw(st.integers(1, 4)), draw(st.sampled_from((4, 6)))
    wanted = {name: draw(st.integers(1, 8)) for name in draw(st.sampled_from((("a",), ("a", "b"))))}
    return Story(
        nodes,
        cpu,
        draw(st.sampled_from((0, 5, 5, 30))),
        draw(st.sampled_from((1, 1, 2, 4))),
        wanted,
        draw(st.sampled_from((0, 0, nodes * cpu - 2))),
        draw(st.booleans()),
    )


@pytest.mark.slow
@settings(max_examples=examples(3), suppress_health_check=[HealthCheck.too_slow])
@given(_stories())
def test_evictions_are_bounded_by_whom_they_help_and_each_has_its_notice(story: Story) -> None:
    async def act(world: World, record: Record) -> None:
        await world.api.create(builtin.PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
        await world.namespace("giver", evictionGrace=f"{story.grace}s")
        if story.budget:
            await world.budget("giver", "g", story.budget)
        stronger = {"priorityClassName": "high"} if story.is_stronger else {}
        await world.controller("giver", "g", story.held + 8, **stronger)
        await world.settle(20)
        for name, count in story.wanted.items():
            await world.namespace(name)
            await world.controller(name, "w", count, cpu=str(story.size))
        await world.settle(_HOUR)
        helped = sum(record.reclaims(name, "helped") for name in story.wanted)
        futile = sum(record.reclaims(name, "futile") for name in story.wanted)
        wanted = sum(story.wanted.values())
        evicted = len(record.after)
        event(f"evicted {min(evicted, 20)}")
        assert evicted <= story.size * (helped + futile + wanted)
        # in an hour the delay can double eight times in a row, for each namespace
        assert futile <= wanted + 2 * helped + 10 * len(story.wanted)
        assert all(after >= (story.grace if name == "giver" else 30) for name, after in record.after)
        assert all(left >= story.budget for left in record.left)

    heedless(act, nodes=story.nodes, cpu=story.cpu)


def test_sixteen_pods_that_are_replaced_at_once() -> None:
    """`examples/sharing.yaml` on a cluster in which nobody asks: 340 evictions in three minutes were seen."""

    async def act(world: World, record: Record) -> None:
        await world.api.create(builtin.PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
        await world.group("bigdata", weight=6)
        await world.namespace("app", weight=4)
        await world.namespace("giver", parent="bigdata", evictionGrace="5s")
        await world.namespace("spark", parent="bigdata", weight=2)
        await world.controller("giver", "h", 16, priorityClassName="high")
        await world.settle(10)
        await world.controller("app", "a", 16)
        await world.controller("spark", "s", 16)
        await world.settle(180)
        assert len(record.after) <= 30
        assert await world.running("app", "giver", "spark") == [0, 16, 0]
        assert await world.condition("app", "ReclaimFutile") == ("True", "OthersTookTheRoom")
        await world.until(lambda: _is(world, "giver", "ReclaimBlocked", ("True", "BackingOff")), 120)
        known = (await world.status("app"))["backOff"]
        assert known["failures"] >= 3
        assert known["beneficiary"].startswith("app/a-")
        assert await world.events("app", "ReclaimFutile")
        names = {change["involvedObject"]["name"] for change in await world.events("giver", "Reclaimed")}
        messages = " ".join(change["message"] for change in await world.events("giver", "Overused"))
        assert sum(name in messages for name in names) >= 5  # a long list is cut short

    heedless(act, nodes=4, cpu=4)
