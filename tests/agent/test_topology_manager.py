"""What a node keeps and counts of the CPUs that it gives away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.agent.topology.manager import TopologyManager
from fairlead.api.objects import Obj
from fairlead.node.allocatable import Machine
from fairlead.node.configuration.errors import StartupError
from fairlead.node.configuration.load import configure
from fairlead.node.numa_hints import NumaNodes
from fairlead.node.plan import node_plan
from tests.agent.machine import in_loop

MACHINE = Machine(cpus=4, memory_bytes=1 << 33, ephemeral_storage_bytes=1 << 36, max_pid=32768)


def manager(root: Path, **document: object) -> TopologyManager:
    stated = {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1"}, **document}
    configured = configure(stated)
    found = TopologyManager(root, configured, node_plan(configured, MACHINE), NumaNodes(frozenset({0})))
    found.restore()
    return found


def pod(uid: str, cpu: str) -> Obj:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    resources = {"requests": amounts, "limits": amounts}
    return {"metadata": {"uid": uid}, "spec": {"containers": [{"name": "c", "resources": resources}]}}


def kept(root: Path) -> Obj:
    found: Obj = json.loads((root / "cpu_manager_state").read_bytes())
    return found


def counted(of: TopologyManager) -> dict[str, float]:
    families = (family for family in of.families if "aligned" not in family.name)
    series = ((family.name, reading) for family in families for _, reading in family.read())
    return {name: reading for name, reading in series if isinstance(reading, int | float)}


@in_loop
async def test_who_has_what_is_in_a_kubelets_file_and_outlives_the_agent(tmp_path: Path) -> None:
    first = manager(tmp_path)
    assert kept(tmp_path)["defaultCpuSet"] == "0-3"
    assert first.allocate(pod("a", "2"), lambda uid: True) is None
    await first.keep()
    assert kept(tmp_path)["entries"] == {"a": {"c": "1-2"}}
    second = manager(tmp_path)
    refusal = second.allocate(pod("b", "2"), lambda uid: True)
    assert refusal is not None and refusal.reason == "UnexpectedAdmissionError"
    assert second.allocate(pod("b", "2"), lambda uid: uid != "a") is None  # nobody is there any more who had them
    second.release("b")
    await second.keep()
    assert kept(tmp_path)["defaultCpuSet"] == "0-3"


@in_loop
async def test_what_the_disk_did_not_take_is_written_once_it_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Though nothing changes: the next agent would give CPUs away that a container has."""
    first = manager(tmp_path)
    (tmp_path / "cpu_manager_state.new").mkdir()
    assert first.allocate(pod("a", "2"), lambda uid: True) is None
    for _ in range(3):
        await first.keep()
    assert kept(tmp_path)["defaultCpuSet"] == "0-3"
    (message,) = caplog.messages
    assert message.startswith("who has what to himself cannot be written")
    (tmp_path / "cpu_manager_state.new").rmdir()
    await first.keep()
    assert kept(tmp_path)["entries"] == {"a": {"c": "1-2"}}


@in_loop
async def test_what_is_given_away_is_counted(tmp_path: Path) -> None:
    of = manager(tmp_path, topologyManagerPolicy="restricted")
    of.allocate(pod("a", "2"), lambda uid: True)
    of.allocate(pod("b", "3"), lambda uid: True)  # one NUMA node cannot have them now
    of.allocate(pod("c", "500m"), lambda uid: True)
    assert counted(of) == {
        "kubelet_cpu_manager_pinning_requests_total": 1,
        "kubelet_cpu_manager_pinning_errors_total": 0,
        "kubelet_cpu_manager_shared_pool_size_millicores": 1000,
        "kubelet_cpu_manager_exclusive_cpu_allocation_count": 2,
        "kubelet_cpu_manager_allocation_per_numa": 2,
        "kubelet_memory_manager_pinning_requests_total": 0,
        "kubelet_memory_manager_pinning_errors_total": 0,
        "kubelet_topology_manager_admission_requests_total": 3,
        "kubelet_topology_manager_admission_errors_total": 1,
    }


def test_a_node_whose_reservation_has_grown_does_not_start_with_pods_on_it(tmp_path: Path) -> None:
    (tmp_path / "cpu_manager_state").write_text(
        '{"policyName":"static","defaultCpuSet":"0,2-3","entries":{"a":{"c":"1"}}}'
    )
    manager(tmp_path)
    with pytest.raises(StartupError, match='start cpu manager error: not all reserved cpus: "0-1" are present in'):
        manager(tmp_path, kubeReserved={"cpu": "2"})


def test_a_node_without_a_policy_keeps_that(tmp_path: Path) -> None:
    manager(tmp_path, cpuManagerPolicy="none")
    assert kept(tmp_path) == {"policyName": "none", "defaultCpuSet": "", "checksum": 1353318690}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"cpuManagerPolicy": "dynamic"}, 'unknown policy: "dynamic"'),
        (
            {"cpuManagerPolicy": "none", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
            "new none policy error: None policy: received unsupported options=map[full-pcpus-only:true]",
        ),
        (
            {"topologyManagerPolicyOptions": {"near": "true"}},
            'unknown Topology Manager Policy option: "near"',
        ),
        (
            {"topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "4"}},
            'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
        ),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, document: Obj, problem: str) -> None:
    with pytest.raises(StartupError) as refused:
        manager(tmp_path, **document)
    assert str(refused.value) == problem


@in_loop
async def test_what_is_certain_to_be_together_is_counted(tmp_path: Path) -> None:
    of = manager(
        tmp_path, topologyManagerPolicy="single-numa-node", cpuManagerPolicyOptions={"full-pcpus-only": "true"}
    )
    of.allocate(pod("a", "2"), lambda uid: True)
    of.allocate(pod("b", "3"), lambda uid: True)  # one NUMA node cannot have them now
    of.allocate(pod("c", "500m"), lambda uid: True)
    shown = {family.name: dict(family.read()) for family in of.families if "aligned" in family.name}
    zero = {("pod", "numa_node"): 0}
    assert shown == {
        "kubelet_container_aligned_compute_resources_count": zero
        | {("container", "numa_node"): 2, ("container", "physical_cpu"): 1},
        "kubelet_container_aligned_compute_resources_failure_count": zero
        | {("container", "numa_node"): 1, ("container", "physical_cpu"): 0},
    }
