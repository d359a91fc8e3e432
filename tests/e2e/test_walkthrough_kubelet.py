"""What kubelets are told: reservations, thresholds, limits of classes; on nodes that kubectl made and annotated."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from fairlead.api.objects import Obj
from tests.e2e.helpers.manifests import container, pod
from tests.e2e.helpers.terminal import Terminal

GIB = 2**30
RESERVED = {"kubeReserved": {"memory": "1Gi"}, "systemReserved": {"memory": "1Gi"}}
HALF = {**RESERVED, "featureGates": {"QOSReserved": True}, "qosReserved": {"memory": "50%"}}


def create_node(terminal: Terminal, name: str, cpu: str, memory: str, config: Obj, **annotations: str) -> None:
    """`NODE cpu=… mem=…; KUBELET <configuration>`."""
    stated = {f"sim.fairlead.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    stated["sim.fairlead.dev/kubelet-config"] = json.dumps(config)
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": stated},
        "status": {"capacity": {"cpu": cpu, "memory": memory}},
    }
    terminal.output("kubectl create -f -", json.dumps(manifest))


def configure(terminal: Terminal, name: str, config: Obj) -> None:
    terminal.output(f"kubectl annotate --overwrite node {name} sim.fairlead.dev/kubelet-config='{json.dumps(config)}'")


def cgroups(terminal: Terminal, name: str) -> Mapping[str, Mapping[str, str]]:
    found = terminal.output(f"fairlead node cgroups {name} --kubeconfig $HOME/.kube/config -o json")
    tree: Mapping[str, Mapping[str, str]] = json.loads(found)
    return tree


def classes_come_to(terminal: Terminal, name: str, burstable: int | None, best_effort: int | None) -> None:
    """GiB of the classes' memory, None where nothing is written; all pods together always have a limit."""
    only_limits = '/^\\//{cgroup=$1} cgroup ~ /^\\/kubepods(\\/b[a-z]*)?$/ && $1 == "memory.max" {print cgroup, $2}'
    limits = (("", 14), ("/besteffort", best_effort), ("/burstable", burstable))
    expected = [f"/kubepods{class_} {limit * GIB}" for class_, limit in limits if limit is not None]
    terminal.comes_to(
        f"fairlead node cgroups {name} --kubeconfig $HOME/.kube/config | awk '{only_limits}'", "\n".join(expected)
    )


CASES: Mapping[str, tuple[str, str, Obj, str, str]] = {
    "case-1": ("4", "8Gi", {"kubeReserved": {"cpu": "100m", "memory": "100Mi"}}, "3900m 7992Mi", "8485076992"),
    "case-2": (
        "16",
        "32Gi",
        {
            "kubeReserved": {"cpu": "1", "memory": "2Gi"},
            "systemReserved": {"cpu": "500m", "memory": "1Gi"},
            "evictionHard": {"memory.available": "500Mi"},
        },
        "14500m 29196Mi",
        str(29 * GIB),
    ),
    "case-3": ("4", "10Gi", {"evictionHard": {"memory.available": "10%"}}, "4 9663676400", str(10 * GIB)),
    "case-6": (
        "4",
        "8Gi",
        {"enforceNodeAllocatable": ["none"], "kubeReserved": {"memory": "1Gi"}},
        "4 7068Mi",
        str(8 * GIB),
    ),
    "best-practice": (
        "4",
        "10Gi",
        {"evictionHard": {"memory.available": "500Mi"}, "systemReserved": {"memory": "1.5Gi"}},
        "4 8204Mi",
        "9126805504",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_node_gives_away_what_is_neither_reserved_nor_a_threshold(terminal: Terminal, name: str) -> None:
    """SC-31 cases 1 to 3 and 6, SC-32; S1-15 to S1-27, S3-89."""
    cpu, memory, config, allocatable, of_all_pods = CASES[name]
    create_node(terminal, name, cpu, memory, config)
    shown = "-o jsonpath='{.status.allocatable.cpu} {.status.allocatable.memory}'"
    terminal.comes_to(f"kubectl get node {name} {shown}", allocatable)
    assert cgroups(terminal, name)["/kubepods"]["memory.max"] == of_all_pods
    terminal.output(f"kubectl delete node {name}")


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("case-4", {"kubeReserved": {"memory": "40Gi"}}, "invalid Node Allocatable configuration"),
        ("case-5", {"enforceNodeAllocatable": ["pods", "system-reserved"]}, "systemReservedCgroup"),
        (
            "case-5-missing",
            {
                "enforceNodeAllocatable": ["pods", "system-reserved"],
                "systemReserved": {"memory": "1Gi"},
                "systemReservedCgroup": "/sysd",
            },
            'Failed to enforce System Reserved Cgroup Limits on "/sysd"',
        ),
    ],
)
def test_a_kubelet_that_does_not_start_tells_why(terminal: Terminal, name: str, config: Obj, message: str) -> None:
    """SC-31 cases 4 and 5; S1-20, S1-26."""
    create_node(terminal, name, "16", "32Gi", config, missing_cgroups="/sysd")
    listed = "kubectl get events -n default --field-selector type=Warning,involvedObject.kind=Node"
    terminal.comes_to(
        f"{listed},involvedObject.name={name} -o jsonpath='{{.items[*].message}}' | grep -c '{message}'", "1"
    )
    terminal.output(f"kubectl delete node {name}")


