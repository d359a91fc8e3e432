"""Rules about what pods and daemons get of a node: cpu quota, swap, restarts, reservations, memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairlead.api.quantity import parse
from fairlead.golang.durations import format_seconds
from fairlead.golang.quoting import go_quote
from fairlead.golang.values import printed
from fairlead.node.configuration.cpu_sets import parse_cpu_set
from fairlead.node.configuration.feature_gates import (
    CPU_QUOTA_PERIOD,
    CRASH_LOOP_MAX,
    MEMORY_QOS,
    NODE_SWAP,
    FeatureGates,
)
from fairlead.node.configuration.settings import KubeletConfiguration

_DEFAULT_QUOTA_PERIOD: Final = 0.1
_ID_UNIT: Final = 65536


def quota_period(config: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    label = f"cpuCFSQuotaPeriod (--cpu-cfs-quota-period) {{{format_seconds(config.cpu_cfs_quota_period)}}}"
    if gates.enabled(CPU_QUOTA_PERIOD):
        if not 0.001 <= config.cpu_cfs_quota_period <= 1:
            yield f"{label} must be between 1ms and 1sec, inclusive"
    elif config.cpu_cfs_quota_period != _DEFAULT_QUOTA_PERIOD:
        yield f"{label} requires feature gate CustomCPUCFSQuotaPeriod"


def swap(config: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    behavior = config.swap_behavior
    if not gates.enabled(NODE_SWAP):
        if behavior:
            yield "memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled"
    elif behavior not in ("", "LimitedSwap", "NoSwap"):
        yield f'memorySwap.swapBehavior {go_quote(behavior)} must be one of: "", "LimitedSwap" or "NoSwap"'


def crash_loop(config: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    setting, longest = "CrashLoopBackOff.MaxContainerRestartPeriod", config.max_container_restart_period
    if not gates.enabled(CRASH_LOOP_MAX):
        if longest is not None:
            yield f"FeatureGate KubeletCrashLoopBackOffMax not enabled, {setting} must not be set"
    elif longest is None:
        yield f"FeatureGate KubeletCrashLoopBackOffMax is enabled, {setting} must be set"
    elif not 1000 <= round(longest * 1e9) // 10**6 <= 300_000:
        yield f"{setting} (got: {printed(longest)} seconds) must be set between 1s and 300s"


def reserved_cpus(config: KubeletConfiguration, _gates: FeatureGates) -> Iterator[str]:
    if not config.reserved_system_cpus:
        return
    if config.system_reserved_cgroup or config.kube_reserved_cgroup:
        yield (
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) "
            "or kubeReservedCgroup (--kube-reserved-cgroup)"
        )
    try:
        parse_cpu_set(config.reserved_system_cpus)
    except ValueError as problem:
        cpus = config.reserved_system_cpus
        yield f"unable to parse reservedSystemCPUs (--reserved-cpus) {cpus}, error: {problem}"


def reserved_memory(config: KubeletConfiguration, _gates: FeatureGates) -> Iterator[str]:
    known: set[tuple[int, str]] = set()
    for reservation in config.reserved_memory:
        numa_node = reservation.get("numaNode", 0)
        for name, amount in sorted((reservation.get("limits") or {}).items()):
            if name != "memory" and not name.startswith("hugepages-"):
                yield (
                    f"the limit type {go_quote(name)} for NUMA node {numa_node} is not supported, "
                    "only [memory hugepages-<HugePageSize>] is accepted"
                )
            if not parse(str(amount)):
                yield f"reserved memory may not be zero for NUMA node {numa_node} and resource {go_quote(name)}"
            if (numa_node, name) in known:
                yield (
                    f"the reserved memory has a duplicate value for NUMA node {numa_node} and resource {go_quote(name)}"
                )
            known.add((numa_node, name))


def host(config: KubeletConfiguration, cgroup_version: int) -> Iterator[str]:
    """What the machine does not allow; a kubelet stops at the first of these."""
    ids = config.user_namespace_ids_per_pod
    if cgroup_version == 1 and config.fail_cgroup_v1:
        yield (
            "kubelet is configured to not run on a host using cgroup v1. "
            "cgroup v1 support is unsupported and will be removed in a future release"
        )
    elif cgroup_version == 1 and config.single_process_oom_kill is False:
        yield ("invalid configuration: singleProcessOOMKill must not be explicitly set to false when using cgroup v1")
    elif ids is not None and ids < _ID_UNIT:
        yield f"invalid configuration: userNamespaces.idsPerPod must not be less than {_ID_UNIT}"
    elif ids is not None and ids % _ID_UNIT:
        yield f"invalid configuration: userNamespaces.idsPerPod must be a multiple of {_ID_UNIT}"
    elif ids is not None and ids >= 2**32:
        yield f"invalid configuration: userNamespaces.idsPerPod must not be more than {2**32 - 1}"


def memory_qos(config: KubeletConfiguration, gates: FeatureGates) -> Iterator[str]:
    factor, policy = config.memory_throttling_factor, config.memory_reservation_policy
    if not 0 < factor <= 1:
        yield f"memoryThrottlingFactor {printed(factor)} must be greater than 0 and less than or equal to 1.0"
    if policy == "TieredReservation" and not gates.enabled(MEMORY_QOS):
        yield f"memoryReservationPolicy {go_quote(policy)} requires MemoryQoS feature gate to be enabled"
    if policy not in ("None", "TieredReservation"):
        yield (
            f"option {go_quote(policy)} specified for memoryReservationPolicy. "
            'Valid options are "None" or "TieredReservation"'
        )
