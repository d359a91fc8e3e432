"""What a node publishes and enforces, whatever is reserved."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.node.allocatable import Machine
from fairlead.node.cgroups.files import files
from fairlead.node.configuration.errors import Stage, StartupError
from fairlead.node.configuration.load import configure
from fairlead.node.plan import NodePlan, node_plan

GI = 2**30
MACHINE = Machine(cpus=4, memory_bytes=8 * GI, ephemeral_storage_bytes=100 * GI, max_pid=32768)


def plan(*flags: str, machine: Machine = MACHINE, **document: Any) -> NodePlan:
    return node_plan(configure(document, flags), machine)


def test_the_worked_example_of_the_documents() -> None:
    """S1-25."""
    found = plan("--kube-reserved=cpu=100m,memory=100Mi")
    assert (str(found.allocatable["cpu"]), str(found.allocatable["memory"])) == ("3900m", "7992Mi")
    assert files(found.cgroups["kubepods",])["memory.max"] == str(8092 * 2**20)


@given(st.integers(0, 2000), st.integers(0, 2000), st.integers(0, 3000), st.integers(0, 3000), st.integers(1, 2000))
def test_what_is_reserved_and_what_is_left_make_the_capacity(
    kube_cpu: int, system_cpu: int, kube_memory: int, system_memory: int, threshold: int
) -> None:
    """S1-17, S1-24: the limit of all pods leaves the eviction threshold in, allocatable does not."""
    found = plan(
        f"--kube-reserved=cpu={kube_cpu}m,memory={kube_memory}Mi",
        f"--system-reserved=cpu={system_cpu}m,memory={system_memory}Mi",
        f"--eviction-hard=memory.available<{threshold}Mi",
    )
    pods = found.cgroups["kubepods",]
    left = found.allocatable["memory"].units
    assert found.allocatable["cpu"].milli + kube_cpu + system_cpu == 4000
    assert left + (kube_memory + system_memory + threshold) * 2**20 == 8 * GI
    assert pods.memory_limit == left + threshold * 2**20
    assert found.allocatable["pods"] == found.capacity["pods"]


@given(st.integers(0, 9), st.integers(0, 200))
def test_nobody_is_promised_more_than_there_is(memory_gi: int, storage_gi: int) -> None:
    """S1-26."""
    flags = (f"--kube-reserved=memory={memory_gi}Gi,ephemeral-storage={storage_gi}Gi", "--eviction-hard=")
    if memory_gi > 8 or storage_gi > 100:
        with pytest.raises(StartupError, match="Expected capacity >= reservation") as refusal:
            plan(*flags)
        assert refusal.value.stage is Stage.START
        assert ('"memory"' in str(refusal.value)) is (memory_gi > 8)
    else:
        assert all(amount.nanos >= 0 for amount in plan(*flags).allocatable.values())


@pytest.mark.parametrize(
    ("ids", "pods", "error"),
    [
        (1 << 25, 127, ""),
        (1 << 25, 128, "kubelet user assigned IDs are not enough to support 128 pods"),
        (3 << 16, 110, f"kubelet user assigned IDs length {2**32 - (3 << 16)} is not a multiple of {3 << 16}"),
    ],
)
def test_pods_have_no_more_ids_than_there_are(ids: int, pods: int, error: str) -> None:
    document = {"userNamespaces": {"idsPerPod": ids}, "maxPods": pods}
    if error:
        with pytest.raises(StartupError) as refusal:
            node_plan(configure(document), MACHINE)
        assert str(refusal.value) == f"create user namespace manager: {error}"
    else:
        node_plan(configure(document), MACHINE)


def test_thresholds_can_be_left_out_of_what_is_reserved() -> None:
    """X-15: a flag of former times that kubelet 1.36 still has."""
    assert plan("--experimental-allocatable-ignore-eviction").allocatable["memory"].units == 8 * GI


def test_huge_pages_are_no_memory_any_more() -> None:
    machine = Machine(4, 8 * GI, 100 * GI, 32768, {"2Mi": 512, "1Gi": 0})
    found = plan("--eviction-hard=", machine=machine)
    assert str(found.allocatable["memory"]) == "7Gi"
    assert str(found.allocatable["hugepages-2Mi"]) == "1Gi"
    assert str(found.allocatable["hugepages-1Gi"]) == "0"


def test_storage_is_not_published_where_it_is_not_looked_after() -> None:
    assert "ephemeral-storage" not in plan(localStorageCapacityIsolation=False).capacity


def test_reserved_cpus_are_taken_from_the_allocatable() -> None:
    assert str(plan("--reserved-cpus=0-1", "--kube-reserved=cpu=3").allocatable["cpu"]) == "2"


def test_without_classes_nothing_is_written_to_the_root() -> None:
    found = plan("--cgroups-per-qos=false", "--enforce-node-allocatable=")
    assert (found.cgroups, found.events) == ({}, ())


def test_pods_keep_room_for_a_process_however_many_are_reserved() -> None:
    values = plan("--kube-reserved=pid=40000").cgroups["kubepods",]
    assert (values.pids_limit, files(values)["pids.max"]) == (0, "1")


def test_a_daemon_s_cgroup_has_the_driver_s_name() -> None:
    """S1-20, S1-21, S1-30."""
    document: dict[str, Any] = {
        "cgroupDriver": "systemd",
        "enforceNodeAllocatable": ["pods", "kube-reserved"],
        "kubeReservedCgroup": "/kube.slice",
        "kubeReserved": {"memory": "1Gi"},
    }
    assert ("kube",) in plan(**document).cgroups
    missing = node_plan(configure(document), MACHINE, ["/kube.slice"])
    assert missing.problem == (
        'Failed to enforce Kube Reserved Cgroup Limits on "/kube.slice": could not read controllers '
        'for cgroup ["kube"]: open /sys/fs/cgroup/kube.slice/cgroup.controllers: no such file or directory'
    )
    assert missing.events[-1] == ("Warning", "FailedNodeAllocatableEnforcement", missing.problem)


def test_the_memory_of_daemons_is_protected_with_memory_qos() -> None:
    """S4-05."""
    found = plan(
        "--system-reserved=memory=1Gi",
        "--enforce-node-allocatable=system-reserved",
        "--system-reserved-cgroup=/system.slice",
        "--feature-gates=MemoryQoS=true",
    )
    assert files(found.cgroups["system.slice",])["memory.min"] == str(GI)


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        (
            "--eviction-hard=memory.available<101%",
            "eviction percentage threshold memory.available must be <= 100%: 101%",
        ),
        ("--eviction-hard=cpu.available<1", "unsupported eviction signal cpu.available"),
        (
            "--eviction-soft=memory.available<1Gi",
            "grace period must be specified for the soft eviction threshold memory.available",
        ),
    ],
)
def test_a_threshold_that_cannot_be_read_stops_the_start(flag: str, error: str) -> None:
    with pytest.raises(StartupError) as refusal:
        plan(flag)
    assert (refusal.value.stage, str(refusal.value)) == (Stage.START, error)
