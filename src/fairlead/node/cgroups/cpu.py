"""From milli-cores to what the kernel takes: shares, weights and quotas.

One tree of cgroups has weights of two formulas: a kubelet writes those of pods, QoS classes and the node in
proportion to the shares, and the container runtime writes those of containers along a curve (S0-57).
Sources: pkg/kubelet/cm/helpers_linux.go, cgroup_manager_linux.go; github.com/opencontainers/cgroups.
"""

from __future__ import annotations

import math
from typing import Final

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262144
MAX_WEIGHT: Final = 10000
DEFAULT_PERIOD_MICROS: Final = 100_000
_SHARES_PER_CPU: Final = 1024
_MIN_QUOTA_MICROS: Final = 1000


def shares(milli_cpu: int) -> int:
    return min(max(milli_cpu * _SHARES_PER_CPU // 1000, MIN_SHARES), MAX_SHARES)


def quota_micros(milli_cpu: int, period_micros: int) -> int:
    """How much of each period may be used; 0 for no quota. The kernel takes no less than 1ms (S0-59)."""
    return max(milli_cpu * period_micros // 1000, _MIN_QUOTA_MICROS) if milli_cpu else 0


def agent_weight(cpu_shares: int) -> int:
    """`cpu.weight` as a kubelet writes it."""
    if cpu_shares >= MAX_SHARES:
        return MAX_WEIGHT
    return 1 + (cpu_shares - MIN_SHARES) * (MAX_WEIGHT - 1) // (MAX_SHARES - MIN_SHARES)


def runtime_weight(cpu_shares: int) -> int:
    """`cpu.weight` as runc 1.3.2 and crun 1.23 write it, so that 1024 shares are the kernel's default of 100."""
    if cpu_shares <= MIN_SHARES:
        return 1
    if cpu_shares >= MAX_SHARES:
        return MAX_WEIGHT
    exponent = math.log2(cpu_shares)
    return math.ceil(10 ** ((exponent * exponent + 125 * exponent) / 612 - 7 / 34))
