"""Nodes and pods in short form, and a snapshot to put them in."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.encoded import encoded
from fairlead.api.scheduling import Node, Pod
from fairlead.scheduler.configuration import load
from fairlead.scheduler.decide import Chosen, Unfit
from fairlead.scheduler.framework import Nominate, NoRoom
from fairlead.scheduler.nominations import Nominations
from fairlead.scheduler.pod_relations import RelationsCache
from fairlead.scheduler.profile import Profile
from fairlead.scheduler.profile_runtime import ProfileRuntime
from fairlead.scheduler.requirements import PodRequirements, RequirementsCache
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Placed, Snapshot

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
    resources = {"requests": requests, "limits": {key: requests[key] for key in ("test.dev/gpu",) if key in requests}}
    container = {"name": "app", "image": more.pop("image", "registry.test/app:1"), "resources": resources}
    if ports := more.pop("ports", None):
        container["ports"] = [{"hostPort": port} if isinstance(port, int) else port for port in ports]
    labels = more.pop("labels", {})
    status = {"phase": "Pending"} | more.pop("status", {})
    spec = {"schedulerName": "default-scheduler", "priority": priority, "containers": [container]} | more
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    return {"metadata": metadata, "spec": spec, "status": status}


def node(name: str = "n1", **more: Any) -> Node:
    return encoded(node_obj(name, **more)).view(Node)


def pod(name: str = "w", **more: Any) -> Pod:
    return encoded(pod_obj(name, **more)).view(Pod)


class Cluster:
    """A snapshot and a decider, spoken to in short forms."""

    def __init__(self, *nodes: Node, profile: Profile | None = None) -> None:
        self.requirements_cache, self.relations_cache = RequirementsCache(), RelationsCache()
        self.snapshot = Snapshot()
        self.runtime = ProfileRuntime.over(self.snapshot, Nominations(self.snapshot), profile or load().profiles[0])
        self.decider = self.runtime.decider
        for node in nodes:
            self.snapshot.set_node(node)

    def requirements(self, pod: Pod) -> PodRequirements:
        return self.requirements_cache.of(pod)

    def request(self, pod: Pod) -> SchedulingRequest:
        return SchedulingRequest(
            self.requirements_cache.of(pod), self.relations_cache.of(pod), pod.priority, pod.metadata.uid
        )

    def place(self, pod: Pod, node_name: str) -> None:
        """The server says that the pod is there."""
        on_node = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))
        self.snapshot.place(on_node, self.requirements_cache.of(pod), self.relations_cache.of(pod))

    def assume(self, pod: Pod, row: int) -> None:
        self.snapshot.assume(Placed(pod, row, self.requirements_cache.of(pod), self.relations_cache.of(pod)))

    def decide(self, pod: Pod) -> Chosen | Unfit:
        return self.decider.decide(self.request(pod))

    def best(self, pod: Pod) -> set[str]:
        """The nodes among which the lot decides."""
        return {self.snapshot.names[row] for row in self.decider.best(self.request(pod))}

    def feasible(self, pod: Pod) -> set[str]:
        return {self.snapshot.names[row] for row in self.decider.feasible(self.request(pod))}

    def scores(self, pod: Pod, plugin: str) -> dict[str, int]:
        """Node → weighted score of one plugin."""
        return {name: scores.get(plugin, 0) for name, scores in self.decider.scores(self.request(pod)).items()}

    def preempt(self, pod: Pod) -> Nominate | NoRoom:
        """What is done to make room for a pod that fits nowhere."""
        decision = self.decide(pod)
        assert isinstance(decision, Unfit)
        return self.runtime.post_filter(pod, self.request(pod), decision.found)

    def message(self, pod: Pod, *, whole: bool = False) -> str:
        """Why the pod fits nowhere; without what preemption says, unless the whole message is asked for."""
        decision = self.decide(pod)
        assert isinstance(decision, Unfit)
        if not whole:
            return decision.found.text("")
        outcome = self.runtime.post_filter(pod, self.request(pod), decision.found)
        return decision.found.text("" if isinstance(outcome, Nominate) else outcome.message)
