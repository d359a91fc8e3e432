"""Whether a simulated node admits a pod: the kubelet's own checks, skipped where a cheaper test suffices.

Nearly all pods come from the scheduler and ask for amounts alone. Only those that say where they want to be, that take
ports of the node, or that come to a node which drives pods away, are looked at as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from fairlead.api.host_ports import HostPort, host_ports
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.podresources import pod_requests
from fairlead.api.pods import Pod
from fairlead.api.scheduling import Container
from fairlead.api.taints import NO_EXECUTE
from fairlead.caches import bounded_cache
from fairlead.node.admission import (
    NodeAdmission,
    Refusal,
    admit,
    overuse_refusal,
    pressure_refusal,
    refusal_for,
    refusals,
)
from fairlead.node.allocation import NodeAllocation, whole_amounts
from fairlead.node.critical import is_critical
from fairlead.node.eviction.ranking import Overuse
from fairlead.node.grace_periods import grace_period, stop_timeout
from fairlead.node.pod_lifecycle import PodKill
from fairlead.node.preemption import preempted_condition, preempted_status
from fairlead.sim.pod_manifest import manifest_of

_OS_LABEL: Final = "kubernetes.io/os"
#: Byte sequences that a spec with such a field contains; most specs have none of these fields.
_HOST_PORT: Final = b'"hostPort"'
_NODE_AFFINITY: Final = b'"nodeAffinity"'

_containers = msgspec.json.Decoder(tuple[Container, ...]).decode


def admission_of(
    pod: Pod,
    node: Node | None,
    allocation: NodeAllocation,
    neighbours: Callable[[], Iterable[Pod]],
    conditions: Sequence[str] = (),
    overuse: Overuse | None = None,
    unplaced: Refusal | None = None,
    closed: Refusal | None = None,
) -> NodeAdmission:
    """Whether the node admits a pod that is bound to it.

    `neighbours` are its other pods, which it may preempt; `conditions` are the pressures that it is under; `overuse` is
    given if it refuses pods of overused namespaces; `unplaced` is why the pod cannot have what it is to have to itself;
    `closed` is why no pod at all is taken.
    """
    if closed is not None:
        return NodeAdmission(closed)
    refusal = pressure_refusal(manifest_of(pod), conditions) if conditions else None
    if overuse is not None:
        refusal = refusal or overuse_refusal(manifest_of(pod), overuse)
    if refusal is None and unplaced is not None:
        return NodeAdmission(unplaced)
    refusal = refusal or refusal_of(pod, node, allocation)
    if refusal is None or node is None or not is_critical(manifest := manifest_of(pod)):
        return NodeAdmission(refusal)
    others = [manifest_of(neighbour) for neighbour in neighbours()]
    return admit(manifest, msgspec.to_builtins(node), others, conditions)


def kill_for_critical(pod: Pod, now: float) -> PodKill:
    """How a pod ends that is preempted for a critical one."""
    stop_seconds = stop_timeout(grace_period(manifest_of(pod)).seconds)
    return PodKill(preempted_status(), preempted_condition(), stop_seconds, now)


def refusal_of(pod: Pod, node: Node | None, allocation: NodeAllocation) -> Refusal | None:
    """Why the node refuses a pod that is bound to it; None if it does not."""
    if node is not None and _is_particular(pod, node):
        return next(refusals(manifest_of(pod), msgspec.to_builtins(node), allocation), None)
    shortage = next(allocation.shortages(wants(pod)), None)
    return None if shortage is None else refusal_for(shortage)


def wants(pod: Pod) -> Mapping[str, int]:
    """What a pod requests of its node, in integer amounts (cpu in milli-cores)."""
    spec = pod.spec
    parts = (spec.raw_containers, spec.raw_init_containers, spec.raw_overhead, spec.raw_resources)
    return _wanted(b"\0".join(bytes(part) for part in parts))  # a separator that JSON never contains


@bounded_cache(maxsize=1024, longest=16_384)
def _wanted(decisive: bytes) -> Mapping[str, int]:
    """The same from the fields that matter: a cache key that pods of one template share."""
    fields = ("containers", "initContainers", "overhead", "resources")
    spec: Obj = {
        field: msgspec.json.decode(part) for field, part in zip(fields, decisive.split(b"\0"), strict=True) if part
    }
    return MappingProxyType(whole_amounts(pod_requests(spec)))


def host_ports_of(pod: Pod) -> Sequence[HostPort]:
    """The host ports that a pod uses."""
    parts = (pod.spec.raw_containers, pod.spec.raw_init_containers)
    if not any(_HOST_PORT in bytes(part) for part in parts):
        return ()
    return host_ports(*(_containers(part) if part else () for part in parts))


def _is_particular(pod: Pod, node: Node) -> bool:
    """Whether the pod or node has a field that needs the full check, beyond resources."""
    spec = pod.spec
    return bool(
        spec.raw_node_selector
        or spec.raw_os
        or _OS_LABEL in pod.metadata.labels
        or _NODE_AFFINITY in bytes(spec.raw_affinity)
        or _HOST_PORT in bytes(spec.raw_containers)
        or _HOST_PORT in bytes(spec.raw_init_containers)
        or any(taint.effect == NO_EXECUTE for taint in node.spec.taints)
    )
