"""What a kubelet decides about one cgroup, before it becomes files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.api.podresources import HUGEPAGES, Amounts
from fairlead.api.quantity import units
from fairlead.golang.durations import NANOSECONDS
from fairlead.node.cgroups.cpu import DEFAULT_PERIOD_MICROS, agent_weight
from fairlead.node.configuration.feature_gates import CPU_QUOTA_PERIOD, MEMORY_QOS, NO_QUOTA_WITH_OWN_CPUS, FeatureGates
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.cpus.exclusive import STATIC

UNLIMITED: Final = -1
MEMORY_MIN: Final = "memory.min"
MEMORY_LOW: Final = "memory.low"
MEMORY_HIGH: Final = "memory.high"


class CgroupValues(msgspec.Struct, frozen=True, kw_only=True):
    """None for what is not written: the kernel's default stays. Bytes and microseconds; -1 stands for no limit."""

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    cpu_period: int | None = None
    memory_limit: int | None = None
    pids_limit: int | None = None
    #: By size of a page.
    huge_page_limits: Mapping[int, int] = msgspec.field(default_factory=dict)
    #: Further files of cgroup v2.
    unified: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def cpu_weight(self) -> int | None:
        return None if self.cpu_shares is None else agent_weight(self.cpu_shares)


class CgroupSettings(msgspec.Struct, frozen=True):
    """What a node's configuration says of the cgroups of pods."""

    enforces_cpu_limits: bool = True
    #: But not those of who has CPUs to himself.
    spares_exclusive_cpus: bool = False
    cpu_period_micros: int = DEFAULT_PERIOD_MICROS
    #: The feature MemoryQoS, which works on cgroup v2 alone.
    has_memory_qos: bool = False
    #: Whether it protects what pods request: `memoryReservationPolicy: TieredReservation` (S4-05).
    reserves_memory: bool = False
    memory_throttling_factor: float = 0.9
    limits_swap: bool = False
    pod_pids_limit: int = UNLIMITED

    @classmethod
    def of(cls, config: KubeletConfiguration, gates: FeatureGates, cgroup_version: int = 2) -> CgroupSettings:
        period = round(config.cpu_cfs_quota_period * NANOSECONDS) // 1000
        has_memory_qos = cgroup_version == 2 and gates.enabled(MEMORY_QOS)
        return cls(
            enforces_cpu_limits=config.cpu_cfs_quota,
            spares_exclusive_cpus=config.cpu_manager_policy == STATIC and gates.enabled(NO_QUOTA_WITH_OWN_CPUS),
            cpu_period_micros=period if gates.enabled(CPU_QUOTA_PERIOD) else DEFAULT_PERIOD_MICROS,
            has_memory_qos=has_memory_qos,
            reserves_memory=has_memory_qos and config.memory_reservation_policy == "TieredReservation",
            memory_throttling_factor=config.memory_throttling_factor,
            limits_swap=cgroup_version == 2 and config.swap_behavior == "LimitedSwap",
            pod_pids_limit=config.pod_pids_limit,
        )


def huge_page_limits(amounts: Amounts) -> Mapping[int, int]:
    """By size of a page, what is said of huge pages: `hugepages-2Mi` and the like."""
    limits: dict[int, int] = {}
    for name, amount in amounts.items():
        if name.startswith(HUGEPAGES):
            size = units(name.removeprefix(HUGEPAGES))
            limits[size] = limits.get(size, 0) + amount.units
    return limits
