"""How the recorded tables write the values of a cgroup."""

from __future__ import annotations

from fairlead.node.cgroups.files import files
from fairlead.node.cgroups.values import CgroupValues
from tests.node.golden import Row


def shown(values: CgroupValues) -> Row:
    """As the tables have it: what is not written is absent."""
    found: Row = {
        "cpuShares": values.cpu_shares,
        "cpuWeight": values.cpu_weight,
        "cpuQuota": values.cpu_quota,
        "cpuPeriod": values.cpu_period,
        "memoryLimit": values.memory_limit,
        "pidsLimit": values.pids_limit,
        "hugePageLimits": {str(size): limit for size, limit in values.huge_page_limits.items()} or None,
        "unified": dict(values.unified) or None,
        "filesV2": files(values),
    }
    return {name: value for name, value in found.items() if value is not None}
