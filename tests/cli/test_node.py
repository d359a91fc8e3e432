"""`fairlead node plan`: what it prints of a node, and how it refuses one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairlead.cli.main import main

MACHINE = ("--capacity", "cpu=4,memory=8Gi")


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["node", "plan", *arguments])


def planned(*arguments: str) -> dict[str, Any]:
    result = plan(*MACHINE, "-o", "json", *arguments)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_plan_shows_what_is_left_and_every_file() -> None:
    """S1-24, S1-25."""
    result = plan(*MACHINE, "--kube-reserved=cpu=100m,memory=100Mi")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["memory", "8Gi", "7992Mi"] in lines
    assert lines[lines.index(["/kubepods"]) + 2] == ["memory.max", "8485076992"]
    assert ["/kubepods/burstable"] in lines


def test_a_plan_shows_which_cpus_are_reserved_and_which_can_be_a_containers_own() -> None:
    static = ("--cpu-manager-policy=static", "--kube-reserved=cpu=1500m")
    assert planned(*static)["cpus"] == {"reserved": "0-1", "exclusive": "2-3", "shared": "0-3"}
    lines = [line.split() for line in plan(*MACHINE, *static).stdout.splitlines()]
    assert ["reserved", "0-1"] in lines
    assert planned(*static, "--cpu-topology=threads=2")["cpus"]["reserved"] == "0,2"
    refused = plan(*MACHINE, "--cpu-manager-policy=static")
    assert "unable to determine reserved CPU resources for static policy" in refused.stderr
    refused = plan(*MACHINE, "--cpu-topology=boards=2")
    assert "--cpu-topology: a machine has no 'boards': say sockets, numa, caches, threads" in refused.stderr


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "kubelet.yaml"
    config.write_text("kind: KubeletConfiguration\nmaxPods: 50\nkubeReserved: {cpu: 500m}\n")
    assert planned("--config", str(config))["allocatable"]["pods"] == "50"
    allocatable = planned("--config", str(config), "--max-pods=20")["allocatable"]
    assert (allocatable["pods"], allocatable["cpu"]) == ("20", "3500m")


def test_each_reservation_for_higher_classes_is_a_limit_of_lower_ones() -> None:
    """S1-06: before there are pods nothing is reserved."""
    cgroups = planned("--qos-reserved=memory=50%", "--feature-gates=QOSReserved=true")["cgroups"]
    assert (
        cgroups["/kubepods/burstable"]["memory.max"] == cgroups["/kubepods/besteffort"]["memory.max"] == str(8 * 2**30)
    )


def test_the_tree_of_all_pods_keeps_its_own_files_with_memory_qos() -> None:
    """S4-05."""
    files = planned("--feature-gates=MemoryQoS=true")["cgroups"]["/kubepods"]
    assert (files["memory.max"], files["memory.min"]) == (str(8 * 2**30), "0")


def test_cgroup_v1_is_refused_unless_the_configuration_allows_it(tmp_path: Path) -> None:
    """S1-29."""
    assert "kubelet is configured to not run on a host using cgroup v1" in plan(*MACHINE, "--cgroup-version=1").output
    config = tmp_path / "kubelet.yaml"
    config.write_text("failCgroupV1: false")
    files = planned("--cgroup-version=1", "--config", str(config))["cgroups"]["/kubepods"]
    assert files["cpu.shares"] == "4096"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--capacity", "cpu=4"], "--capacity says nothing of memory: write cpu=4,memory=16Gi"),
        (["--capacity", "cpu=1500m,memory=1Gi"], "a machine has whole CPUs, not 1500m"),
        (["--capacity", "cpu=4,memory=lots"], "--capacity: memory=lots: quantities must match"),
        (["--capacity", "cpu=4,memory=-1Gi"], "--capacity: memory=-1Gi must be more than nothing"),
        (["--capacity", "cpu=4,memory=1Gi,gpu=1"], "a machine has no 'gpu' that a kubelet knows of"),
        (["--capacity", "cpu=4,memory=1Gi,hugepages-x=1Gi"], "quantities must match"),
        ([*MACHINE, "--experimental-qos-reserved=memory=50%"], "use --qos-reserved"),
        ([*MACHINE, "--kube-reserved=memory=9Gi"], "Expected capacity >= reservation."),
        (
            [*MACHINE, "--cgroup-driver=docker"],
            'cgroupDriver (--cgroup-driver) "docker" must be "cgroupfs" or "systemd"',
        ),
    ],
)
def test_what_no_node_could_have_is_refused_in_a_sentence(arguments: list[str], message: str) -> None:
    """X-15, and issue 15 "Bad input"."""
    result = plan(*arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_what_is_said_in_vain_is_told_of() -> None:
    """S1-02."""
    assert "warning: qosReserved" in plan(*MACHINE, "--qos-reserved=memory=50%").stderr


def test_a_plan_that_stops_half_way_says_where() -> None:
    """S1-21."""
    result = plan(*MACHINE, "--enforce-node-allocatable=system-reserved", "--system-reserved-cgroup=/system.slice")
    assert result.exit_code == 1
    assert "/kubepods" in result.stdout
    assert '["system.slice"] cgroup is not configured properly' in result.stderr
