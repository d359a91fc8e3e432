"""What takes a machine minutes: the back-off of a leak, and disks of which more is freed than the threshold asks."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from fairlead.api.builtin import PODS, REPLICATION_CONTROLLERS
from fairlead.api.quantity import units
from fairlead.runtime.clock import parse_timestamp
from tests.sim.machine_world import USAGE, World, played

MI = 2**20
THRESHOLDS = {"memory.available": "500Mi", "nodefs.available": "1Gi", "imagefs.available": "100Gi"}
MINIMUM = {"memory.available": "0Mi", "nodefs.available": "500Mi", "imagefs.available": "2Gi"}


@pytest.mark.parametrize(("amount", "limit"), [("1Gi", "2Gi"), ("1G", "2G")])
def test_ten_minutes_of_low_usage_make_no_room_for_a_request(amount: str, limit: str) -> None:
    """SC-10: S0-50 to S0-53. Three fit, however little they use."""

    async def check(world: World) -> None:
        container = {
            "name": "c",
            "image": "i",
            "resources": {"requests": {"memory": amount}, "limits": {"memory": limit}},
        }
        template = {
            "metadata": {"labels": {"app": "gig"}, "annotations": {USAGE + "memory": "400Mi"}},
            "spec": {"containers": [container]},
        }
        spec = {"replicas": 4, "selector": {"app": "gig"}, "template": template}
        await world.api.create(REPLICATION_CONTROLLERS, {"metadata": {"name": "gig"}, "spec": spec}, "default")
        for seconds in (5, 600):
            await asyncio.sleep(seconds)
            pods = [pod.obj() for pod in (await world.api.list(PODS, "default")).items]
            assert sorted(pod["status"]["phase"] for pod in pods) == ["Pending", "Running", "Running", "Running"]

    played(check, memory="3172Mi")  # of which 3Gi are given away


def test_each_kill_of_a_leak_doubles_its_back_off() -> None:
    """SC-17: S0-76. A run takes five seconds; the first restart comes at once."""

    async def check(world: World) -> None:
        await world.pod("leak", {}, image="saadali/simmemleak", limits={"cpu": "100m", "memory": "50Mi"})
        runs: dict[str, str] = {}  # by start: the end
        for _ in range(1000):
            await asyncio.sleep(1)
            (container,) = (await world.status("leak"))["containerStatuses"]
            ended = container["state"].get("terminated") or container["lastState"].get("terminated")
            if ended:
                assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
                runs[ended["startedAt"]] = ended["finishedAt"]
        moments = [(parse_timestamp(start), parse_timestamp(end)) for start, end in runs.items()]
        gaps = [round(later[0] - earlier[1]) for earlier, later in pairwise(moments)]
        assert gaps[:7] == pytest.approx([0, 10, 20, 40, 80, 160, 300], abs=1)

    played(check)


@pytest.mark.parametrize(("minimum", "gone"), [(MINIMUM, {"b", "c"}), ({}, {"c"})])
def test_once_begun_more_of_a_disk_is_freed_than_the_threshold_asks(minimum: dict[str, str], gone: set[str]) -> None:
    """SC-38 (a): S3-81 to S3-83."""

    async def check(world: World) -> None:
        await world.annotate(imagefs="200Gi")
        await world.kubelet(evictionHard=THRESHOLDS, evictionMinimumReclaim=minimum)
        used = {"a": 300, "b": 400, "c": 500}
        for name, amount in used.items():
            await world.pod(name, {"volume.scratch": f"{amount}Mi"}, volumes=[{"name": "scratch", "emptyDir": {}}])
        await asyncio.sleep(5)
        capacity = units((await world.node())["status"]["capacity"]["ephemeral-storage"]) // MI
        await world.system(nodefs=f"{capacity - 900 - sum(used.values())}Mi")
        await asyncio.sleep(120)
        assert {name for name in used if (await world.state(name)) == ("Failed", "Evicted")} == gone

    played(check)


@pytest.mark.parametrize(("unused_images", "phase"), [(2, "Failed"), (4, "Running")])
def test_images_make_room_first_and_pods_only_for_what_is_still_missing(unused_images: int, phase: str) -> None:
    """SC-38 (b): S3-66, S3-81 to S3-83."""

    async def check(world: World) -> None:
        await world.annotate(imagefs="200Gi")
        await world.kubelet(evictionHard=THRESHOLDS, evictionMinimumReclaim=MINIMUM)
        await world.pod("w", {"rootfs": "1536Mi"})
        await asyncio.sleep(5)
        image = 50
        lasting = 101 * 1024 - unused_images * 1024 - 1536 - image
        await world.system(imagefs=f"{lasting}Mi", unused_images=f"{unused_images}Gi")
        await asyncio.sleep(60)
        assert (await world.state("w"))[0] == phase
        assert (await world.condition("DiskPressure"))["status"] == "True"

    played(check)
