"""The files that the values of a cgroup come to, by version of cgroups.

A file that is absent is not written. On version 2 pids.max is never 0: systemd refuses it, and 1 works alike.
Source: github.com/opencontainers/cgroups, fs2 and fs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead.node.cgroups.cpu import DEFAULT_PERIOD_MICROS
from fairlead.node.cgroups.values import UNLIMITED, CgroupValues

_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")


def files(values: CgroupValues, cgroup_version: int = 2) -> Mapping[str, str]:
    return _files_v2(values) if cgroup_version == 2 else _files_v1(values)


def huge_page_size(size: int) -> str:
    """As file names have it: 2MB, 1GB."""
    steps = 0
    while size % 1024 == 0 and size and steps < len(_UNITS) - 1:
        size //= 1024
        steps += 1
    return f"{size}{_UNITS[steps]}"


def _files_v2(values: CgroupValues) -> Mapping[str, str]:
    found: dict[str, str] = {}
    if values.cpu_weight is not None:
        found["cpu.weight"] = str(values.cpu_weight)
    if values.cpu_quota or values.cpu_period:
        quota = str(values.cpu_quota) if (values.cpu_quota or 0) > 0 else "max"
        found["cpu.max"] = f"{quota} {values.cpu_period or DEFAULT_PERIOD_MICROS}"
    if values.memory_limit:
        found["memory.max"] = _or_max(values.memory_limit)
    if values.pids_limit is not None:
        found["pids.max"] = "max" if values.pids_limit < 0 else str(max(values.pids_limit, 1))
    for size, limit in values.huge_page_limits.items():
        found[f"hugetlb.{huge_page_size(size)}.max"] = str(limit)
    found.update(values.unified)
    return found


def _files_v1(values: CgroupValues) -> Mapping[str, str]:
    found: dict[str, str] = {}
    if values.cpu_shares is not None:
        found["cpu.shares"] = str(values.cpu_shares)
    if values.cpu_period:
        found["cpu.cfs_period_us"] = str(values.cpu_period)
    if values.cpu_quota:
        found["cpu.cfs_quota_us"] = str(values.cpu_quota)
    if values.memory_limit:
        found["memory.limit_in_bytes"] = str(values.memory_limit)
    if values.pids_limit is not None:
        found["pids.max"] = "max" if values.pids_limit < 0 else str(max(values.pids_limit, 1))
    for size, limit in values.huge_page_limits.items():
        found[f"hugetlb.{huge_page_size(size)}.limit_in_bytes"] = str(limit)
    return found


def _or_max(limit: int) -> str:
    return "max" if limit == UNLIMITED else str(limit)
