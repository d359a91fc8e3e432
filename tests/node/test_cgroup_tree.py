"""The tree of a node: where the cgroups of classes, pods and containers are, and what is written there."""

from __future__ import annotations

from fairlead.api.objects import Obj
from fairlead.node.allocatable import Machine
from fairlead.node.cgroups.tree import CgroupTree, cgroup_tree
from fairlead.node.configuration.load import configure
from fairlead.node.plan import node_plan

MACHINE = Machine(cpus=4, memory_bytes=16 << 30, ephemeral_storage_bytes=100 << 30, max_pid=32768)
LIMITS = {"cpu": "1", "memory": "128Mi"}


def pod(name: str, phase: str = "Running", *, has_started: bool = True, **resources: dict[str, str]) -> Obj:
    running = {"name": "c", "containerID": f"containerd://{name * 8}", "state": {"running": {}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": phase, "containerStatuses": [running] if has_started else []},
    }


GUARANTEED = pod("g", requests=LIMITS, limits=LIMITS)
SMALL = pod("b1", requests={"cpu": "500m"})
LARGE = pod("b2", requests={"cpu": "1500m"}, limits={"cpu": "2"})
BEST_EFFORT = pod("e")


def tree(*pods: Obj, flags: tuple[str, ...] = ()) -> CgroupTree:
    configured = configure({}, flags)
    return cgroup_tree(configured, MACHINE, node_plan(configured, MACHINE), pods)


def test_classes_and_pods_weigh_what_they_request() -> None:
    """SC-28; S1-12 to S1-14."""
    found = tree(GUARANTEED, SMALL, LARGE, BEST_EFFORT)
    weights = {path: values["cpu.weight"] for path, values in found.items() if "cpu.weight" in values}
    assert (
        weights
        | {
            "/kubepods/burstable": "79",
            "/kubepods/burstable/poduid-b1": "20",
            "/kubepods/burstable/poduid-b2": "59",
            "/kubepods/besteffort": "1",
            "/kubepods/poduid-g": "39",
        }
        == weights
    )
    assert found["/kubepods/poduid-g"]["cpu.max"] == "100000 100000"
    assert found["/kubepods/poduid-g"]["memory.max"] == "134217728"
    assert found["/kubepods/burstable/poduid-b2"]["cpu.max"] == "200000 100000"
    assert tree(GUARANTEED, SMALL, BEST_EFFORT)["/kubepods/burstable"]["cpu.weight"] == "20"


def test_pods_that_have_ended_have_no_cgroup_and_count_for_nothing() -> None:
    ended = {**LARGE, "status": {"phase": "Succeeded"}}
    assert tree(SMALL, ended) == tree(SMALL)


def test_containers_are_where_their_runtime_puts_them() -> None:
    """The runtime's weight is of the newer formula."""
    container = f"/kubepods/poduid-g/{'g' * 8}"
    assert tree(GUARANTEED)[container]["memory.max"] == "134217728"
    assert tree(GUARANTEED)[container]["cpu.weight"] == "100"
    assert container not in tree(pod("g", has_started=False, requests=LIMITS, limits=LIMITS))


def test_without_quota_nothing_throttles() -> None:
    found = tree(GUARANTEED, LARGE, flags=("--cpu-cfs-quota=false",))
    assert {values["cpu.max"].split()[0] for values in found.values() if "cpu.max" in values} <= {"max"}


def test_systemd_names_slices_and_scopes() -> None:
    found = tree(GUARANTEED, flags=("--cgroup-driver=systemd",))
    assert f"/kubepods.slice/kubepods-poduid_g.slice/cri-containerd-{'g' * 8}.scope" in found