@pytest.mark.slow
def test_what_higher_classes_request_is_kept_from_lower_ones(terminal: Terminal) -> None:
    """SC-29, S1-01 to S1-08: the values change when a pod goes, when the share does, and without the gate."""
    create_node(terminal, "reserving", "16", "16Gi", HALF)
    terminal.comes_to("kubectl get node reserving -o jsonpath='{.status.allocatable.memory}'", "14236Mi")
    large = container(limits={"cpu": "1", "memory": "2Gi"})
    pods = [
        pod("g1", large, nodeName="reserving"),
        pod("g2", large, nodeName="reserving"),
        pod("b", container(requests={"memory": "2Gi"}), nodeName="reserving"),
    ]
    terminal.output("kubectl create -f -", "\n---\n".join(pods))
    terminal.output("kubectl wait pod --all --for condition=Ready --timeout=30s")
    classes_come_to(terminal, "reserving", 12, 11)
    configure(terminal, "reserving", {**HALF, "qosReserved": {"memory": "100%"}})
    classes_come_to(terminal, "reserving", 10, 8)
    configure(terminal, "reserving", RESERVED)
    classes_come_to(terminal, "reserving", None, None)
    configure(terminal, "reserving", {**HALF, "featureGates": {}})
    classes_come_to(terminal, "reserving", None, None)
    configure(terminal, "reserving", HALF)
    terminal.output("kubectl delete pod g2 --wait")
    classes_come_to(terminal, "reserving", 13, 12)
    tree = cgroups(terminal, "reserving")
    (of_pod,) = [path for path in tree if path.count("/") == 2 and "/pod" in path.removeprefix("/kubepods")]
    assert (tree[of_pod]["cpu.max"], tree[of_pod]["memory.max"]) == ("100000 100000", str(2 * GIB))
    assert [path for path in tree if path.startswith(f"{of_pod}/")]
    terminal.output("kubectl delete pod --all --force && kubectl delete node reserving")


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("'-eviction-hard=memory.available<500Mi'", "unknown shorthand flag: 'e' in -eviction-hard"),
        ("--experimental-qos-reserved=memory=50%", "use --qos-reserved, with --feature-gates=QOSReserved=true"),
        ("--experimental-kernel-memcg-notification", "use --kernel-memcg-notification"),
    ],
)
def test_spellings_of_former_times_are_refused_with_those_of_today(terminal: Terminal, flag: str, message: str) -> None:
    """X-15, S3-89, S3-92, SC-32."""
    answer = terminal.run(f"fairlead up --memory --port 0 {flag}")
    assert (answer.code, message in answer.err) == (2, True)
