"""Scenarios of the documents that hold, with usage: best practice on 10Gi, oscillation, equal scores."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.api.builtin import PRIORITY_CLASSES
from tests.sim.machine_world import World, played


def test_reservation_and_threshold_keep_a_node_of_guaranteed_pods_out_of_pressure() -> None:
    """SC-32: S3-89, S3-90, S3-93. When daemons exceed their reservation, a pod within its request goes."""

    async def check(world: World) -> None:
        await world.kubelet(evictionHard={"memory.available": "500Mi"}, systemReserved={"memory": "1.5Gi"})
        await world.api.create(PRIORITY_CLASSES, {"metadata": {"name": "low"}, "value": -10})
        for name, memory, fields in (("a", 4000, {}), ("b", 4104, {}), ("c", 100, {"priorityClassName": "low"})):
            await world.pod(name, {"memory": f"{memory}Mi"}, limits={"cpu": "1", "memory": f"{memory}Mi"}, **fields)
        await world.system(memory="1Gi")
        await asyncio.sleep(120)
        assert (await world.node())["status"]["allocatable"]["memory"] == "8204Mi"
        assert (await world.condition("MemoryPressure"))["status"] == "False"
        await world.system(memory="1600Mi")
        await asyncio.sleep(30)
        assert (await world.condition("MemoryPressure"))["status"] == "True"
        assert await world.state("c") == ("Failed", "Evicted")
        assert "available: 436Mi" in (await world.status("c"))["message"]
        for name in ("a", "b"):
            status = await world.status(name)
            assert (status["phase"], status["containerStatuses"][0]["restartCount"]) == ("Running", 0)

    played(check)


@pytest.mark.parametrize(("period", "seconds"), [("30s", 30), ("0s", 300)])
def test_pressure_outlasts_a_shortage_by_the_transition_period(period: str, seconds: int) -> None:
    """SC-37: S3-64. Nothing is as five minutes."""

    async def check(world: World) -> None:
        await world.kubelet(
            evictionHard={"memory.available": "500Mi"},
            evictionSoft={"memory.available": "1.5Gi"},
            evictionSoftGracePeriod={"memory.available": "1m30s"},
            evictionPressureTransitionPeriod=period,
        )
        await world.pod("steady", {"memory": "1Gi"}, requests={"memory": "1Gi"})
        await asyncio.sleep(5)
        await world.system(memory="7782Mi")
        await asyncio.sleep(60)
        await world.system(memory="1Gi")
        await asyncio.sleep(seconds - 15)
        assert (await world.condition("MemoryPressure"))["status"] == "True"
        await asyncio.sleep(25)
        assert (await world.condition("MemoryPressure"))["status"] == "False"
        assert await world.state("steady") == ("Running", "")

    played(check)


def test_pods_that_use_exactly_what_they_request_have_equal_scores() -> None:
    """SC-55: S3-88. The size of the request is no advantage."""

    async def check(world: World) -> None:
        await world.pod("c1", {"memory": "1Gi"}, requests={"memory": "1Gi"}, restartPolicy="Never")
        await world.pod("c2", {"memory": "4Gi"}, requests={"memory": "4Gi"}, restartPolicy="Never")
        await asyncio.sleep(11)
        await world.system(memory="5200Mi")  # 80Mi too much
        await asyncio.sleep(2)
        (killed,) = [name for name in ("c1", "c2") if len(await world.story(name)) > 3]
        scores = [int(line.split(":")[0].split()[1]) for line in await world.story(killed) if line.startswith("score ")]
        assert len(scores) == 2
        assert all(abs(score - 1333) <= 2 for score in scores)

    played(check)
