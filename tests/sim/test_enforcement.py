"""The limit of all pods together, set while they use more (S1-23)."""

from __future__ import annotations

import asyncio

import pytest

from tests.sim.machine_world import World, played

_FAILED, _ENFORCED = "FailedNodeAllocatableEnforcement", "NodeAllocatableEnforced"


async def _count(world: World, reason: str) -> int:
    return sum(event["count"] for event in await world.events(reason))


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("1", "unable to set memory limit to 4294967296 (current usage: 6442450944, peak usage: 6442450944)"),
        ("2", "rejecting memory limit 4294967296 < usage 6442450944"),
    ],
)
def test_it_is_not_set_below_what_they_use_but_tried_again_every_minute(version: str, problem: str) -> None:
    async def check(world: World) -> None:
        await world.annotate(cgroup_version=version)
        for name in ("a", "b"):
            await world.pod(name, {"memory": "3Gi"}, requests={"memory": "3Gi"})
        await asyncio.sleep(30)
        before = await _count(world, _ENFORCED)
        no_eviction = dict.fromkeys(("memory.available", "nodefs.available"), "0%")
        await world.kubelet(systemReserved={"memory": "6Gi"}, evictionHard=no_eviction, failCgroupV1=False)
        await asyncio.sleep(150)
        failed = await world.events(_FAILED)
        assert {event["message"] for event in failed} == {
            f'Failed to update Node Allocatable Limits ["kubepods"]: {problem}'
        }
        assert await _count(world, _FAILED) == 3
        assert await _count(world, _ENFORCED) == before
        for name in ("a", "b"):
            status = await world.status(name)
            assert status["phase"] == "Running"
            assert status["containerStatuses"][0]["restartCount"] == 0
        await world.use("b", memory="500Mi")
        await asyncio.sleep(70)
        assert await _count(world, _FAILED) <= 4
        assert await _count(world, _ENFORCED) == before + 1
        await world.use("b", memory="2Gi")
        await asyncio.sleep(5)
        assert await world.events("OOMKilling"), "from then on the kernel holds them to it"

    played(check)


def test_evictions_bring_usage_down_until_it_can_be_set() -> None:
    async def check(world: World) -> None:
        for name in ("a", "b"):
            await world.pod(name, {"memory": "3Gi"})
        await asyncio.sleep(30)
        await world.kubelet(systemReserved={"memory": "6Gi"})
        await asyncio.sleep(100)
        assert await world.events(_FAILED)
        assert await world.events(_ENFORCED)
        states = [(await world.state(name))[1] for name in ("a", "b")]
        assert sorted(states) == ["", "Evicted"]

    played(check)
