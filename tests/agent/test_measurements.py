"""What a real node measures of itself and its pods."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from fairlead.agent.cgroups.hierarchies import Hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.measuring.disks import disks
from fairlead.agent.measuring.folders import Folders, disk_usage
from fairlead.agent.measuring.network import parsed
from fairlead.agent.measuring.pressures import pressures
from fairlead.agent.measuring.rates import Rates
from fairlead.node.stats.endpoints import answer
from fairlead.node.stats.measurements import ContainerMeasurements, InterfaceMeasurements, NodeMeasurements, Waiting
from fairlead.runtime.loops import run_virtual
from tests import measured_nodes
from tests.agent.containerd import with_containerd
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import is_running, manifest, real_node, state
from tests.agent.runtime_place import CONTAINERD, IMAGE

MIB = 1 << 20


def _containers(node: NodeMeasurements) -> dict[str, ContainerMeasurements]:
    return {container.name: container for pod in node.pods for container in pod.containers}


def _is_filled(node: NodeMeasurements) -> bool:
    found = _containers(node)
    if {"c", "busy"} - found.keys():
        return False
    quiet, busy = found["c"], found["busy"]
    is_written = quiet.rootfs is not None and quiet.rootfs.used >= 3 * MIB
    is_written &= any(volume.name == "v" and volume.filesystem.used >= 2 * MIB for volume in node.pods[0].volumes)
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
        assert volume.filesystem.used < 3 * MIB
        assert measured.ephemeral_storage is not None
        assert 5 * MIB <= measured.ephemeral_storage.used < 6 * MIB
        assert found.nodefs is not None and found.nodefs.available < found.nodefs.capacity
        assert {container.name for container in found.system_containers} == {"runtime", "pods"}
        for path in ("stats/summary", "metrics/resource", "metrics/cadvisor"):
            assert b"busy" in answer(path, {}, found).body
        await node.delete("p", grace=0)
        await node.measured(lambda now: not now.pods)


@with_containerd
@in_loop
async def test_what_goes_over_the_network_of_a_pod_is_counted(tmp_path: Path) -> None:
    async with real_node(tmp_path, kind=CONTAINERD) as node:
        serve = "mkdir /www; head -c 1000000 /dev/zero > /www/x; exec busybox httpd -f -p 8080 -h /www"
        probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
        await node.create(manifest("web", "sh", "-c", serve, readinessProbe=probe))
        await node.create(manifest("host", "sleep", "1000", spec={"hostNetwork": True}))
        pod = await node.until("web", lambda pod: bool(state(pod).get("ready")))
        await node.until("host", is_running)
        reader, writer = await asyncio.open_connection(pod["status"]["podIP"], 8080)
        writer.write(b"GET /x HTTP/1.0\r\n\r\n")
        assert len(await reader.read()) > 1_000_000
        writer.close()

        def is_counted(found: NodeMeasurements) -> bool:
            by_name = {each.name: each.network for each in found.pods}
            main = by_name.get("web")
            return (
                main is not None
                and bool(main)
                and main[0].sent_bytes > 1_000_000
                and by_name.get("host") == found.network
            )

        found = await node.measured(is_counted)
        shown = msgspec.json.decode(answer("stats/summary", {}, found).body)
        (web,) = (each["network"] for each in shown["pods"] if each["podRef"]["name"] == "web")
        (main,) = web["interfaces"]
        assert main["name"] == web["name"] == "eth0" and main["txBytes"] == web["txBytes"] > 1_000_000
        assert 0 < main["rxBytes"] < 1_000_000 and main["rxErrors"] == main["txErrors"] == 0
        assert shown["node"]["network"]["interfaces"]
        less = msgspec.json.decode(answer("stats/summary", {"only_cpu_and_memory": "true"}, found).body)
        assert "network" not in less["node"] and "network" not in less["pods"][0]
        lines = answer("metrics/cadvisor", {}, found).body.decode().splitlines()
        (sent,) = (line for line in lines if "transmit_bytes_total{" in line and 'pod="web"' in line)
        assert 'container="",' in sent and 'interface="eth0",' in sent and 'namespace="default",' in sent
        assert float(sent.split()[1]) == main["txBytes"]


def test_interfaces_that_are_made_by_thousands_are_not_all_shown() -> None:
    head = b"Inter-|   Receive |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes ...\n"
    figures = b"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
    assert [each.name for each in parsed(head + b"    lo: " + figures + b"\xff0:" + figures)] == ["\\xff0"]
    assert parsed(head + b"  eth0: " + figures) == (InterfaceMeasurements("eth0", 1, 2, 3, 4, 9, 10, 11, 12),)
    assert len(parsed(head + b"".join(b"e%d: " % number + figures for number in range(5000)))) == 16
    assert parsed(head + b"  eth0: 1 2 3") == parsed(b"") == ()


@pytest.mark.parametrize("version", [1, 2])
def test_what_went_to_disks_is_told_of_each(tmp_path: Path, version: int) -> None:
    """As the kernel writes it; not every machine counts."""
    folder = tmp_path / "pod"
    folder.mkdir()
    if version == 2:
        (folder / "io.stat").write_text("8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n253:1 \n")
    else:
        sizes = "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 0\n8:0 Total 12288\nTotal 12288\n"
        (folder / "blkio.throttle.io_service_bytes_recursive").write_text(sizes)
        (folder / "blkio.throttle.io_serviced_recursive").write_text("8:0 Read 1\n8:0 Write 2\nTotal 3\n")
    cgroups = Cgroups(Hierarchies(version, {"io" if version == 2 else "blkio": tmp_path}))
    (found,) = disks(cgroups, "/pod")
    assert (found.major, found.minor) == (8, 0)
    assert (found.read_bytes, found.written_bytes, found.reads, found.writes) == (4096, 8192, 1, 2)
    assert disks(cgroups, "/gone") == ()


def test_what_processes_wait_for_is_told_of_version_2(tmp_path: Path) -> None:
    """As the kernel writes it."""
    folder = tmp_path / "pod"
    folder.mkdir()
    for resource, micros in (("cpu", 1_500_000), ("memory", 20), ("io", 30)):
        lines = [f"{kind} avg10=1.25 avg60=0.50 avg300=0.00 total={micros}" for kind in ("some", "full")]
        (folder / f"{resource}.pressure").write_text("\n".join(lines[: 1 if resource == "cpu" else 2]) + "\n")
    roots = dict.fromkeys(("cpu", "memory", "io"), tmp_path)
    cgroups = Cgroups(Hierarchies(2, roots))
    found = pressures(cgroups, "/pod")
    assert found is not None and pressures(cgroups, "/gone") is None
    assert pressures(Cgroups(Hierarchies(1, roots)), "/pod") is None
    waits = Waiting(1_500_000, 1.25, 0.5, 0.0)
    assert (found.cpu.some, found.cpu.full, found.memory.full.total_micros) == (waits, Waiting(), 20)
    node = msgspec.structs.replace(measured_nodes.node("n"), pressures=found)
    shown = msgspec.json.decode(answer("stats/summary", {}, node).body)["node"]
    assert shown["cpu"]["psi"]["some"] == {"total": 1_500_000, "avg10": 1.25, "avg60": 0.5, "avg300": 0}
    assert shown["memory"]["psi"]["full"]["total"] == 20 and shown["io"]["psi"]["some"]["total"] == 30
    lines = answer("metrics/cadvisor", {}, node).body.decode().splitlines()
    (waited,) = (line for line in lines if line.startswith("container_pressure_cpu_waiting_seconds_total{"))
    assert 'id="/"' in waited and " 1.5 " in waited
    without = answer("stats/summary", {}, measured_nodes.node("n")).body
    assert b"psi" not in without and b'"io"' not in without


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
    folders.walk({tmp_path: 0})
    assert folders.usage(tmp_path) is not None
    folders.walk({})
    assert folders.usage(tmp_path) is None


def test_a_folder_is_walked_as_often_as_it_has_to_be(tmp_path: Path) -> None:
    async def main() -> None:
        folders, limited, other = Folders(), tmp_path / "limited", tmp_path / "other"
        looks = []
        for second in range(0, 70, 10):
            for folder in (limited, other):
                folder.mkdir(exist_ok=True)
                (folder / str(second)).touch()
            folders.walk({limited: 0, other: 60})
            looks.append([found.inodes for folder in (limited, other) if (found := folders.usage(folder)) is not None])
            await asyncio.sleep(10)
        assert [limited_ for limited_, _ in looks] == [2, 3, 4, 5, 6, 7, 8]
        assert [other_ for _, other_ in looks] == [2, 2, 2, 2, 2, 2, 8]

    run_virtual(main())


@pytest.mark.parametrize("set_by", [28800.0, -28800.0])
def test_a_rate_is_the_same_when_the_clock_is_set(set_by: float) -> None:
    rates, second = Rates(least_seconds=2.0), 10**9
    rates.begin()
    assert rates.nano_cores("/a", 5 * second, at=100010.0, began=100000.0) == second // 2
    rates.begin(set_by)
    assert rates.nano_cores("/a", 15 * second, at=100020.0 + set_by, began=100000.0) == second


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
