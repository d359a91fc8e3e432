"""Pods that an extender refused are woken when they may start, and no more of them than may; in virtual time."""

from __future__ import annotations

import asyncio

from fairlead.api import builtin
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.arbitration.joined import Arbitration
from fairlead.arbitrator.books import Books
from fairlead.arbitrator.ledger import Ledger
from fairlead.arbitrator.retrigger import WOKEN
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from tests.arbitrator.world import World


async def woken(api: Api) -> list[str]:
    pods = [one.view(Pod) for one in (await api.list(builtin.PODS, "a")).items]
    return sorted(pod.metadata.name for pod in pods if WOKEN in pod.metadata.annotations)


async def begin(world: World, ledger: Ledger) -> None:
    """Four pods of one CPU where two are allowed; a scheduler has asked for all of them."""
    await world.settle()
    await world.namespace("a", hard={"cpu": "2"})
    await world.pods("a", 4)
    await world.settle()
    for item in (await world.api.list(builtin.PODS, "a")).items:
        ledger.ask_from_afar(item.view(Pod))
    await world.settle()


def test_who_may_start_is_woken_and_nobody_else() -> None:
    """S2-45."""

    async def play() -> None:
        settings = Settings(nodes=tuple(uniform(1, NodeShape("10", "64Gi", 110))), components=NO_SCHEDULER)
        async with simulation(settings) as (api, informers):
            world, ledger = World(api), Ledger(Books())
            arbitrating = asyncio.create_task(Arbitration(api, informers, ledger).run())
            await begin(world, ledger)
            assert len(ledger.refused) == 2 and await woken(api) == []
            await world.consumer("a", hard={"cpu": "3"})
            await world.settle()
            assert len(ledger.refused) == 1 and len(await woken(api)) == 1
            (left,) = ledger.refused.values()
            await api.delete(builtin.PODS, left.partition("/")[2], "a")
            await world.settle()
            assert not ledger.refused
            arbitrating.cancel()
            await asyncio.gather(arbitrating, return_exceptions=True)

    run_virtual(play())


NO_SCHEDULER = frozenset({"api", "controllers", "nodes"})
