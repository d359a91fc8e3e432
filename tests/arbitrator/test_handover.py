"""Two arbitrators over one cluster, in virtual time: whoever is stopped or cut off at any step evicts nobody more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fairlead.api import builtin
from fairlead.api.verbs import Api
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator_wiring.component import ArbitratorComponent
from fairlead.client.informer import Informers
from fairlead.client.leader import Election, LostLeadership, Terms
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from tests.arbitrator.wire import Call, Wire, api_of
from tests.arbitrator.world import World

TERMS = Terms("fairlead-arbitrator")
GRACE = 30


class Replica:
    """One arbitrator process, with a wire of its own. It ends when it loses the lease."""

    def __init__(self, api: Api, name: str) -> None:
        self.wire = Wire(api)
        #: False: its clock has run on while it stood still.
        self.is_in_time = True
        self.election = Election(api_of(self.wire), name, TERMS)
        self.evictions: list[str] = []
        self.wire.before = self._before
        #: Called before a request that writes.
        self.writes: Callable[[Call], None] = lambda call: None
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _before(self, call: Call) -> None:
        if call.resource == "pods/eviction":
            assert self._may_act()
            self.evictions.append(f"{call.namespace}/{call.name}")
        if call.verb in ("create", "patch", "update") and call.resource != "leases":
            self.writes(call)

    def _may_act(self) -> bool:
        return self.is_in_time and self.election.is_leading()

    async def _run(self) -> None:
        try:
            await self.election.lead(self._work)
        except LostLeadership:
            return

    async def _work(self) -> None:
        api = api_of(self.wire)
        informers = Informers(api)
        component = ArbitratorComponent(api, informers, GrantTable(Accounting()), may_act=self._may_act)
        async with asyncio.TaskGroup() as group:
            group.create_task(informers.run())
            group.create_task(component.run())


def play(act: Callable[[World, Replica, Replica], Awaitable[None]]) -> None:
    """Namespace `a` uses all ten CPUs when `b` comes and wants half of them. The first replica leads."""

    async def begin() -> None:
        settings = Settings(nodes=tuple(uniform(1, NodeShape("10", "64Gi", 110))))
        async with simulation(settings) as (api, _):
            leader = Replica(api, "one")
            await asyncio.sleep(1)
            standby = Replica(api, "two")
            world = World(api)
            await world.settle()
            await world.namespace("a", evictionGrace=f"{GRACE}s")
            await world.pods("a", 10)
            await world.settle()
            await world.namespace("b")
            await world.pods("b", 5)
            await act(world, leader, standby)
            for replica in (leader, standby):
                await replica.stop()

    run_virtual(begin())


async def running(world: World, namespace: str) -> int:
    pods = (await world.api.list(builtin.PODS, namespace)).items
    return sum(bool(pod.obj()["spec"].get("nodeName")) for pod in pods)


def test_without_trouble_the_leader_evicts_what_is_needed() -> None:
    async def act(world: World, leader: Replica, standby: Replica) -> None:
        await asyncio.sleep(GRACE + 90)
        assert (len(leader.evictions), standby.evictions) == (5, [])
        assert (await running(world, "a"), await running(world, "b")) == (5, 5)

    play(act)


@pytest.mark.parametrize("step", range(14))
def test_whoever_is_stopped_evicts_nobody_once_another_may_lead(step: int) -> None:
    """The first replica stands still from its so manieth write after the notice has run out, and wakes up too late."""

    async def act(world: World, leader: Replica, standby: Replica) -> None:
        await world.settle()
        assert (await world.status("a"))["proposal"]
        await asyncio.sleep(GRACE - 7)
        left = [step]

        def count(_: Call) -> None:
            left[0] -= 1
            if left[0] < 0:
                leader.wire.cut()

        leader.writes = count
        await asyncio.sleep(120)
        assert leader.wire.is_cut and not leader.election.is_leading() and standby.election.is_leading()
        begun = len(leader.evictions)
        leader.wire.mend()
        await asyncio.sleep(120)
        assert len(leader.evictions) == begun
        assert (await running(world, "a"), await running(world, "b")) == (5, 5)
        assert len({*leader.evictions, *standby.evictions}) == 5

    play(act)


@pytest.mark.parametrize("evicted", [0, 1, 3])
def test_leadership_is_asked_for_before_every_eviction(evicted: int) -> None:
    """A process that is stopped between two requests does not hear of it: its next look at the clock must be enough."""

    async def act(world: World, leader: Replica, standby: Replica) -> None:
        await world.settle()
        assert (await world.status("a"))["proposal"]

        def stop(call: Call) -> None:
            is_last = call.resource == "pods/eviction" and len(leader.evictions) == evicted
            leader.is_in_time = leader.is_in_time and not is_last

        leader.writes = stop
        leader.is_in_time = evicted > 0
        await asyncio.sleep(GRACE + 60)
        assert len(leader.evictions) == evicted
        leader.writes = lambda call: None
        leader.is_in_time = True
        await asyncio.sleep(GRACE + 60)
        assert len(leader.evictions) == 5

    play(act)
