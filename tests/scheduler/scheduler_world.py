"""Nodes and pods in short form, and a snapshot to put them in."""

from __future__ import annotations

from typing import Any

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Node, Pod
from fairlead.scheduler.decide import Chosen, Decider, Unfit
from fairlead.scheduler.plugins import DEFAULT_PROFILE
from fairlead.scheduler.shape import Shape, Shapes
from fairlead.scheduler.snapshot import Snapshot

Obj = dict[str, Any]


def node_obj(name: str = "n1", *, labels: Obj | None = None, images: Obj | None = None, **more: Any) -> Obj:
    """A node of 4 cpu, 8Gi and 110 pods; `more`: cpu, memory, pods, storage, gpu, taints, unschedulable."""
    amounts = {"cpu": str(more.pop("cpu", 4)), "memory": more.pop("memory", "8Gi"), "pods": str(more.pop("pods", 110))}
    for key, resource in (("storage", "ephemeral-storage"), ("gpu", "test.dev/gpu")):
        if key in more:
            amounts[resource] = str(more.pop(key))
    listed = [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()]
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {})},
        "spec": more,
        "status": {"allocatable": amounts, "capacity": amounts, "images": listed},
    }


def pod_obj(name: str = "w", *, priority: int = 0, **more: Any) -> Obj:
    """A pod of one container; `more`: cpu, memory, storage, gpu, ports, image, status, and any key of the spec."""
    requests = {
        resource: str(more.pop(key))
        for key, resource in {
            "cpu": "cpu",
            "memory": "memory",
            "storage": "ephemeral-storage",
            "gpu": "test.dev/gpu",
        }.items()
        if key in more
    }
    container = {"name": "app", "image": more.pop("image", "registry.test/app:1"), "resources": {"requests": requests}}
    if ports := more.pop("ports", None):
        container["ports"] = [{"hostPort": one} if isinstance(one, int) else one for one in ports]
    status = {"phase": "Pending"} | more.pop("status", {})
    spec = {"schedulerName": "default-scheduler", "priority": priority, "containers": [container]} | more
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec, "status": status}


def node(name: str = "n1", **more: Any) -> Node:
    return encoded(node_obj(name, **more)).view(Node)


def pod(name: str = "w", **more: Any) -> Pod:
    return encoded(pod_obj(name, **more)).view(Pod)


class Cluster:
    """A snapshot and a decider, spoken to in short forms."""

    def __init__(self, *nodes: Node) -> None:
        self.shapes = Shapes()
        self.snapshot = Snapshot()
        self.decider = Decider(self.snapshot, DEFAULT_PROFILE)
        for one in nodes:
            self.snapshot.set_node(one)

    def shape(self, one: Pod) -> Shape:
        return self.shapes.of(one)

    def place(self, one: Pod, node_name: str) -> None:
        self.snapshot.place(one.metadata.key, one.metadata.uid, self.shape(one), node_name)

    def decide(self, one: Pod) -> Chosen | Unfit:
        return self.decider.decide(one, self.shape(one))

    def feasible(self, one: Pod) -> set[str]:
        rows = self.decider.answers(self.shape(one)).feasible()
        return {self.snapshot.names[row] for row in rows}

    def scores(self, one: Pod, plugin: str) -> dict[str, int]:
        """Node → weighted score of one plugin."""
        return {name: told.get(plugin, 0) for name, told in self.decider.scores(self.shape(one)).items()}

    def message(self, one: Pod) -> str:
        """Why the pod fits nowhere, without what preemption says."""
        decision = self.decide(one)
        assert isinstance(decision, Unfit)
        return decision.message.partition(" no new claims")[0]
