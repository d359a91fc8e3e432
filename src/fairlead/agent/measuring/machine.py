"""What the machine uses as a whole.

Or a cgroup that stands for it, so that a test or a prediction leaves the rest of the machine alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.usage import CgroupUsage, memory_limit, table, usage_of
from fairlead.agent.machine import meminfo
from fairlead.node.configuration.cpu_sets import parse_cpu_set
from fairlead.node.stats.measurements import ProcessMeasurements

#: The whole machine.
ROOT: Final = "/"
_LOADAVG: Final = Path("/proc/loadavg")
_MOST_THREADS: Final = Path("/proc/sys/kernel/threads-max")
_MOST_PIDS: Final = Path("/proc/sys/kernel/pid_max")


class MachineUsage(NamedTuple):
    usage: CgroupUsage
    processes: ProcessMeasurements


def memory_bytes(cgroups: Cgroups, cgroup: str) -> int:
    """What a node within that cgroup has."""
    total = meminfo()["MemTotal"]
    limit = memory_limit(cgroups, cgroup) if cgroup != ROOT else None
    return total if limit is None else min(limit, total)


def usable_cpus(cgroups: Cgroups, cgroup: str) -> frozenset[int]:
    """Those on which a node within that cgroup may run."""
    version = cgroups.hierarchies.version
    file = "cpuset.cpus.effective" if version == 2 else "cpuset.effective_cpus"
    text = (cgroups.read(cgroup, file) or "").strip() if cgroup != ROOT else ""
    own = frozenset(os.sched_getaffinity(0))
    return parse_cpu_set(text).cpus & own if text else own


def machine_usage(cgroups: Cgroups, cgroup: str) -> MachineUsage:
    usage = usage_of(cgroups, cgroup)
    if usage is None:
        usage = _of_root_v2(cgroups)
    most = min(int(file.read_text()) for file in (_MOST_THREADS, _MOST_PIDS))
    if cgroup == ROOT:
        current = int(_LOADAVG.read_text().split()[3].partition("/")[2])
        return MachineUsage(usage, ProcessMeasurements(current, most))
    own = (cgroups.read(cgroup, "pids.max") or "max").strip()
    return MachineUsage(usage, ProcessMeasurements(usage.processes, most if own == "max" else min(int(own), most)))


def started_at() -> float:
    """When the machine was started: its counters began then."""
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    return next(float(words[1]) for words in lines if words[0] == "btime")


def _of_root_v2(cgroups: Cgroups) -> CgroupUsage:
    """The root of version 2 has only some of the files; the rest is the machine's own account."""
    memory, stat = meminfo(), table(cgroups.read(ROOT, "memory.stat"))
    used = memory["MemTotal"] - memory["MemFree"]
    return CgroupUsage(
        cpu_nanoseconds=table(cgroups.read(ROOT, "cpu.stat")).get("usage_usec", 0) * 1000,
        memory_usage_bytes=used,
        working_set_bytes=max(used - stat.get("inactive_file", 0), 0),
        rss_bytes=stat.get("anon", 0),
        cache_bytes=stat.get("file", 0),
        page_faults=stat.get("pgfault", 0),
        major_page_faults=stat.get("pgmajfault", 0),
    )
