"""What a kubelet asks the container runtime for: the resources of one container.

Where the pod has a limit of its own, a container without one gets that of the pod (S0-56). On cgroup v2 a container
has no swap unless the node gives it some, and dies as a whole when it exceeds its memory limit (S4-09). Who has CPUs
to himself is bounded by them.
Sources: pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, pkg/kubelet/kuberuntime/swap.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Final, NamedTuple

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.qos import BURSTABLE, GUARANTEED, qos_class
from fairlead.api.quantity import parse
from fairlead.node.cgroups.cpu import quota_micros, runtime_weight, shares
from fairlead.node.cgroups.values import MEMORY_HIGH, MEMORY_LOW, MEMORY_MIN, CgroupSettings
from fairlead.node.cpus.exclusive import exclusive_cpus
from fairlead.node.critical import is_critical
from fairlead.node.oom import oom_score_adjustments
from fairlead.node.requests import stated_limit, stated_request

SWAP_MAX: Final = "memory.swap.max"
OOM_GROUP: Final = "memory.oom.group"
_PAGE: Final = 4096


class ContainerHost(msgspec.Struct, frozen=True):
    """What matters of the machine."""

    memory_capacity: int
    cgroup_version: int = 2
    #: The file memory.swap.max exists.
    has_swap_controller: bool = True
    swap_capacity: int = 0
    is_single_process_oom_kill: bool = False
    #: Capacity without reservations; None if it is not known.
    allocatable_memory: int | None = None


class ContainerValues(msgspec.Struct, frozen=True, kw_only=True):
    """LinuxContainerResources of CRI; 0 is what is not set."""

    cpu_shares: int
    cpu_quota: int
    cpu_period: int
    memory_limit: int
    oom_score_adj: int
    memory_swap_limit: int = 0
    #: On which CPUs it runs: `0-3,8`; empty: on all.
    cpuset_cpus: str = ""
    #: From which NUMA nodes it has memory, likewise.
    cpuset_mems: str = ""
    unified: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def cpu_weight(self) -> int:
        """What the runtime makes of the shares."""
        return runtime_weight(self.cpu_shares)


class _Pod(NamedTuple):
    spec: Obj
    qos_class: str
    is_critical: bool
    #: Containers that have CPUs to themselves, as far as that matters.
    spared: Container[str]


def container_values(pod: Obj, settings: CgroupSettings, host: ContainerHost) -> Mapping[str, ContainerValues]:
    """By name of the container, init and ephemeral containers included."""
    spec = pod["spec"]
    spared = exclusive_cpus(spec) if settings.spares_exclusive_cpus else ()
    owner = _Pod(spec, qos_class(spec), is_critical(pod), spared)
    adjustments = oom_score_adjustments(pod, host.memory_capacity)
    return {
        container["name"]: _values(owner, container, adjustments[container["name"]], settings, host)
        for kind in ("initContainers", "containers", "ephemeralContainers")
        for container in spec.get(kind) or ()
    }


def _values(
    pod: _Pod, container: Obj, oom_score_adj: int, settings: CgroupSettings, host: ContainerHost
) -> ContainerValues:
    cpu_limit = stated_limit(container, "cpu") or stated_limit(pod.spec, "cpu")
    memory_limit = (stated_limit(container, "memory") or stated_limit(pod.spec, "memory")).units
    requests = (container.get("resources") or {}).get("requests") or {}
    cpu_request = parse(requests["cpu"]) if "cpu" in requests else cpu_limit
    is_bounded = settings.enforces_cpu_limits and container["name"] not in pod.spared
    period = settings.cpu_period_micros if is_bounded else 0
    is_v2 = host.cgroup_version == 2
    return ContainerValues(
        cpu_shares=shares(cpu_request.milli),
        cpu_quota=quota_micros(cpu_limit.milli, period) if period else 0,
        cpu_period=period,
        memory_limit=memory_limit,
        oom_score_adj=oom_score_adj,
        memory_swap_limit=memory_limit if host.has_swap_controller and not is_v2 else 0,
        unified=_unified(pod, container, settings, host) if is_v2 else {},
    )


def _unified(pod: _Pod, container: Obj, settings: CgroupSettings, host: ContainerHost) -> Mapping[str, str]:
    found: dict[str, str] = {}
    if settings.has_memory_qos:
        found |= _memory_qos(pod.qos_class, container, settings, host.allocatable_memory)
    if not host.is_single_process_oom_kill:
        found[OOM_GROUP] = "1"
    if host.has_swap_controller:
        found[SWAP_MAX] = str(_swap(pod, container, settings, host))
    return found


def _memory_qos(
    class_: str, container: Obj, settings: CgroupSettings, allocatable_memory: int | None
) -> Mapping[str, str]:
    """What is protected of the request, and from which usage on the container is slowed down."""
    request, limit = stated_request(container, "memory").units, stated_limit(container, "memory").units
    if settings.reserves_memory and request > 0:
        found = {MEMORY_MIN if class_ == GUARANTEED else MEMORY_LOW: str(request)}
    else:
        found = {MEMORY_MIN: "0", MEMORY_LOW: "0"}
    most = limit or allocatable_memory or 0
    if request != limit and most > 0:
        high = math.floor(request + (float(most) - float(request)) * settings.memory_throttling_factor)
        high = int(high / _PAGE) * _PAGE
        if high > request:
            found[MEMORY_HIGH] = str(high)
    return found


def _swap(pod: _Pod, container: Obj, settings: CgroupSettings, host: ContainerHost) -> int:
    """A Burstable container gets swap in proportion to its memory request; others, and critical pods, get none."""
    request, limit = stated_request(container, "memory"), stated_limit(container, "memory")
    is_eligible = settings.limits_swap and not pod.is_critical and pod.qos_class == BURSTABLE
    if not is_eligible or request == limit or not 0 < host.memory_capacity >= request.units:
        return 0
    return int(request.units / host.memory_capacity * host.swap_capacity)
