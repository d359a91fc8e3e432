"""Whatever happens, it comes to rest: while nobody asks for more or less, nobody is evicted any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from fairlead.api.quantity import parse
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.objects import ALLOCATIONS
from fairlead.arbitrator_wiring.component import ArbitratorComponent
from fairlead.client.informer import Informers
from fairlead.compose import Cluster, Settings, components, opened
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.store.memory import MemoryStore
from tests.arbitrator.world import World
from tests.examples import examples

_REST = 600.0


@dataclass(frozen=True)
class Tenant:
    """A namespace with one controller of equal pods."""

    name: str
    cpu: int
    spec: dict[str, Any]
    budget: int = 0


@dataclass(frozen=True)
class Story:
    """A cluster, and what happens in it."""

    nodes: int
    cpu: int
    tenants: list[Tenant]
    groups: dict[str, dict[str, Any]]
    #: ("scale", tenant, replicas), ("wait", seconds), ("crash",), ("second",): another arbitrator that knows nothing.
    steps: list[tuple[Any, ...]] = field(default_factory=list)


@st.composite
def _stories(draw: st.DrawFn) -> Story:
    """Everything is lent to one tenant, and then the others come."""
    weights = st.sampled_from((1, 1, 2, 3, 0))
    groups: dict[str, dict[str, Any]] = {}
    for name in draw(st.lists(st.sampled_from(("big", "small")), unique=True, max_size=2)):
        groups[name] = {"weight": draw(weights)}
    if {"big", "small"} <= groups.keys() and draw(st.booleans()):
        groups["small"]["parent"] = "big"
    tenants = [_tenant(draw, f"t{number}", weights, sorted(groups)) for number in range(draw(st.integers(2, 4)))]
    steps: list[tuple[Any, ...]] = [("scale", "t0", draw(st.integers(6, 20))), ("wait", draw(_WAITS))]
    later = [("scale", tenant.name, draw(st.integers(1, 12))) for tenant in tenants[1:]]
    name_of = st.sampled_from([tenant.name for tenant in tenants])
    scaling = st.tuples(st.just("scale"), name_of, st.integers(0, 12))
    waiting = st.tuples(st.just("wait"), _WAITS)
    for step in later:
        steps += [step, *draw(st.lists(st.one_of(waiting, scaling, _ACCIDENTS), max_size=3))]
    return Story(draw(st.integers(1, 3)), draw(st.integers(6, 10)), tenants, groups, steps)


_WAITS = st.sampled_from((2.0, 31.0, 70.0, 0.3))
_ACCIDENTS = st.sampled_from((("crash",), ("second",)))


def _tenant(draw: st.DrawFn, name: str, weights: st.SearchStrategy[int], groups: list[str]) -> Tenant:
    spec: dict[str, Any] = {
        "weight": draw(weights),
        "reservedPolicy": draw(st.sampled_from(("Lend", "Lend", "Hold"))),
        "evictionGrace": draw(st.sampled_from(("30s", "5s", "0s"))),
        "minRuntime": draw(st.sampled_from(("0s", "0s", "40s"))),
    }
    if reserved := draw(st.integers(0, 2)):
        spec["reserved"] = {"requests.cpu": str(reserved)}
    if draw(st.integers(0, 4)) == 4:
        spec["hard"] = {"requests.cpu": str(draw(st.integers(reserved, 8)))}
    has_parent: bool = draw(st.booleans())
    if groups and has_parent:
        spec["parent"] = draw(st.sampled_from(groups))
    return Tenant(name, draw(st.sampled_from((1, 1, 2, 3))), spec, draw(st.sampled_from((0, 0, 2))))


class _Told:
    """A story in virtual time. A crash takes everything but what is stored."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self._failures: list[asyncio.Future[None]] = []
        shape = NodeShape(str(story.cpu), "64Gi", 110)
        self._settings = Settings(nodes=tuple(uniform(story.nodes, shape)), arbitrator=True)

    async def play(self) -> None:
        self._server = (await opened(MemoryStore(), self._settings)).server
        world = World(self._server.api)
        self._running = await self._start()
        try:
            async with world.watching():
                await self._happen(world)
                await world.settle(_REST)
                known, written = list(world.evicted), await self._written(world)
                await world.settle(_REST)
                assert world.evicted == known
                assert await self._written(world) == written
                await self._check(world)
                event(f"evicted {min(len(known), 5)}")
        finally:
            await self._running.aclose()
        assert not any(failure.done() for failure in self._failures)

    async def _happen(self, world: World) -> None:
        await world.settle()
        await self._furnish(world)
        for step in self.story.steps:
            match step:
                case ("scale", name, replicas):
                    await world.scale(name, "a", replicas)
                case ("wait", seconds):
                    await world.settle(seconds)
                case ("crash",):
                    await self._running.aclose()
                    self._running = await self._start()
                case ("second",):
                    await self._running.enter_async_context(_second(self._server))

    async def _written(self, world: World) -> list[str]:
        """The versions of the Allocations."""
        found = (await world.api.list(ALLOCATIONS)).items
        return [entry.obj()["metadata"]["resourceVersion"] for entry in found]

    async def _start(self) -> AsyncExitStack:
        running = AsyncExitStack()
        cluster = Cluster(self._server)
        await running.enter_async_context(components(cluster, self._settings, heartbeats=False))
        self._failures.append(cluster.failure)
        return running

    async def _furnish(self, world: World) -> None:
        for name, spec in sorted(self.story.groups.items()):
            await world.group(name, **spec)
        for tenant in self.story.tenants:
            await world.namespace(tenant.name, **tenant.spec)
            if tenant.budget:
                await world.budget(tenant.name, "a", tenant.budget)
            await world.controller(tenant.name, "a", 0, cpu=str(tenant.cpu))

    async def _check(self, world: World) -> None:
        states = [await _state(world, tenant) for tenant in self.story.tenants]
        whole = self.story.nodes * self.story.cpu
        assert sum(state.held for state in states) <= whole
        assert sum(state.deserved for state in states) <= whole
        for state in states:
            assert state.held <= state.hard
            assert not state.is_on_notice
        free = await self._free(world)
        # what is held, or waited for until a budget gives way, may be idle
        nobody_holds = all(
            tenant.spec["reservedPolicy"] == "Lend" and not tenant.budget for tenant in self.story.tenants
        )
        for state in states:
            if state.waits and nobody_holds:
                assert state.held + state.cpu > state.hard or max(free) < state.cpu, "idle, and somebody waits"
            if state.waits and state.held + state.cpu <= state.deserved and all(peer.cpu == 1 for peer in states):
                assert not any(peer.can_spare for peer in states), "deserved, and held by others"

    async def _free(self, world: World) -> list[int]:
        """What is idle on each node."""
        used: dict[str, int] = {}
        for tenant in self.story.tenants:
            for pod in await world.of(tenant.name):
                if node := pod["spec"].get("nodeName"):
                    used[node] = used.get(node, 0) + tenant.cpu
        return [self.story.cpu - amount for amount in used.values()] + [self.story.cpu] * (self.story.nodes - len(used))


