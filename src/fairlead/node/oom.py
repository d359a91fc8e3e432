"""Whom the kernel kills when a node runs out of memory, and the oom_score_adj that a kubelet starts containers with.

The kernel kills the process of the greatest score, which is its share of the node's memory in thousandths plus this
adjustment. So a Burstable container that uses exactly what it requested has the same score whatever its size; one that
uses more stands above it, one that uses less below (S4-12 .. S4-20).
Sources: pkg/kubelet/qos/policy.go, helpers.go; oom_badness and proc_oom_score of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fairlead.api.objects import Obj
from fairlead.api.podresources import aggregate_container_requests, has_pod_level_resources, is_sidecar
from fairlead.api.qos import BEST_EFFORT, GUARANTEED, qos_class
from fairlead.api.quantity import ZERO
from fairlead.node.critical import is_node_critical
from fairlead.node.requests import stated_request

#: The kubelet, kube-proxy and the container runtime (S1-28).
NODE_COMPONENT: Final = -999
#: Pods that would exceed only their own limit, and die there.
PROTECTED: Final = -997
LEAST_PROTECTED: Final = 1000
#: Never killed.
EXEMPT: Final = -1000
#: The reason of the event that a node has when somebody died for want of memory of all of it.
SYSTEM_OOM: Final = "SystemOOM"


def system_oom_message(process: str, pid: int) -> str:
    return f"System OOM encountered, victim process: {process}, pid: {pid}"


class Process(NamedTuple):
    """As the kernel sees it: memory is what it has resident, swap included."""

    memory_bytes: int
    oom_score_adj: int

    def badness(self, total_bytes: int) -> int:
        """In bytes; the total is the memory of the machine with its swap."""
        return self.memory_bytes + _cut_off(self.oom_score_adj * total_bytes, 1000)

    def oom_score(self, total_bytes: int) -> int:
        """As /proc/PID/oom_score shows it, 0 to 2000: a small process without an adjustment rests at 666 (S4-19)."""
        if self.oom_score_adj == EXEMPT:
            return 0
        return max((1000 + _cut_off(self.badness(total_bytes) * 1000, total_bytes)) * 2 // 3, 0)


def oom_victim(processes: Iterable[Process], total_bytes: int) -> Process | None:
    """The worst process, whoever asked for memory (S4-12); of several alike the first."""
    exposed = [process for process in processes if process.oom_score_adj != EXEMPT]
    return max(exposed, key=lambda process: process.badness(total_bytes), default=None)


def oom_score_adjustments(pod: Obj, memory_capacity: int) -> Mapping[str, int]:
    """By name, for every container that takes part in the pod's class; the capacity is the machine's, in bytes."""
    spec = pod["spec"]
    class_ = qos_class(spec)
    if is_node_critical(pod) or class_ == GUARANTEED:
        return _for_all(spec, PROTECTED)
    if class_ == BEST_EFFORT:
        return _for_all(spec, LEAST_PROTECTED)
    return _burstable(spec, memory_capacity)


def _for_all(spec: Obj, adjustment: int) -> Mapping[str, int]:
    kinds = ("initContainers", "containers", "ephemeralContainers")
    return {container["name"]: adjustment for kind in kinds for container in spec.get(kind) or ()}


def _burstable(spec: Obj, memory_capacity: int) -> Mapping[str, int]:
    shared = _unclaimed_per_container(spec)
    regular = {
        container["name"]: stated_request(container, "memory").units for container in spec.get("containers") or ()
    }
    adjustments = {name: _adjustment(request + shared, memory_capacity) for name, request in regular.items()}
    least = _adjustment(min(regular.values(), default=0) + shared, memory_capacity)
    for container in spec.get("initContainers") or ():
        own = _adjustment(stated_request(container, "memory").units + shared, memory_capacity)
        # A sidecar must not die before the containers that it serves (S4-22).
        adjustments[container["name"]] = min(own, least) if is_sidecar(container) else own
    for container in spec.get("ephemeralContainers") or ():
        adjustments[container["name"]] = _adjustment(0, memory_capacity)
    return {name: _between_the_classes(adjustment) for name, adjustment in adjustments.items()}


def _adjustment(memory_request: int, memory_capacity: int) -> int:
    return 1000 - 1000 * memory_request // memory_capacity


def _between_the_classes(adjustment: int) -> int:
    """Never as safe as Guaranteed, never as exposed as BestEffort."""
    return min(max(adjustment, 1000 + PROTECTED), LEAST_PROTECTED - 1)


def _unclaimed_per_container(spec: Obj) -> int:
    """What the pod requests beyond its containers, in equal parts; plain init containers count as well (S4-23)."""
    if not has_pod_level_resources(spec):
        return 0
    of_pod = stated_request(spec, "memory").units
    if not of_pod:
        return 0
    count = len(spec.get("containers") or ()) + len(spec.get("initContainers") or ())
    unclaimed = of_pod - aggregate_container_requests(spec).get("memory", ZERO).units
    return _cut_off(unclaimed, count)


def _cut_off(dividend: int, divisor: int) -> int:
    """The quotient as C and Go have it, towards zero."""
    return -(-dividend // divisor) if dividend < 0 else dividend // divisor
