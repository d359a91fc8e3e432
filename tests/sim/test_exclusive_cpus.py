"""CPUs of containers' own on a simulated node, of 16 CPUs: who is refused, and who gets how much cpu."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fairlead.api.builtin import PODS
from fairlead.api.objects import Obj
from tests.sim.machine_world import World, played

STATIC: Obj = {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1"}}


def amounts(cpu: str) -> dict[str, Any]:
    found = {"cpu": cpu, "memory": "1Gi"}
    return {"requests": found, "limits": found}


async def _cores(world: World) -> dict[str, float]:
    """What each pod uses."""
    found = json.loads(await world.kubelet_says("stats/summary"))["pods"]
    return {pod["podRef"]["name"]: round(pod["cpu"]["usageNanoCores"] / 1e9, 3) for pod in found}


def test_a_node_refuses_whom_it_has_no_cpus_for_and_gives_them_again() -> None:
    async def check(world: World) -> None:
        await world.kubelet(**STATIC)
        await asyncio.sleep(5)
        await world.pod("first", {}, **amounts("10"))
        await asyncio.sleep(5)
        await world.pod("second", {}, **amounts("6"))
        await asyncio.sleep(5)
        assert await world.state("first") == ("Running", "")
        assert await world.state("second") == ("Failed", "UnexpectedAdmissionError")
        text = "not enough cpus available to satisfy request: requested=6, available=5"
        assert text in (await world.status("second"))["message"]
        assert (await world.story("second"))[1:] == [
            "it asks for 6 CPUs of its own; 5 are free there, others are reserved or somebody's own",
            "would have helped: 5 or fewer, a part of a CPU (then it shares), or another node",
        ]
        await world.api.delete(PODS, "first", "default")
        await asyncio.sleep(60)
        await world.pod("third", {}, **amounts("15"))
        await asyncio.sleep(5)
        assert await world.state("third") == ("Running", "")

    played(check)


def test_a_machine_of_two_sockets_and_cores_of_two_threads() -> None:
    async def check(world: World) -> None:
        await world.annotate(cpu_topology="sockets=2,numa=2,threads=2")
        options = {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}, "topologyManagerPolicy": "single-numa-node"}
        await world.kubelet(**STATIC, **options)
        await asyncio.sleep(5)
        for name, cpu in (("odd", "3"), ("wide", "10"), ("fits", "6")):
            await world.pod(name, {}, **amounts(cpu))
            await asyncio.sleep(5)
        assert await world.state("odd") == ("Failed", "SMTAlignmentError")
        text = "Pod was rejected: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
        assert (await world.status("odd"))["message"] == text
        whole = "would have helped: a multiple of 2 CPUs, or none of its own: the node gives away whole cores"
        assert whole in await world.story("odd")
        assert "NUMA nodes" in (await world.story("wide"))[-1]
        assert await world.state("wide") == ("Failed", "TopologyAffinityError")
        assert await world.state("fits") == ("Running", "")

    played(check)


def test_whoever_shares_has_what_is_left_however_idle_the_others_are() -> None:
    async def check(world: World) -> None:
        await world.kubelet(**STATIC)
        await asyncio.sleep(5)
        await world.pod("greedy", {"cpu": "20"}, requests={"cpu": "1"})
        await world.pod("bounded", {"cpu": "20"}, **amounts("4"))
        await world.pod("idle", {"cpu": "0"}, **amounts("4"))
        await asyncio.sleep(60)
        assert await _cores(world) == {"greedy": 8, "bounded": 4, "idle": 0}
        throttled = (await world.kubelet_says("metrics/cadvisor")).decode()
        assert 'container_cpu_cfs_periods_total{container="bounded"' not in throttled
        await world.api.delete(PODS, "idle", "default")
        await asyncio.sleep(60)
        assert (await _cores(world))["greedy"] == 12

    played(check)


def test_a_kubelet_that_reserves_nothing_does_not_start_with_it() -> None:
    async def check(world: World) -> None:
        await world.kubelet(cpuManagerPolicy="static")
        await asyncio.sleep(5)
        refused = [event["message"] for event in await world.events("KubeletNotStarted")]
        assert refused == ["[cpumanager] unable to determine reserved CPU resources for static policy"]

    played(check)
