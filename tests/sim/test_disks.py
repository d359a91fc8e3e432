"""What lies on a simulated machine's disks besides what its pods write."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead.api.builtin import PERSISTENT_VOLUME_CLAIMS, PODS
from fairlead.api.objects import Obj
from fairlead.api.verbs import DeleteOptions
from fairlead.golang.json import parse
from fairlead.node.eviction.reclaim import Reclaim
from fairlead.sim.machine.disks import IMAGE_BYTES, MOST_UNUSED_IMAGES, Disks
from tests.sim.machine_world import World, played


def test_an_image_stays_until_the_disk_is_short_or_very_many_came_after_it() -> None:
    disks = Disks()
    disks.run(["used"])
    for number in range(3 * MOST_UNUSED_IMAGES):
        disks.run([f"image-{number}"])
        disks.stop([f"image-{number}"])
    assert disks.image_bytes == (MOST_UNUSED_IMAGES + 1) * IMAGE_BYTES
    disks.reclaim([Reclaim.DELETE_UNUSED_IMAGES])
    assert disks.image_bytes == IMAGE_BYTES


def test_a_claim_fills_its_own_file_system_and_not_the_disk_of_the_node() -> None:
    """A node of 100Gi holds a pod that keeps 95Gi in a claim of 200Gi."""

    async def check(world: World) -> None:
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "200Gi"}}}
        await world.api.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, "spec": claim}, "default")
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await world.pod("db", {"volume.data": "95Gi"}, volumes=volumes, nodeName=None)
        await asyncio.sleep(900)
        assert (await world.condition("DiskPressure"))["status"] == "False"
        assert await world.state("db") == ("Running", "")
        volume = (await _summary(world))["pods"][0]["volume"][0]
        gi = 1 << 30
        assert volume["pvcRef"] == {"name": "data", "namespace": "default"}
        assert (volume["capacityBytes"], volume["usedBytes"]) == (200 * gi, 95 * gi)
        assert volume["availableBytes"] == 105 * gi

    played(check)


def test_an_empty_dir_on_disk_fills_the_disk_of_the_node() -> None:
    async def check(world: World) -> None:
        await world.pod("scratch", {"volume.data": "95Gi"}, volumes=[{"name": "data", "emptyDir": {}}])
        await asyncio.sleep(60)
        assert await world.state("scratch") == ("Failed", "Evicted")

    played(check)


_IN_MEMORY = {"name": "shm", "emptyDir": {"medium": "Memory"}}


def test_an_empty_dir_in_memory_counts_against_the_limit_of_who_writes_to_it() -> None:
    async def check(world: World) -> None:
        await world.pod("cache", {"memory": "10Mi", "volume.shm": "95Mi"}, volumes=[_IN_MEMORY], limits=_limit("100Mi"))
        await world.pod("small", {"memory": "10Mi", "volume.shm": "50Mi"}, volumes=[_IN_MEMORY], limits=_limit("100Mi"))
        await asyncio.sleep(60)
        last = (await world.status("cache"))["containerStatuses"][0]["lastState"]["terminated"]
        assert (last["reason"], last["exitCode"]) == ("OOMKilled", 137)
        assert (await world.status("small"))["containerStatuses"][0]["restartCount"] == 0

    played(check)


def test_an_empty_dir_in_memory_is_in_the_working_set_and_not_on_the_disk() -> None:
    async def check(world: World) -> None:
        await world.pod("cache", {"memory": "10Mi", "volume.shm": "1Gi"}, volumes=[_IN_MEMORY])
        await asyncio.sleep(60)
        summary = await _summary(world)
        pod = summary["pods"][0]
        mi = 1 << 20
        assert pod["memory"]["workingSetBytes"] == pod["containers"][0]["memory"]["workingSetBytes"] == 1034 * mi
        assert pod["memory"]["rssBytes"] == 10 * mi
        assert pod["ephemeral-storage"]["usedBytes"] == 0
        assert summary["node"]["memory"]["workingSetBytes"] == 1034 * mi
        assert summary["node"]["fs"]["usedBytes"] < 1024 * mi

    played(check)


def test_a_volume_in_memory_is_full_at_its_size_limit() -> None:
    """It is a tmpfs of that size: whoever writes more is refused, and nobody is evicted for it."""

    async def check(world: World) -> None:
        limited = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "100Mi"}}
        await world.pod("cache", {"memory": "10Mi", "volume.shm": "200Mi"}, volumes=[limited])
        await world.pod("grows", {"memory": "10Mi", "volume.shm": "leak(10Mi/s)"}, volumes=[limited])
        await asyncio.sleep(60)
        for name in ("cache", "grows"):
            assert (await world.state(name))[0] == "Running"
            (pod,) = [each for each in (await _summary(world))["pods"] if each["podRef"]["name"] == name]
            assert pod["memory"]["workingSetBytes"] == 110 * 2**20

    played(check)


def _limit(memory: str) -> Obj:
    return {"memory": memory}


async def _summary(world: World) -> Any:
    return parse(await world.kubelet_says("stats/summary"))


#: By default pressure begins where images are collected.
_NO_DISK = {"memory.available": "100Mi"}


async def _used_of_disk(world: World) -> int:
    return int((await _summary(world))["node"]["fs"]["usedBytes"]) // (1 << 30)


def test_images_are_collected_from_the_high_mark_down_to_the_low_one() -> None:
    """On 100Gi by the defaults, 85 and 80 percent."""

    async def check(world: World) -> None:
        await world.kubelet(evictionHard=_NO_DISK)
        await world.system(nodefs="70Gi", unused_images="20Gi")
        await asyncio.sleep(290)
        assert await _used_of_disk(world) == 90
        await asyncio.sleep(20)
        assert await _used_of_disk(world) == 70
        assert (await world.condition("DiskPressure"))["status"] == "False"
        assert not await world.events("FreeDiskSpaceFailed")

    played(check)


def test_what_cannot_be_freed_is_told_and_the_second_time_by_the_kubelet_as_well() -> None:
    async def check(world: World) -> None:
        await world.kubelet(evictionHard=_NO_DISK)
        await world.system(nodefs="86Gi")
        await asyncio.sleep(310)
        (failed,) = await world.events("FreeDiskSpaceFailed")
        assert failed["message"] == (
            f"Failed to garbage collect required amount of images. Attempted to free {6 << 30} bytes, "
            "but only found 0 bytes eligible to free."
        )
        assert failed["involvedObject"]["kind"] == "Node"
        assert not await world.events("ImageGCFailed")
        await asyncio.sleep(300)
        assert (await world.events("ImageGCFailed"))[0]["message"] == failed["message"]

    played(check)


def test_an_image_that_nobody_has_used_for_long_goes_however_empty_the_disk_is() -> None:
    async def check(world: World) -> None:
        await world.kubelet(imageMaximumGCAge="10m")
        await world.pod("stays", {"memory": "1Mi"}, image="used")
        await world.pod("goes", {"memory": "1Mi"}, image="old")
        await asyncio.sleep(60)
        await world.api.delete(PODS, "goes", "default", DeleteOptions(grace_period_seconds=0))
        await asyncio.sleep(600)
        assert await _image_bytes(world) == 2 * IMAGE_BYTES  # not yet: the next collection is at 900 s
        await asyncio.sleep(300)
        assert await _image_bytes(world) == IMAGE_BYTES

    played(check)


async def _image_bytes(world: World) -> int:
    return int((await _summary(world))["node"]["runtime"]["imageFs"]["usedBytes"])


def test_a_node_collects_by_its_own_marks_or_not_at_all() -> None:
    async def check(world: World) -> None:
        await world.kubelet(evictionHard=_NO_DISK, imageGCHighThresholdPercent=100, imageGCLowThresholdPercent=80)
        await world.system(nodefs="70Gi", unused_images="19Gi")
        await asyncio.sleep(700)
        assert await _used_of_disk(world) == 89
        await world.kubelet(evictionHard=_NO_DISK, imageGCHighThresholdPercent=50, imageGCLowThresholdPercent=40)
        await asyncio.sleep(310)
        assert await _used_of_disk(world) == 70

    played(check)
