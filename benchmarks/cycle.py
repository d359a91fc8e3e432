"""A cycle of the arbitrator over 5,000 nodes and 50,000 pods; `python -m benchmarks.arbitrator` prints its rows."""

from __future__ import annotations

import asyncio
import time

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.arbitrator.accounting import Accounting
from fairlead.arbitrator.grant_table import GrantTable
from fairlead.arbitrator.loop import Arbitrator
from fairlead.client.informer import Informers
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.whatif import WhatIf
from fairlead.sim.nodes import NodeShape, uniform

NODES, PODS, NAMESPACES = 5_000, 50_000, 100
_NODE_MILLI = 9_000
_ROUNDS = 20


def measured() -> dict[str, float]:
    """Milliseconds: the median of a cycle in which nothing changed, and of one in which one namespace asks for more."""
    return run_virtual(_measured())


def _pods() -> list[Obj]:
    """They ask for a third more than there is; those for whom there is room are on nodes."""
    made, left, at = [], [_NODE_MILLI] * NODES, 0
    for number in range(PODS):
        milli = (500, 1_000, 2_000)[number % 3]
        spec = _spec(milli)
        for _ in range(20):
            at = (at + 1) % NODES
            if left[at] >= milli:
                spec["nodeName"] = f"node-{at + 1}"
                left[at] -= milli
                break
        metadata = {"name": f"p-{number}", "namespace": f"ns-{number * 7919 // 13 % NAMESPACES:03}"}
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return made


def _spec(milli: int) -> Obj:
    requests = {"cpu": f"{milli}m", "memory": "2Gi"}
    return {"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]}


async def _measured() -> dict[str, float]:
    namespaces = [f"ns-{number:03}" for number in range(NAMESPACES)]
    objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces]
    settings = Settings(
        nodes=tuple(uniform(NODES, NodeShape(f"{_NODE_MILLI}m", "64Gi", 110))),
        imported=(*objects, *_pods()),
        components=frozenset(["nodes"]),
        disabled_admission=("ServiceAccount",),
    )
    async with simulation(settings) as (api, informers):
        arbitrator = await _at_rest(api, informers)
        idle = [await _timed(arbitrator) for _ in range(_ROUNDS)]
        changed = []
        for number in range(_ROUNDS):
            pod = {"metadata": {"name": f"new-{number}", "namespace": "ns-007"}, "spec": _spec(2_000)}
            await api.create(builtin.PODS, pod, "ns-007")
            await asyncio.sleep(1)
            changed.append(await _timed(arbitrator))
    return {"nothing changed": sorted(idle)[_ROUNDS // 2], "one namespace changed": sorted(changed)[_ROUNDS // 2]}


async def _at_rest(api: Api, informers: Informers) -> Arbitrator:
    """An arbitrator that knows everything and has written it down."""
    model = ClusterModel(informers)
    await model.synced()
    arbitrator = Arbitrator(api, informers, GrantTable(Accounting()), WhatIf(model))
    task = asyncio.create_task(arbitrator.run())
    await asyncio.sleep(20)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return arbitrator


async def _timed(arbitrator: Arbitrator) -> float:
    began = time.perf_counter()
    await arbitrator.cycle()
    return (time.perf_counter() - began) * 1000
