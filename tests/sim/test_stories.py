"""What `fairlead why` tells of pods that a node refused or held back: the figures, and what would have helped."""

from __future__ import annotations

import asyncio

from tests.sim.machine_world import World, played


def test_a_throttled_pod_is_told_how_often_and_which_limit_would_do() -> None:
    """A tenth of a core is wanted twice: half of each period is spent waiting."""

    async def check(world: World) -> None:
        await world.pod("slow", {"cpu": "200m"}, limits={"cpu": "100m"})
        await world.pod("modest", {"cpu": "50m"}, limits={"cpu": "100m"})
        await asyncio.sleep(100)
        headline, note = await world.story("slow")
        assert headline == "default/slow is held back by cpu limits on node-1"
        assert note.startswith("container slow was throttled in 100% of its periods (")
        assert note.endswith("more cpu than its limit of 100m; a limit of 200m, or none, would have spared it")
        assert await world.story("modest") == []

    played(check)


def test_a_pod_that_comes_and_goes_is_throttled_for_part_of_the_time() -> None:
    async def check(world: World) -> None:
        await world.pod("bursts", {"cpu": "burst(peak=1, base=50m, every=1m, lasts=15s)"}, limits={"cpu": "500m"})
        for _ in range(20):
            await asyncio.sleep(60)
            await world.kubelet_says("metrics/cadvisor")  # as Prometheus would
        note = (await world.story("bursts"))[1]
        assert "throttled in 24% of its periods (28" in note  # the first burst comes after a minute

    played(check)


def test_a_pod_beyond_what_the_node_has_left_is_told_what_it_could_have_asked_for() -> None:
    async def check(world: World) -> None:
        await world.pod("first", {}, requests={"cpu": "15", "memory": "1Gi"})
        await asyncio.sleep(5)
        await world.pod("second", {}, requests={"cpu": "1500m"})
        await world.pod("third", {}, requests={"memory": "20Gi"})
        await asyncio.sleep(5)
        assert (await world.story("second"))[1:] == [
            "it requests 1500m of cpu; 15 of 16 are taken there",
            "would have helped: a cpu request of 1 or less, or another node",
        ]
        assert (await world.story("third"))[1] == "it requests 20Gi of memory; 1Gi of 10Gi are taken there"

    played(check)


def test_a_pod_refused_under_memory_pressure_is_told_signal_threshold_and_remedy() -> None:
    async def check(world: World) -> None:
        await world.system(memory="10200Mi")
        await asyncio.sleep(30)
        await world.pod("late", {})
        await world.pod("asks", {"memory": "1Mi"}, requests={"memory": "1Mi"})
        await asyncio.sleep(5)
        assert await world.state("late") == ("Failed", "Evicted")
        assert (await world.state("asks"))[0] == "Running"
        assert (await world.story("late"))[1:] == [
            "memory.available was 40Mi, below the threshold of 100Mi",
            "would have helped: a memory request (a BestEffort pod is refused), or a toleration of "
            "node.kubernetes.io/memory-pressure:NoSchedule",
        ]
        await world.system(memory="1Gi")
        await asyncio.sleep(30)
        await world.pod("later", {})
        await asyncio.sleep(5)
        assert "above the threshold of 100Mi again" in (await world.story("later"))[1]

    played(check)


def test_a_pod_refused_under_disk_pressure_is_told_that_no_request_helps() -> None:
    async def check(world: World) -> None:
        await world.system(nodefs="95Gi")
        await asyncio.sleep(30)
        await world.pod("late", {}, requests={"memory": "1Mi"})
        await asyncio.sleep(5)
        story = await world.story("late")
        assert any(
            note.startswith("nodefs.available was ") and "below the threshold of 107374" in note for note in story
        )
        assert story[-1] == "under DiskPressure a node takes critical pods alone: another node would have helped"

    played(check)


def test_a_pod_that_the_nodes_labels_do_not_match_is_told_so() -> None:
    async def check(world: World) -> None:
        await world.pod("picky", {}, nodeSelector={"disk": "ssd"})
        await asyncio.sleep(5)
        assert (await world.story("picky"))[1].startswith("would have helped: a node selector or affinity that")

    played(check)
