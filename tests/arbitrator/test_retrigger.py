"""Pods that an extender refused are retriggered when they may start, and no more than that; in virtual time."""

from __future__ import annotations

import asyncio

from fairlead.api import builtin
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.retrigger import RETRIGGERED_AT
from fairlead.arbitrator_wiring.component import ArbitratorComponent
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from tests.arbitrator.world import World


async def woken(api: Api) -> list[str]:
    pods = [entry.view(Pod) for entry in (await api.list(builtin.PODS, "a")).items]
    return sorted(pod.metadata.name for pod in pods if RETRIGGERED_AT in pod.metadata.annotations)


async def begin(world: World, grants: GrantTable) -> None:
    """Four pods of one CPU where two are allowed; a scheduler has asked for all of them."""
    await world.settle()
    await world.namespace("a", hard={"cpu": "2"})
    await world.pods("a", 4)
    await world.settle()
    for item in (await world.api.list(builtin.PODS, "a")).items:
        grants.ask_remotely(item.view(Pod))
    await world.settle()


def test_who_may_start_is_woken_and_nobody_else() -> None:
    """S2-45."""

    async def play() -> None:
        settings = Settings(nodes=tuple(uniform(1, NodeShape("10", "64Gi", 110))), components=NO_SCHEDULER)
        async with simulation(settings) as (api, informers):
            world, grants = World(api), GrantTable(Accounting())
            arbitrating = asyncio.create_task(ArbitratorComponent(api, informers, grants).run())
            await begin(world, grants)
            assert len(grants.refused) == 2 and await woken(api) == []
            await world.consumer("a", hard={"cpu": "3"})
            await world.settle()
            assert len(grants.refused) == 1 and len(await woken(api)) == 1
            (left,) = grants.refused.values()
            await api.delete(builtin.PODS, left.partition("/")[2], "a")
            await world.settle()
            assert not grants.refused
            arbitrating.cancel()
            await asyncio.gather(arbitrating, return_exceptions=True)

    run_virtual(play())


NO_SCHEDULER = frozenset({"api", "controllers", "nodes"})
