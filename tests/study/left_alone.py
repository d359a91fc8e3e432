"""What becomes of a dump that nobody touches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from copy import deepcopy

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.loops import run_virtual
from fairlead.sim.manifests import latest_date, portable
from fairlead.study.dump_behaviour import declared
from fairlead.study.dump_notes import assumed_sources

KINDS: Sequence[Resource] = (
    builtin.NODES,
    builtin.PODS,
    builtin.DEPLOYMENTS,
    builtin.REPLICA_SETS,
    builtin.STATEFUL_SETS,
    builtin.DAEMON_SETS,
    builtin.CONTROLLER_REVISIONS,
    builtin.JOBS,
    builtin.CRON_JOBS,
    builtin.HORIZONTAL_POD_AUTOSCALERS,
    builtin.POD_DISRUPTION_BUDGETS,
    builtin.PERSISTENT_VOLUME_CLAIMS,
    builtin.PERSISTENT_VOLUMES,
)


def settings_of(objects: Sequence[Obj]) -> Settings:
    dump = [portable(obj) for obj in deepcopy(list(objects))]
    dump += declared(dump)
    nodes = tuple(obj for obj in dump if obj["kind"] == "Node")
    return Settings(nodes=nodes, imported=tuple(dump), assumed_sources=assumed_sources(dump))


def objects_after(dump: Sequence[Obj], seconds: float, kinds: Iterable[Resource]) -> list[Obj]:
    """The objects of these kinds when so much virtual time has passed since the dump."""

    async def main() -> list[Obj]:
        async with simulation(settings_of(dump)) as (api, _):
            await asyncio.sleep(seconds)
            return [item.obj() for kind in kinds for item in (await api.list(kind, "")).items]

    with rng.seeded(1):
        return run_virtual(main(), latest_date(dump) or 0.0)
