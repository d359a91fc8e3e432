"""The node's own check of a pod that it is given, whatever the scheduler thought (S0-54, S0-55, S3-44).

A pod may come past the scheduler (`spec.nodeName` set by hand), two schedulers may have filled the node at once, and
the node may be short of something. Only a critical pod makes others go.
Sources: pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/eviction, pkg/scheduler (AdmissionCheck).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from fairlead.api.host_ports import HostPort, clash, host_ports
from fairlead.api.node_affinity import meets_required
from fairlead.api.objects import Obj
from fairlead.api.podresources import pod_requests
from fairlead.api.qos import BEST_EFFORT, qos_class
from fairlead.api.scheduling import Affinity, Container
from fairlead.api.taints import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration, first_untolerated, is_tolerated
from fairlead.node.allocation import NodeAllocation, Shortage, amounts, whole_amounts
from fairlead.node.critical import is_critical, is_static
from fairlead.node.eviction.messages import EVICTED, node_had_condition
from fairlead.node.eviction.ranking import Overuse
from fairlead.node.eviction.signals import MEMORY_PRESSURE
from fairlead.node.preemption import NobodyToPreempt, pods_to_preempt

UNEXPECTED: Final = "UnexpectedAdmissionError"
OVERUSED: Final = "NamespaceOverused"

_OS_LABEL: Final = "kubernetes.io/os"
_NO_EXECUTE: Final = frozenset({NO_EXECUTE})
_MEMORY_TAINT: Final = Taint(key="node.kubernetes.io/memory-pressure", effect=NO_SCHEDULE)


class Refusal(msgspec.Struct, frozen=True):
    """Why a node does not take a pod: an event, and what goes into the pod's status."""

    reason: str
    message: str

    def status(self, generation: int = 0) -> Obj:
        """What is written of the pod, of which the node has seen that generation, if it has one."""
        said: Obj = {"phase": "Failed", "reason": self.reason, "message": f"Pod was rejected: {self.message}"}
        return said | {"observedGeneration": generation} if generation else said


class NodeAdmission(msgspec.Struct, frozen=True):
    """Whether a node takes a pod, and which pods have to go for it."""

    refusal: Refusal | None = None
    preempted: tuple[Obj, ...] = ()


def admit(
    pod: Obj, node: Obj, running: Sequence[Obj], conditions: Sequence[str] = (), overuse: Overuse | None = None
) -> NodeAdmission:
    """Ask the node whether it takes the pod; `conditions` are the pressures in force, `running` are its other pods."""
    refusal = pressure_refusal(pod, conditions) or overuse_refusal(pod, overuse)
    if refusal is not None:
        return NodeAdmission(refusal)
    allocation = _allocation(node, running)
    if not is_critical(pod):
        return NodeAdmission(next(refusals(pod, node, allocation), None))
    if (lasting := next(_lasting_refusals(pod, node, allocation), None)) is not None:
        return NodeAdmission(lasting)
    return _with_preemption(pod, running, list(allocation.shortages(requested_amounts(pod))))


def refusals(pod: Obj, node: Obj, allocation: NodeAllocation) -> Iterator[Refusal]:
    """Why the node does not take the pod, as it stands; only the first is told."""
    if (refusal := _system_refusal(pod, node)) is not None:
        yield refusal
    yield from map(refusal_for, allocation.shortages(requested_amounts(pod)))
    yield from _mismatches(pod, node, allocation)


def _lasting_refusals(pod: Obj, node: Obj, allocation: NodeAllocation) -> Iterator[Refusal]:
    """Those of them that no preemption could help."""
    if (refusal := _system_refusal(pod, node)) is not None:
        yield refusal
    yield from _mismatches(pod, node, allocation)


def pressure_refusal(pod: Obj, conditions: Sequence[str]) -> Refusal | None:
    """Short of memory alone, a node still takes what requests something, and what tolerates the shortage."""
    if not conditions or is_critical(pod):
        return None
    is_tolerant = qos_class(pod["spec"]) != BEST_EFFORT or is_tolerated(_MEMORY_TAINT, _tolerations(pod))
    if is_tolerant and list(conditions) == [MEMORY_PRESSURE]:
        return None
    return Refusal(EVICTED, node_had_condition(conditions))


