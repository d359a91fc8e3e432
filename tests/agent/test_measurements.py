"""What a real node measures of itself and its pods."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.agent.measuring.folders import Folders, disk_usage
from fairlead.agent.measuring.rates import Rates
from fairlead.node.stats.endpoints import answer
from fairlead.node.stats.measurements import ContainerMeasurements, NodeMeasurements
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import is_running, manifest, real_node
from tests.agent.runtime_place import IMAGE

MIB = 1 << 20


def _containers(node: NodeMeasurements) -> dict[str, ContainerMeasurements]:
    return {container.name: container for pod in node.pods for container in pod.containers}


def _is_filled(node: NodeMeasurements) -> bool:
    found = _containers(node)
    if {"c", "busy"} - found.keys():
        return False
    quiet, busy = found["c"], found["busy"]
    is_written = quiet.rootfs is not None and quiet.rootfs.used >= 3 * MIB and bool(node.pods[0].volumes)
    return is_written and quiet.memory.rss >= 40 * MIB and busy.cpu.usage_nano_cores > 0


@real_containers
@in_loop
async def test_memory_cpu_processes_and_disks_of_pods(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        script = "dd if=/dev/zero of=/x bs=1M count=3; dd if=/dev/zero of=/v/x bs=1M count=2; echo filled"
        hold = "(head -c 41943040 /dev/zero; sleep 1000) | tail"  # which keeps what might be the last lines
        volumes = [{"name": "v", "emptyDir": {}}]
        pod = manifest("p", "sh", "-c", f"{script}; {hold}", spec={"volumes": volumes})
        pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
        limits = {"limits": {"cpu": "100m", "memory": "64Mi"}}
        busy = {"name": "busy", "image": IMAGE, "command": ["sh", "-c", "while true; do true; done"]}
        pod["spec"]["containers"].append(busy | {"resources": limits})
        await node.create(pod)
        await node.until("p", is_running)
        found = await node.measured(_is_filled)
        (measured,), containers = found.pods, _containers(found)
        quiet = containers["c"]
        assert 40 * MIB <= quiet.memory.working_set <= 60 * MIB
        assert measured.memory.working_set >= quiet.memory.working_set
        assert found.memory.working_set >= measured.memory.working_set
        assert quiet.processes >= 3 and measured.processes > quiet.processes
        assert 50_000_000 < containers["busy"].cpu.usage_nano_cores < 200_000_000
        assert (containers["busy"].cpu.throttled_periods or 0) > 0
        assert containers["busy"].memory.limit == 64 * MIB
        assert quiet.logs is not None and quiet.logs.used > 0
        volume = next(volume for volume in measured.volumes if volume.name == "v")
        assert 2 * MIB <= volume.filesystem.used < 3 * MIB
        assert measured.ephemeral_storage is not None
        assert 5 * MIB <= measured.ephemeral_storage.used < 6 * MIB
        assert found.nodefs is not None and found.nodefs.available < found.nodefs.capacity
        assert {container.name for container in found.system_containers} == {"runtime", "pods"}
        for path in ("stats/summary", "metrics/resource", "metrics/cadvisor"):
            assert b"busy" in answer(path, {}, found).body
        await node.delete("p", grace=0)
        await node.measured(lambda now: not now.pods)


def test_files_count_once_and_links_lead_nowhere(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "deep/er/file").write_bytes(b"x" * 65536)
    os.link(folder / "deep/er/file", folder / "again")
    (tmp_path / "outside").write_bytes(b"x" * 1_000_000)
    (folder / "away").symlink_to(tmp_path)
    found = disk_usage(folder)
    assert found.inodes == 5  # three folders, a file, a link
    assert 65536 <= (found.used or 0) < 200_000
    assert disk_usage(tmp_path / "missing").used == 0


@in_loop
async def test_folders_that_nobody_asks_for_are_forgotten(tmp_path: Path) -> None:
    folders = Folders()
    folders.walk([tmp_path])
    assert folders.usage(tmp_path) is not None
    folders.walk([])
    assert folders.usage(tmp_path) is None


def test_a_rate_is_taken_since_the_last_look_or_since_the_beginning() -> None:
    rates, second = Rates(least_seconds=2.0), 10**9
    rates.begin()
    assert rates.nano_cores("/a", 5 * second, at=110.0, began=100.0) == second // 2
    rates.begin()
    assert rates.nano_cores("/a", 15 * second, at=120.0, began=100.0) == second
    rates.begin()
    assert rates.nano_cores("/a", 16 * second, at=121.0, began=100.0) == second  # too soon to say
    rates.begin()
    assert rates.nano_cores("/a", 1 * second, at=130.0, began=100.0) == 0  # another cgroup of that name
    rates.begin()
    rates.begin()
    assert rates.nano_cores("/a", 20 * second, at=140.0, began=100.0) == second // 2
