"""The report of a run tells what nodes did to pods."""

from __future__ import annotations

import asyncio

from fairlead.api.builtin import NODES, PODS
from fairlead.api.objects import Obj
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.sim.openb import Arrival
from fairlead.sim.report import RunObserver
from fairlead.study.summary_text import summary_text
from tests.studies import summary_of

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
    text = summary_text(summary | {"seed": 1})
    assert "by node: 1 memory" in text
    assert "MemoryPressure: 1 node, " in text


def test_a_replay_tells_what_was_used_and_for_how_long_limits_throttled() -> None:
    """On the first node as declared, on the second half of what is requested."""
    usage = {"sim.fairlead.dev/usage-cpu": "burst(base=100m, peak=2, every=100s, lasts=50s)", MEMORY: "1Gi"}
    limits = {"cpu": "500m", "memory": "2Gi"}
    declared = pod("bursting", "1Gi", limits=limits)
    declared["metadata"]["annotations"] = usage
    plain: Obj = {
        "metadata": {"name": "plain"},
        "spec": pod("plain", "", requests={"cpu": "2", "memory": "2Gi"})["spec"],
    }
    plain["spec"]["nodeName"] = "node-2"
    settings = Settings(nodes=tuple(uniform(2, NodeShape("4", "4Gi"))))
    coming = [Arrival(0.0, each | {"apiVersion": "v1", "kind": "Pod"}) for each in (declared, plain)]
    summary = summary_of(settings, coming, 1000.0)
    assert 445 <= summary["nodeTroubles"]["throttledSeconds"] <= 451  # half of all but the first 100 s
    assert 0.23 < summary["used"]["memory"]["mean"] <= 0.26  # 1Gi and 1Gi of 8Gi
    assert 0.15 < summary["used"]["cpu"]["mean"] < 0.18  # 100m or 500m, and 1, of 8
    assert summary["used"]["cpu"]["peak"] == 0.1875
    text = summary_text(summary | {"seed": 1})
    assert "throttled: 7m" in text
    assert "  used                 mean    peak   over time\n  cpu " in text


def test_a_replay_in_which_nobody_declares_usage_says_nothing_of_it() -> None:
    plain: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}}
    plain["spec"] = pod("plain", "", requests={"cpu": "2"})["spec"]
    settings = Settings(nodes=tuple(uniform(1, NodeShape("4", "4Gi"))))
    summary = summary_of(settings, [Arrival(0.0, plain)], 1000.0)
    assert (summary["used"], summary["nodeTroubles"]["throttledSeconds"]) == ({}, 0.0)
    assert "  used " not in summary_text(summary | {"seed": 1})
