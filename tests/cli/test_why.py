"""`fairlead why` on a dump: the groups of nodes, what would help, and the scores of a pod that has a node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fairlead.cli.main import main
from tests.scheduler.scheduler_world import node_obj, pod_obj

Obj = dict[str, Any]


def of_kind(kind: str, obj: Obj) -> Obj:
    obj["metadata"].pop("uid", None)
    return {"apiVersion": "v1", "kind": kind} | obj


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/late"]}


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    nodes = [
        node_obj("n1", cpu=2),
        node_obj("n2", cpu=8, unschedulable=True),
        node_obj("n3", cpu=8, taints=[{"key": "gpu", "value": "true", "effect": "NoSchedule"}]),
        node_obj("n4", cpu=8),
    ]
    pods = [
        pod_obj("a", cpu="1500m", nodeName="n1"),
        pod_obj("b", cpu=7, nodeName="n4"),
        pod_obj("w", cpu=2),
        pod_obj("important", cpu=2, priority=10),
        pod_obj("gated", schedulingGates=[{"name": "test.dev/g"}]),
        pod_obj("theirs", schedulerName="volcano"),
        pod_obj("going"),
        pod_obj("claims", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "missed"}}]),
    ]
    next(pod for pod in pods if pod["metadata"]["name"] == "going")["metadata"] |= GOING
    objects = [of_kind("Namespace", {"metadata": {"name": "default"}})]
    objects += [of_kind("Node", obj) for obj in nodes] + [of_kind("Pod", obj) for obj in pods]
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}))
    return file


def asked(dump: Path, pod: str, *options: str) -> str:
    done = CliRunner().invoke(main, ["why", pod, "--dump", str(dump), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_each_group_of_nodes_says_what_refuses_and_what_would_help(dump: Path) -> None:
    output = asked(dump, "w")
    assert output.startswith(
        "default/w waits: 0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were"
    )
    assert "2 nodes  n1, n4\n    NodeResourcesFit: Insufficient cpu\n" in output
    assert "would help: cpu: wants 2, at most 1 of 8 free" in output
    assert "would help: kubectl uncordon n2" in output
    assert "would help: a toleration for gpu=true:NoSchedule" in output


def test_what_lets_a_pod_go_nowhere_is_said_of_all_nodes(dump: Path) -> None:
    output = asked(dump, "claims")
    assert (
        '4 nodes  n1, n2, n3, n4\n    VolumeRestrictions: persistentvolumeclaim "missed" not found\n' in output + "\n"
    )


def test_volumes_that_keep_a_pod_from_nodes_say_what_would_help(tmp_path: Path) -> None:
    zone, driver = "topology.kubernetes.io/zone", "disks.example.com"
    objects = [of_kind("Namespace", {"metadata": {"name": "default"}})]
    objects += [of_kind("Node", node_obj(name, labels={zone: name})) for name in ("a", "b")]
    drivers = [{"name": driver, "nodeID": "a", "topologyKeys": None, "allocatable": {"count": 1}}]
    csi_node = of_kind("CSINode", {"metadata": {"name": "a"}, "spec": {"drivers": drivers}})
    objects.append(csi_node | {"apiVersion": "storage.k8s.io/v1"})
    for name, mode, labels in (
        ("alone", "ReadWriteOncePod", {}),
        ("far", "ReadWriteOnce", {zone: "c__d"}),
        ("near", "ReadWriteOnce", {zone: "a"}),
        ("moved", "ReadWriteOnce", {}),
    ):
        common = {"accessModes": [mode], "storageClassName": ""}
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        meta = {"name": name, "namespace": "default", "annotations": bound}
        spec = common | {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        objects.append(of_kind("PersistentVolumeClaim", {"metadata": meta, "spec": spec, "status": {"phase": "Bound"}}))
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
        spec = common | {"capacity": {"storage": "1Gi"}, "claimRef": reference}
        spec["csi"] = {"driver": driver, "volumeHandle": name}
        objects.append(of_kind("PersistentVolume", {"metadata": {"name": name, "labels": labels}, "spec": spec}))
    for pod, claim, more in (
        ("first", "alone", {"nodeName": "a"}),
        ("same", "alone", {}),
        ("away", "far", {}),
        ("full", "near", {}),
        ("late", "moved", {"nodeName": "b"}),
    ):
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        obj = pod_obj(pod, volumes=volumes)
        obj["spec"] |= more
        objects.append(of_kind("Pod", obj))
    source = {"persistentVolumeName": "moved"}
    attached = {"attacher": driver, "nodeName": "a", "source": source}
    made = of_kind("VolumeAttachment", {"metadata": {"name": "x"}, "spec": attached, "status": {"attached": True}})
    objects.append(made | {"apiVersion": "storage.k8s.io/v1"})
    file = tmp_path / "dump.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert "would help: the end of default/first" in asked(file, "same")
    assert f"would help: a node with {zone}=c or d" in asked(file, "away")
    limit = f"({driver}: wants 1, a node can have 1 in all)"
    assert f"would help: fewer volumes on one of these nodes {limit}" in asked(file, "full")
    only = "its volume is attached to a, and only one node may have it"
    assert asked(file, "late").startswith(f'default/late is on b\n  note: claim "moved": {only}\n')


@pytest.mark.parametrize(
    ("spec", "annotations", "waits"),
    [
        ({"storageClassName": "gold"}, {}, 'waits for the storage class "gold", which does not exist'),
        ({"storageClassName": ""}, {}, "names no storage class, and no class is the default"),
        ({"storageClassName": "now"}, {}, 'waits for "example.com/x" to make its volume, of storage class "now"'),
        ({"storageClassName": "late"}, {}, 'gets its volume, of storage class "late", once the pod has a node'),
        (
            {"storageClassName": "late"},
            {"volume.kubernetes.io/selected-node": "n4"},
            'waits for "example.com/x" to make its volume for n4, of storage class "late"',
        ),
        ({"storageClassName": "mine"}, {}, 'waits for somebody to make a volume of storage class "mine"'),
        ({"volumeName": "unknown"}, {}, 'asks for the volume "unknown", which does not exist'),
        ({"volumeName": "taken"}, {}, 'asks for the volume "taken", which is kept for other/one'),
    ],
)
def test_a_claim_without_volume_says_what_it_waits_for(
    dump: Path, tmp_path: Path, spec: dict[str, str], annotations: dict[str, str], waits: str
) -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": "missed", "namespace": "default", "annotations": annotations}
    objects = [of_kind("PersistentVolumeClaim", {"metadata": meta, "spec": wanted | spec})]
    for name, mode in (("now", "Immediate"), ("late", "WaitForFirstConsumer"), ("mine", "Immediate")):
        provisioner = "kubernetes.io/no-provisioner" if name == "mine" else "example.com/x"
        made = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
        objects.append(of_kind("StorageClass", made) | {"apiVersion": "storage.k8s.io/v1"})
    taken = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/tmp/x"},
        "claimRef": {"namespace": "other", "name": "one"},
    }
    objects.append(of_kind("PersistentVolume", {"metadata": {"name": "taken"}, "spec": taken}))
    storage = tmp_path / "storage.yaml"
    storage.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert f'note: claim "missed" {waits}' in asked(dump, "claims", "--dump", str(storage))


def test_a_placed_pod_says_how_the_scores_came_about(dump: Path) -> None:
    explanation = json.loads(asked(dump, "b", "-o", "json"))
    assert explanation["headline"] == "default/b is on n4"
    (only,) = explanation["scored"]
    assert only["node"] == "n4" and only["total"] == sum(only["scores"].values())
    assert set(only["scores"]) == {"TaintToleration", "NodeResourcesFit", "NodeResourcesBalancedAllocation"}


def test_an_important_pod_says_whom_it_may_drive_away(dump: Path) -> None:
    output = asked(dump, "important")
    assert "preemption: it may drive away default/" in output


def test_a_pod_that_is_not_tried_says_why(dump: Path) -> None:
    assert "not tried yet: waiting for scheduling gates: [test.dev/g]" in asked(dump, "gated")
    assert asked(dump, "going").startswith("default/going is not tried: it is going away")
    assert 'asks for the scheduler "volcano", which is another one' in asked(dump, "theirs")


def test_a_pod_that_is_not_there_is_a_failure(dump: Path) -> None:
    done = CliRunner().invoke(main, ["why", "nobody", "--dump", str(dump)])
    assert done.exit_code == 1 and 'pods "nobody" not found in namespace default' in done.output


def test_without_a_cluster_it_asks_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    done = CliRunner().invoke(main, ["why", "w"])
    assert done.exit_code == 2 and "which cluster?" in done.output


@pytest.mark.parametrize("name", ["default/w", "pod/w", "pods/w", "w"])
def test_a_pod_is_named_as_kubectl_prints_it(dump: Path, name: str) -> None:
    assert asked(dump, name).startswith("default/w waits:")
    assert asked(dump, name, "-n", "default").startswith("default/w waits:")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["a/b/c"], "'a/b/c' is no pod: say NAME, pod/NAME or NAMESPACE/NAME"),
        (["/w"], "'/w' is no pod"),
        (["default/"], "'default/' is no pod"),
        (["shop/w", "-n", "default"], "'shop/w' is in namespace shop, and --namespace says default"),
    ],
)
def test_other_names_are_refused(dump: Path, options: list[str], message: str) -> None:
    done = CliRunner().invoke(main, ["why", "--dump", str(dump), *options])
    assert (done.exit_code, message in done.output) == (2, True), done.output
