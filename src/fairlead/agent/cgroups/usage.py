"""What a cgroup uses, as the kubelet shows it: the working set is what the kernel cannot take back at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairlead.agent.cgroups.machine import Cgroups


class CgroupUsage(NamedTuple):
    """Bytes, and nanoseconds of cpu time since the cgroup is there."""

    cpu_nanoseconds: int = 0
    memory_usage_bytes: int = 0
    working_set_bytes: int = 0
    rss_bytes: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    processes: int = 0


def usage_of(cgroups: Cgroups, path: str) -> CgroupUsage | None:
    """None if the cgroup is gone."""
    usage = _usage_v2 if cgroups.hierarchies.version == 2 else _usage_v1
    return usage(cgroups, path)


def _usage_v1(cgroups: Cgroups, path: str) -> CgroupUsage | None:
    cpu, memory = cgroups.read(path, "cpuacct.usage"), cgroups.read(path, "memory.usage_in_bytes")
    stat = _table(cgroups.read(path, "memory.stat"))
    if memory is None:
        return None
    return CgroupUsage(
        cpu_nanoseconds=int(cpu or 0),
        memory_usage_bytes=int(memory),
        working_set_bytes=max(int(memory) - stat.get("total_inactive_file", 0), 0),
        rss_bytes=stat.get("total_rss", 0),
        page_faults=stat.get("total_pgfault", 0),
        major_page_faults=stat.get("total_pgmajfault", 0),
        processes=int(cgroups.read(path, "pids.current") or 0),
    )


def _usage_v2(cgroups: Cgroups, path: str) -> CgroupUsage | None:
    cpu, memory = _table(cgroups.read(path, "cpu.stat")), cgroups.read(path, "memory.current")
    stat = _table(cgroups.read(path, "memory.stat"))
    if memory is None:
        return None
    return CgroupUsage(
        cpu_nanoseconds=cpu.get("usage_usec", 0) * 1000,
        memory_usage_bytes=int(memory),
        working_set_bytes=max(int(memory) - stat.get("inactive_file", 0), 0),
        rss_bytes=stat.get("anon", 0),
        page_faults=stat.get("pgfault", 0),
        major_page_faults=stat.get("pgmajfault", 0),
        processes=int(cgroups.read(path, "pids.current") or 0),
    )


def _table(text: str | None) -> Mapping[str, int]:
    """Lines of a name and a number."""
    rows = (line.split() for line in (text or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}