@dataclass(frozen=True)
class _State:
    """How a tenant stands, in processors."""

    cpu: int
    held: int
    deserved: Fraction
    hard: float
    waits: bool
    can_spare: bool
    is_on_notice: bool


async def _state(world: World, tenant: Tenant) -> _State:
    status = await world.status(tenant.name)
    pods = await world.of(tenant.name)
    held = sum(tenant.cpu for pod in pods if pod["spec"].get("nodeName"))
    deserved = Fraction(parse(status["deserved"]["requests.cpu"]).milli, 1000)
    reserved = int(tenant.spec.get("reserved", {}).get("requests.cpu", "0"))
    bound = tenant.spec.get("hard", {}).get("requests.cpu")
    return _State(
        tenant.cpu,
        held,
        deserved,
        float(bound) if bound else float("inf"),
        waits=any(not pod["spec"].get("nodeName") for pod in pods),
        can_spare=not tenant.budget and held - 1 >= deserved and held - 1 >= reserved,
        is_on_notice=bool(status.get("proposal")) or status["reclaiming"].get("requests.cpu", "0") != "0",
    )


@asynccontextmanager
async def _in_the_background(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def _second(server: Server) -> AsyncIterator[None]:
    """An arbitrator that knows nothing of the one at work: what fencing has to cope with."""
    informers = Informers(server.api)
    successor = ArbitratorComponent(server.api, informers, GrantTable(Accounting()))
    async with _in_the_background(informers.run()), _in_the_background(successor.run()):
        yield


#: Three at work at once, of whom each remembers another back-off.
_THREE_ARBITRATORS = Story(
    nodes=2,
    cpu=10,
    tenants=[
        Tenant(
            name="t0",
            cpu=1,
            spec={
                "weight": 2,
                "reservedPolicy": "Hold",
                "evictionGrace": "0s",
                "minRuntime": "0s",
                "reserved": {"requests.cpu": "1"},
                "hard": {"requests.cpu": "6"},
            },
            budget=2,
        ),
        Tenant(
            name="t1",
            cpu=2,
            spec={
                "weight": 0,
                "reservedPolicy": "Lend",
                "evictionGrace": "5s",
                "minRuntime": "0s",
                "reserved": {"requests.cpu": "1"},
            },
            budget=2,
        ),
        Tenant(
            name="t2",
            cpu=3,
            spec={
                "weight": 0,
                "reservedPolicy": "Hold",
                "evictionGrace": "0s",
                "minRuntime": "40s",
                "hard": {"requests.cpu": "6"},
                "parent": "big",
            },
            budget=2,
        ),
        Tenant(
            name="t3",
            cpu=2,
            spec={
                "weight": 1,
                "reservedPolicy": "Lend",
                "evictionGrace": "30s",
                "minRuntime": "0s",
                "reserved": {"requests.cpu": "1"},
            },
            budget=0,
        ),
    ],
    groups={"small": {"weight": 3, "parent": "big"}, "big": {"weight": 1}},
    steps=[
        ("scale", "t0", 8),
        ("wait", 2.0),
        ("scale", "t1", 9),
        ("wait", 2.0),
        ("scale", "t2", 5),
        ("scale", "t2", 11),
        ("crash",),
        ("second",),
        ("scale", "t3", 10),
        ("wait", 31.0),
        ("second",),
        ("wait", 2.0),
    ],
)


@pytest.mark.slow
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
@given(_stories())
@example(_THREE_ARBITRATORS)
def test_it_comes_to_rest(story: Story) -> None:
    run_virtual(_Told(story).play())
