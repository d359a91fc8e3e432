"""The manifests of simulated nodes, as a kubelet would register them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairlead import COMPATIBILITY_VERSION
from fairlead.api.nodes import ATTACHED_BY_CONTROLLER, Node
from fairlead.api.objects import Obj, metadata
from fairlead.api.quantity import QuantityError, canonical, parse
from fairlead.node.conditions import NodeHealth, node_conditions
from fairlead.sim.behaviour import PREFIX

EPHEMERAL_STORAGE = "100Gi"
#: Larger than any real node, and small enough for sums over many nodes in 64 bits.
MOST_CPU, MOST_MEMORY = "1M", "1Pi"
#: The annotation of simulated nodes.
RUNTIME = "fairlead-sim://1.0"
#: KWOK's annotation with the same meaning; its value is `fake`.
KWOK_NODE = "kwok.x-k8s.io/node"
#: `computed`: what the node may give away is what its kubelet makes of its capacity, now and after each restart.
ALLOCATABLE = PREFIX + "allocatable"
COMPUTED = "computed"
#: `true`: the machine is off. Its kubelet says nothing any more, and does nothing.
FAILED = PREFIX + "failed"
#: `true`: the machine goes down, and is off when its kubelet has ended its pods.
GOES_DOWN = PREFIX + "goes-down"


def is_simulated(node: Node) -> bool:
    """Whether the fleet acts for the node: it has our annotation or KWOK's, or no agent ever reported for it."""
    if node.metadata.annotations.get(KWOK_NODE) == "fake":
        return True
    info = node.status.node_info
    return info.container_runtime_version == RUNTIME or not (info.container_runtime_version or info.kubelet_version)


def has_failed(node: Node) -> bool:
    return node.metadata.annotations.get(FAILED) == "true"


def is_going_down(node: Node) -> bool:
    return node.metadata.annotations.get(GOES_DOWN) == "true" and not has_failed(node)


def is_off(manifest: Obj) -> bool:
    """The same of a node that is not registered yet."""
    return (metadata(manifest).get("annotations") or {}).get(FAILED) == "true"


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The size of a simulated node, as quantities. Raises ValueError for an impossible one."""

    cpu: str = "4"
    memory: str = "16Gi"
    pods: int = 110

    def __post_init__(self) -> None:
        for what, text, most in (("cpu", self.cpu, MOST_CPU), ("memory", self.memory, MOST_MEMORY)):
            try:
                is_possible = parse("0") <= parse(text) <= parse(most)
            except QuantityError:
                raise ValueError(
                    f"{what} of a node: {text!r} is no quantity, write one such as 4, 500m or 16Gi"
                ) from None
            if not is_possible:
                raise ValueError(f"{what} of a node: {text!r} is not between 0 and {most}")

    def amounts(self) -> dict[str, str]:
        return {
            "cpu": canonical(self.cpu),
            "memory": canonical(self.memory),
            "ephemeral-storage": EPHEMERAL_STORAGE,
            "pods": str(self.pods),
        }


def node_manifest(name: str, amounts: Mapping[str, str], labels: Mapping[str, str] | None = None) -> Obj:
    """A node manifest with that capacity, all of it allocatable."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**default_labels(name), **(labels or {})}},
        "spec": {},
        "status": {"capacity": dict(amounts), "allocatable": dict(amounts)},
    }


def uniform(count: int, shape: NodeShape, prefix: str = "node") -> list[Obj]:
    """`node-1` … `node-N`, all of one shape."""
    return [node_manifest(f"{prefix}-{number}", shape.amounts()) for number in range(1, count + 1)]


def kubelet_nodes(count: int, shape: NodeShape) -> list[Obj]:
    """The same nodes, which leave it to their kubelets what of their capacity they may give away."""
    nodes = uniform(count, shape)
    for node in nodes:
        del node["status"]["allocatable"]
        node["metadata"]["annotations"] = {ALLOCATABLE: COMPUTED}
    return nodes


def default_labels(name: str) -> dict[str, str]:
    """The labels that a kubelet gives its node."""
    return {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    }


#: The annotations that a kubelet gives its node.
DEFAULT_ANNOTATIONS: Final[Mapping[str, str]] = {ATTACHED_BY_CONTROLLER: "true"}


def registered(manifest: Obj, number: int, moment: str) -> Obj:
    """The manifest as the node agent registers it: labelled, ready, with an address and a version."""
    meta = metadata(manifest)
    name = meta["name"]
    status = dict(manifest.get("status") or {})
    status.setdefault("allocatable", dict(status.get("capacity") or {}))
    status["conditions"] = node_conditions((), NodeHealth(), moment).conditions
    status["addresses"] = [
        {"type": "InternalIP", "address": address_of(number)},
        {"type": "Hostname", "address": name},
    ]
    status["nodeInfo"] = _INFO
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**default_labels(name), **(meta.get("labels") or {})},
            "annotations": {**DEFAULT_ANNOTATIONS, **(meta.get("annotations") or {})},
        },
        "spec": manifest.get("spec") or {},
        "status": status,
    }


def adopted(manifest: Obj, number: int, moment: str, *, is_ready: bool) -> Obj:
    """The status that the fleet gives to a node that others created; existing fields are kept."""
    own = manifest.get("status") or {}
    status = dict(registered(manifest, number, moment)["status"])
    capacity = own.get("capacity") or own.get("allocatable") or NodeShape().amounts()
    status |= {"capacity": capacity, "allocatable": own.get("allocatable") or capacity}
    status["addresses"] = own.get("addresses") or status["addresses"]
    status["nodeInfo"] = _INFO | {key: value for key, value in (own.get("nodeInfo") or {}).items() if value}
    if is_ready:
        del status["conditions"]
    return status


def address_of(number: int) -> str:
    """The address of the n-th node: 172.16.0.0/12."""
    return f"172.{16 + (number >> 16 & 15)}.{number >> 8 & 255}.{number & 255}"


_INFO: Obj = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "simulated",
    "osImage": "Fairlead simulated node",
    "containerRuntimeVersion": RUNTIME,
    "kubeletVersion": f"v{COMPATIBILITY_VERSION}.0",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}
