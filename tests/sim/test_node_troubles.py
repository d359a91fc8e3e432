"""The report of a run tells what nodes did to pods."""

from __future__ import annotations

import asyncio

from fairlead.api.builtin import NODES, PODS
from fairlead.api.objects import Obj
from fairlead.cli.simulate import summary_text
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.sim.report import RunObserver

MEMORY = "sim.fairlead.dev/usage-memory"


def pod(name: str, memory: str, **resources: Obj) -> Obj:
    spec = {"nodeName": "node-1", "containers": [{"name": "c", "image": "i", "resources": resources}]}
    return {"metadata": {"name": name, "annotations": {MEMORY: memory}}, "spec": spec}


def test_kills_evictions_refusals_and_pressure_are_counted() -> None:
    async def run() -> Obj:
        async with simulation(Settings(nodes=tuple(uniform(1, NodeShape("4", "4Gi"))))) as (api, informers):
            observer = RunObserver(informers)
            await api.create(PODS, pod("leak", "leak(10Mi/s)", limits={"memory": "50Mi"}), "default")
            await api.create(PODS, pod("hog", "3Gi", requests={"memory": "1Gi"}), "default")
            await api.create(PODS, pod("large", "1Mi", requests={"cpu": "100"}), "default")
            await asyncio.sleep(60)
            usage = {MEMORY: "ramp(from=0, to=970Mi, over=30s)"}
            await api.patch(NODES, "node-1", "", {"metadata": {"annotations": usage}})
            await asyncio.sleep(600)
            return observer.summary(informers, now())

    rng.seed(1)
    summary = run_virtual(run())
    troubles = summary["nodeTroubles"]
    assert troubles["oomKills"] >= 5
    assert troubles["evictions"] == {"memory": 1}
    assert troubles["refused"] == {"OutOfcpu": 1}
    assert troubles["pressures"]["MemoryPressure"]["nodes"] == 1
    assert 300 <= troubles["pressures"]["MemoryPressure"]["seconds"] < 400
    text = summary_text(summary | {"seed": 1}, 1.0)
    assert "by node: 1 memory" in text
    assert "MemoryPressure: 1 node, " in text