def refusal_for(shortage: Shortage) -> Refusal:
    return Refusal(f"OutOf{shortage.resource}", str(shortage))


def requested_amounts(pod: Obj) -> dict[str, int]:
    return whole_amounts(pod_requests(pod["spec"]))


def overuse_refusal(pod: Obj, overuse: Overuse | None) -> Refusal | None:
    """Off unless somebody says how far namespaces are above what they deserve (S2-51)."""
    namespace = pod["metadata"].get("namespace", "")
    if overuse is None or overuse(namespace) <= 0 or is_critical(pod):
        return None
    return Refusal(OVERUSED, f"Namespace {namespace} uses more than it deserves.")


def _system_refusal(pod: Obj, node: Obj) -> Refusal | None:
    """What the node is made for."""
    spec, system = pod["spec"], _operating_system(node)
    if ((pod["metadata"].get("labels") or {}).get(_OS_LABEL, system)) != system:
        message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return Refusal("PodOSSelectorNodeLabelDoesNotMatch", message)
    if (spec.get("os") or {}).get("name", system) != system:
        return Refusal("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    policy = (spec.get("securityContext") or {}).get("supplementalGroupsPolicy")
    features = (node.get("status") or {}).get("features") or {}
    if policy == "Strict" and not features.get("supplementalGroupsPolicy"):
        message = "SupplementalGroupsPolicy=Strict is not supported in this node"
        return Refusal("SupplementalGroupsPolicyNotSupported", message)
    return None


def _operating_system(node: Obj) -> str:
    system: str = ((node.get("status") or {}).get("nodeInfo") or {}).get("operatingSystem") or "linux"
    return system


def _allocation(node: Obj, running: Iterable[Obj]) -> NodeAllocation:
    allocation = NodeAllocation(amounts((node.get("status") or {}).get("allocatable") or {}))
    for index, pod in enumerate(running):
        allocation.hold(str(index), requested_amounts(pod), _host_ports(pod))
    return allocation


def _mismatches(pod: Obj, node: Obj, allocation: NodeAllocation) -> Iterator[Refusal]:
    """What is wrong besides resources."""
    spec, name, labels = pod["spec"], node["metadata"]["name"], node["metadata"].get("labels") or {}
    affinity = msgspec.convert(spec.get("affinity") or {}, Affinity).node_affinity
    if not meets_required(spec.get("nodeSelector") or {}, affinity, labels, name):
        yield _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if spec.get("nodeName", name) not in ("", name):
        yield _predicate("NodeName", "node(s) didn't match the requested node name")
    if clash(_host_ports(pod), allocation.taken_ports):
        yield _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    taints = msgspec.convert((node.get("spec") or {}).get("taints") or (), tuple[Taint, ...])
    if not is_static(pod) and first_untolerated(taints, _tolerations(pod), _NO_EXECUTE) is not None:
        yield _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _predicate(name: str, description: str) -> Refusal:
    return Refusal(name, f"Predicate {name} failed: {description}")


def _host_ports(pod: Obj) -> Sequence[HostPort]:
    containers = (pod["spec"].get(kind) or () for kind in ("containers", "initContainers"))
    return host_ports(*(msgspec.convert(each, tuple[Container, ...]) for each in containers))


def _tolerations(pod: Obj) -> tuple[Toleration, ...]:
    return msgspec.convert(pod["spec"].get("tolerations") or (), tuple[Toleration, ...])


def _with_preemption(pod: Obj, running: Sequence[Obj], shortages: Sequence[Shortage]) -> NodeAdmission:
    """Others make room for a critical pod."""
    missing = {shortage.resource: shortage.missing for shortage in shortages}
    try:
        return NodeAdmission(preempted=tuple(pods_to_preempt(pod, running, missing)))
    except NobodyToPreempt as error:
        message = f"Unexpected error while attempting to recover from admission failure: {error}"
        return NodeAdmission(Refusal(UNEXPECTED, message))
