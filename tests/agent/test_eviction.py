"""A real node that is short of something; so little is its own that the machine never is."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.images.store import ImageStore
from fairlead.agent.reset import reset
from fairlead.api.builtin import EVENTS, NODES
from fairlead.api.objects import Obj
from fairlead.node.evidence import RANKING, Ranking, found_in
from tests.agent.folder_images import FolderImage
from tests.agent.machine import in_loop, missing, real_containers, root_file_system, until
from tests.agent.oci_node import NODE, RealNode, is_phase, is_running, manifest, real_node
from tests.agent.runtime_place import IMAGE

pytestmark = real_containers

MIB = 1 << 20


def _condition(node: Obj, kind: str) -> tuple[str, str]:
    return next((each["status"], each["reason"]) for each in node["status"]["conditions"] if each["type"] == kind)


async def _evicted(node: RealNode, name: str) -> str:
    """The message of a pod that was evicted, in its status and in its event."""
    status = (await node.until(name, is_phase("Failed"), seconds=40))["status"]
    assert status["reason"] == "Evicted"
    await node.told(name, "Evicted", status["message"])
    return str(status["message"])


async def _events_of_node(node: RealNode) -> set[tuple[str, str]]:
    events = [event.obj() for event in (await node.api.list(EVENTS, "default")).items]
    return {(each["reason"], each["message"]) for each in events if each["involvedObject"]["kind"] == "Node"}


def _writer(name: str, mib: int, target: str = "/x", **resources: Obj) -> Obj:
    pod = manifest(name, "sh", "-c", f"dd if=/dev/zero of={target} bs=1M count={mib}; sleep 1000")
    pod["spec"]["containers"][0]["resources"] = resources
    return pod


def _with_volume(pod: Obj, source: Obj) -> Obj:
    pod["spec"]["volumes"] = [{"name": "v", "emptyDir": source}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    return pod


@in_loop
async def test_a_full_disk_costs_the_pod_that_filled_it(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    linux.mount("tmpfs", tmp_path / "root", "tmpfs", 0, "size=96m")
    document = {"evictionHard": {"nodefs.available": "30Mi"}}
    async with real_node(tmp_path, document) as node:
        await node.create(manifest("idle", "sleep", "1000"))
        await node.until("idle", is_running)
        node.images.here["test/new:1"] = FolderImage([tmp_path / "rootfs"], id="sha256:" + "2" * 64)
        await node.create(_writer("filler", 80))
        message = await _evicted(node, "filler")
        said = r"The node was low on resource: ephemeral-storage\. Threshold quantity: 30Mi, available: \d+[KM]i\. "
        used = r"([678]\d{4}Ki|[678]\dMi)"  # as it was when the disk was full, not before
        offender = rf"Container c was using {used}, request is 0, has larger consumption of ephemeral-storage\. "
        assert re.fullmatch(said + offender, message), message
        conditions = (await node.pod("filler"))["status"]["conditions"]
        target = next(each for each in conditions if each["type"] == "DisruptionTarget")
        assert (target["reason"], target["message"]) == ("TerminationByKubelet", message)
        found = (await node.api.get(NODES, NODE)).obj()
        assert _condition(found, "DiskPressure") == ("True", "KubeletHasDiskPressure")
        attempt = ("EvictionThresholdMet", "Attempting to reclaim ephemeral-storage")
        assert attempt in await _events_of_node(node)
        assert is_running(await node.pod("idle"))
        assert "test/new:1" in node.images.here  # somebody may be about to start it
        late = manifest("late", "sleep", "1000", spec={"nodeName": NODE})
        await node.create(late)
        refused = (await node.until("late", is_phase("Failed")))["status"]
        assert refused["message"] == "Pod was rejected: The node had condition: [DiskPressure]. "
        assert refused["reason"] == "Evicted"


@pytest.mark.slow
@in_loop
async def test_images_are_collected_when_their_disk_is_full_to_the_mark(tmp_path: Path) -> None:
    """Any disk is full to nothing at all; what cannot be freed is told."""
    document = {"imageGCHighThresholdPercent": 1, "imageGCLowThresholdPercent": 0, "imageMinimumGCAge": "1ms"}
    async with real_node(tmp_path, document) as node:
        node.images.registry |= node.images.here  # at the start nothing uses any
        await node.create(manifest("runs", "sleep", "1000"))
        await node.until("runs", is_running)
        node.images.here["test/unused:1"] = FolderImage([tmp_path / "rootfs"], id="sha256:" + "2" * 64)
        await until(lambda: "test/unused:1" not in node.images.here, 40)
        assert IMAGE in node.images.here
        failed = "Failed to garbage collect required amount of images. Attempted to free "
        told = await _events_of_node(node)
        assert any(reason == "FreeDiskSpaceFailed" and text.startswith(failed) for reason, text in told)


@pytest.mark.slow
@in_loop
async def test_an_image_that_nobody_has_used_for_long_goes(tmp_path: Path) -> None:
    async with real_node(tmp_path, {"imageMinimumGCAge": "1s", "imageMaximumGCAge": "3s"}) as node:
        await node.create(manifest("runs", "sleep", "1000"))
        await node.until("runs", is_running)
        node.images.here["test/old:1"] = FolderImage([tmp_path / "rootfs"], id="sha256:" + "2" * 64)
        await until(lambda: "test/old:1" not in node.images.here, 60)
        assert IMAGE in node.images.here


@pytest.mark.slow
@in_loop
async def test_unused_images_and_logs_of_ended_pods_go_before_pods(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    linux.mount("tmpfs", tmp_path / "root", "tmpfs", 0, "size=96m")
    document = {"evictionHard": {"nodefs.available": "30Mi"}, "imageMinimumGCAge": "0s"}
    async with real_node(tmp_path, document) as node:
        node.images.here["test/unused:1"] = FolderImage([tmp_path / "rootfs"], id="sha256:" + "2" * 64)
        await node.create(manifest("idle", "sleep", "1000"))
        await node.until("idle", is_running)
        chatty = ["dd", "if=/dev/zero", "bs=1M", "count=80"]
        await node.create(manifest("chatty", *chatty, spec={"restartPolicy": "Never"}))
        await node.until("chatty", lambda pod: pod["status"].get("phase") in ("Failed", "Succeeded"), seconds=40)
        await until(lambda: "test/unused:1" not in node.images.here)
        await until(lambda: not list(node.root.glob("logs/*_chatty_*")))
        await node.measured(lambda now: now.nodefs is not None and now.nodefs.available > 60 * MIB)
        assert IMAGE in node.images.here
        assert is_running(await node.pod("idle"))


@pytest.mark.slow
@in_loop
async def test_images_have_a_disk_of_their_own_and_more_is_freed_than_the_threshold_says(tmp_path: Path) -> None:
    """SC-38 (b): unused images are enough, until they come to less than the least that is to be freed."""
    images = tmp_path / "root" / "images"
    images.mkdir(parents=True)
    _mount_disk(tmp_path / "images.img", images, 96)
    store = ImageStore(tmp_path / "root")
    await store.load(_layer(tmp_path / "first", 1, root_file_system), IMAGE)
    document = {
        "evictionHard": {"imagefs.available": "30Mi"},
        "evictionMinimumReclaim": {"imagefs.available": "10Mi"},
        "evictionPressureTransitionPeriod": "1s",
        "imageMinimumGCAge": "1ms",
    }
    async with real_node(tmp_path, document, store=store) as node:
        await node.create(manifest("runs", "sleep", "1000"))
        await node.until("runs", is_running)
        measured = await node.measured(lambda now: now.imagefs is not None)
        assert measured.imagefs is not None and measured.nodefs is not None
        assert measured.imagefs.capacity < 96 * MIB < measured.nodefs.capacity
        for number in range(3):
            await store.load(_layer(tmp_path / f"unused{number}", 8), f"test/unused:{number}")
        _leave(images, 28)
        await until(lambda: len(store.list()) == 1, 40)
        await node.measured(lambda now: now.imagefs is not None and now.imagefs.available > 40 * MIB)
        assert is_running(await node.pod("runs"))
        await store.load(_layer(tmp_path / "last", 8), "test/unused:3")
        _leave(images, 28)
        message = await _evicted(node, "runs")
        said = r"The node was low on resource: ephemeral-storage\. Threshold quantity: 30Mi, available: \d+[KM]i\. "
        assert re.match(said, message), message
        await node.stop()
        await asyncio.to_thread(reset, node.root)
        assert linux.mount_points(tmp_path) == [images]  # it was there before
        assert (images / "ballast").exists()


@in_loop
async def test_limits_of_local_storage_hold_without_any_shortage(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        one = {"ephemeral-storage": "1Mi"}
        await node.create(_with_volume(_writer("volume", 3, "/v/x"), {"sizeLimit": "1Mi"}))
        await node.create(_with_volume(_writer("pod", 3, "/v/x", limits=one), {}))
        layer = _writer("layer", 3, limits=one)
        layer["spec"]["containers"].append({"name": "roomy", "image": IMAGE, "command": ["sleep", "1000"]})
        layer["spec"]["containers"][1]["resources"] = {"limits": {"ephemeral-storage": "1Gi"}}
        await node.create(layer)
        await node.create(_with_volume(_writer("fits", 1, "/v/x"), {"sizeLimit": "8Mi"}))
        assert await _evicted(node, "volume") == 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '
        total = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "
        assert await _evicted(node, "pod") == total
        assert await _evicted(node, "layer") == 'Container c exceeded its local ephemeral storage limit "1Mi". '
        assert is_running(await node.pod("fits"))
        conditions = (await node.pod("volume"))["status"]["conditions"]
        assert "DisruptionTarget" not in {each["type"] for each in conditions}


@in_loop
async def test_short_of_memory_the_one_that_uses_more_than_it_requested_goes(tmp_path: Path) -> None:
    document = {"evictionHard": {"memory.available": "80Mi"}, "evictionPressureTransitionPeriod": "3s"}
    async with real_node(tmp_path, document, memory_bytes=160 * MIB) as node:
        await node.create(_holder("modest", 30, "60Mi"))
        await node.until("modest", is_running)
        await node.create(_holder("greedy", 50, "10Mi"))
        message = await _evicted(node, "greedy")
        said = r"The node was low on resource: memory\. Threshold quantity: 80Mi, available: \d+[KM]i\. "
        offender = r"Container c was using \d+[KM]i, request is 10Mi, has larger consumption of memory\. "
        assert re.fullmatch(said + offender, message), message
        events = [event.obj() for event in (await node.api.list(EVENTS, "default")).items]
        ranking = found_in((each for each in events if each["reason"] == "Evicted"), RANKING, Ranking)
        assert ranking is not None  # for `fairlead why`
        assert [each.pod for each in ranking.pods] == ["default/greedy", "default/modest"]
        assert ("EvictionThresholdMet", "Attempting to reclaim memory") in await _events_of_node(node)
        assert ("NodeHasInsufficientMemory", f"Node {NODE} status is now: NodeHasInsufficientMemory") in (
            await _events_of_node(node)
        )
        await node.create(_holder("after", 1, "1Mi"))
        await node.until("after", is_running, seconds=40)  # the shortage is over, and its taint gone
        found = (await node.api.get(NODES, NODE)).obj()
        assert _condition(found, "MemoryPressure") == ("False", "KubeletHasSufficientMemory")
        assert is_running(await node.pod("modest"))


@pytest.mark.skipif(
    not missing() and hierarchies().version == 2, reason="MEMORY NOTICES NOT TESTED: cgroup v2 has none (S3-92)"
)
@in_loop
async def test_between_two_looks_the_kernel_tells_that_memory_is_short(tmp_path: Path) -> None:
    document = {"evictionHard": {"memory.available": "80Mi"}, "kernelMemcgNotification": True}
    async with real_node(tmp_path, document, memory_bytes=160 * MIB, measure_seconds=600.0) as node:
        await node.create(_holder("greedy", 100, "10Mi"))
        assert re.match(r"The node was low on resource: memory\. ", await _evicted(node, "greedy"))


def _holder(name: str, mib: int, request: str) -> Obj:
    """It holds so much memory: tail keeps what might be the last lines."""
    pod = manifest(name, "sh", "-c", f"(head -c {mib * MIB} /dev/zero; sleep 1000) | tail")
    pod["spec"]["containers"][0]["resources"] = {"requests": {"memory": request}}
    return pod


def _mount_disk(file: Path, point: Path, mib: int) -> None:
    """A file system in a file, that nothing is kept back of."""
    with file.open("wb") as opened:
        opened.truncate(mib * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", str(file)], check=True)
    subprocess.run(["mount", "-o", "loop", str(file), str(point)], check=True)


def _layer(folder: Path, mib: int, make: Callable[[Path], Path] = lambda folder: folder) -> Path:
    """The folder of an image that takes so much of a disk, and is no other."""
    make(folder).mkdir(exist_ok=True)
    (folder / "large").write_bytes(os.urandom(mib * MIB))
    return folder


def _leave(disk: Path, mib: int) -> None:
    """Fill it until so much is available."""
    free = os.statvfs(disk)
    with (disk / "ballast").open("ab") as ballast:
        ballast.write(bytes(free.f_bavail * free.f_frsize - mib * MIB))
