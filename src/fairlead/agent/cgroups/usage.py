"""What a cgroup uses, as the kubelet shows it: the working set is what the kernel cannot take back at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fairlead.agent.cgroups.machine import Cgroups

#: v1 has no word for a cgroup without a limit, only a number that no machine has.
_NO_LIMIT: Final = 1 << 60


class CgroupUsage(NamedTuple):
    """Bytes, and nanoseconds of cpu time since the cgroup is there."""

    cpu_nanoseconds: int = 0
    memory_usage_bytes: int = 0
    working_set_bytes: int = 0
    rss_bytes: int = 0
    cache_bytes: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    processes: int = 0
    oom_kills: int = 0


class Throttling(NamedTuple):
    """What became of a quota: its periods, and those in which it was used up."""

    periods: int
    throttled_periods: int
    throttled_nanoseconds: int


def usage_of(cgroups: Cgroups, path: str) -> CgroupUsage | None:
    """None if the cgroup is gone, or is the root of version 2, which has no figures of its own."""
    usage = _usage_v2 if cgroups.hierarchies.version == 2 else _usage_v1
    return usage(cgroups, path)


def throttling_of(cgroups: Cgroups, path: str) -> Throttling:
    found = table(cgroups.read(path, "cpu.stat"))
    nanoseconds = found.get("throttled_time", found.get("throttled_usec", 0) * 1000)
    return Throttling(found.get("nr_periods", 0), found.get("nr_throttled", 0), nanoseconds)


def oom_kills(cgroups: Cgroups, path: str) -> int:
    """How many of its processes the kernel has killed for want of memory; 0 if the cgroup is gone."""
    file = "memory.events" if cgroups.hierarchies.version == 2 else "memory.oom_control"
    return table(cgroups.read(path, file)).get("oom_kill", 0)


def memory_limit(cgroups: Cgroups, path: str) -> int | None:
    """Its own; None where there is none."""
    file = "memory.max" if cgroups.hierarchies.version == 2 else "memory.limit_in_bytes"
    text = (cgroups.read(path, file) or "max").strip()
    return None if text == "max" or int(text) >= _NO_LIMIT else int(text)


def table(text: str | None) -> Mapping[str, int]:
    """Lines of a name and a number."""
    rows = (line.split() for line in (text or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}


def _usage_v1(cgroups: Cgroups, path: str) -> CgroupUsage | None:
    cpu, memory = cgroups.read(path, "cpuacct.usage"), cgroups.read(path, "memory.usage_in_bytes")
    stat = table(cgroups.read(path, "memory.stat"))
    if memory is None:
        return None
    return CgroupUsage(
        cpu_nanoseconds=int(cpu or 0),
        memory_usage_bytes=int(memory),
        working_set_bytes=max(int(memory) - stat.get("total_inactive_file", 0), 0),
        rss_bytes=stat.get("total_rss", 0),
        cache_bytes=stat.get("total_cache", 0),
        page_faults=stat.get("total_pgfault", 0),
        major_page_faults=stat.get("total_pgmajfault", 0),
        processes=int(cgroups.read(path, "pids.current") or 0),
        oom_kills=oom_kills(cgroups, path),
    )


def _usage_v2(cgroups: Cgroups, path: str) -> CgroupUsage | None:
    cpu, memory = table(cgroups.read(path, "cpu.stat")), cgroups.read(path, "memory.current")
    stat = table(cgroups.read(path, "memory.stat"))
    if memory is None:
        return None
    return CgroupUsage(
        cpu_nanoseconds=cpu.get("usage_usec", 0) * 1000,
        memory_usage_bytes=int(memory),
        working_set_bytes=max(int(memory) - stat.get("inactive_file", 0), 0),
        rss_bytes=stat.get("anon", 0),
        cache_bytes=stat.get("file", 0),
        page_faults=stat.get("pgfault", 0),
        major_page_faults=stat.get("pgmajfault", 0),
        processes=int(cgroups.read(path, "pids.current") or 0),
        oom_kills=oom_kills(cgroups, path),
    )
