"""Where prediction and reality once differed (docs/fidelity.md): what `fairlead verify` has found stays found."""

from __future__ import annotations

import asyncio

from tests.sim.machine_world import World, played

_NO_EVICTIONS = {"evictionHard": {"memory.available": "0%"}}


def test_who_suddenly_wants_much_has_not_got_it_when_the_kernel_looks_for_a_victim() -> None:
    """Until then the other has more; the one that wants all is killed after it, because it goes on."""

    async def check(world: World) -> None:
        await world.kubelet(**_NO_EVICTIONS)
        await world.pod("large", {"memory": "600Mi"}, restartPolicy="Never")
        sudden = "burst(base=100Mi, peak=990Mi, every=20s, lasts=5s)"
        await world.pod("sudden", {"memory": sudden}, restartPolicy="Never")
        await asyncio.sleep(20.5)
        assert await world.state("large") == ("Failed", "")
        assert await world.state("sudden") == ("Running", "")

    played(check, memory="1Gi")


def test_who_leaks_is_killed_for_what_it_has() -> None:
    async def check(world: World) -> None:
        await world.kubelet(**_NO_EVICTIONS)
        await world.pod("steady", {"memory": "400Mi"}, restartPolicy="Never")
        await world.pod("leaking", {"memory": "leak(10Mi/s)"}, restartPolicy="Never")
        await asyncio.sleep(61)
        assert await world.state("steady") == ("Running", "")
        assert await world.state("leaking") == ("Running", "")
        await asyncio.sleep(3)
        assert await world.state("leaking") == ("Failed", "")
        assert await world.state("steady") == ("Running", "")

    played(check, memory="1Gi")


def test_children_that_their_limit_has_ended_use_nothing_any_more() -> None:
    async def check(world: World) -> None:
        await world.annotate(cgroup_version="1")
        await world.kubelet(failCgroupV1=False, evictionHard={"memory.available": "500Mi"})
        await world.pod(
            "parent",
            {"memory": "20Mi", "child-memory": "leak(4Mi/s)"},
            limits={"memory": "80Mi"},
            restartPolicy="Never",
        )
        await asyncio.sleep(300)  # they would use all of the node
        assert await world.state("parent") == ("Running", "")
        assert (await world.condition("MemoryPressure"))["status"] == "False"

    played(check, memory="1Gi")


def test_nobody_comes_into_the_room_of_the_evicted_while_the_node_is_short() -> None:
    async def check(world: World) -> None:
        await world.kubelet(evictionHard={"memory.available": "100Mi"}, evictionPressureTransitionPeriod="30s")
        await world.pod("leaking", {"memory": "leak(40Mi/s, to=950Mi)"}, requests={"memory": "900Mi"})
        await world.pod("waiting", {"memory": "1Mi"}, nodeName=None, requests={"memory": "500Mi"})
        await asyncio.sleep(31)
        assert await world.state("leaking") == ("Failed", "Evicted")
        assert await world.state("waiting") == ("Pending", "")
        await asyncio.sleep(60)
        assert await world.state("waiting") == ("Running", "")

    played(check, memory="1Gi")


def test_a_machine_that_refuses_low_scores_gives_nobody_one() -> None:
    """As without CAP_SYS_RESOURCE: a Guaranteed container has the least that is to be had."""

    async def check(world: World) -> None:
        await world.kubelet(**_NO_EVICTIONS)
        await world.annotate(least_oom_score_adj="0")
        both = {"cpu": "10m", "memory": "700Mi"}
        await world.pod("guaranteed", {"memory": "690Mi"}, requests=both, limits=both)
        await world.pod("leaking", {"memory": "leak(10Mi/s)"}, restartPolicy="Never")
        await asyncio.sleep(40)
        assert await world.state("leaking") == ("Failed", "")
        scores = "\n".join(await world.story("leaking"))
        assert "score 1115: default/guaranteed" in scores, (
            scores
        )  # two thirds of 1000 and its share of the memory, nothing taken off

    played(check, memory="1Gi")
