"""From the kernel's counters to how much memory a node has left, as eviction and the metrics see it.

Cache that was not used for a while (inactive file) counts as free; cache in use does not (S3-89).
Sources: github.com/google/cadvisor container/libcontainer, pkg/kubelet/stats/helper.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

#: Above it a limit is none: the kernel rounds the largest number in its own way.
_GREATEST_LIMIT: Final = 2**62
#: Where memory.stat has inactive file cache, and what is no cache, by version of cgroups.
_COUNTERS: Final[Mapping[int, tuple[str, str]]] = {
    1: ("total_inactive_file", "total_rss"),
    2: ("inactive_file", "anon"),
}


class MemoryUsage(msgspec.Struct, frozen=True):
    """In bytes."""

    usage: int
    working_set: int
    rss: int
    #: None if there is no limit. Unsigned, as in Go: a working set above the limit leaves a huge number.
    available: int | None


def memory_usage(usage: int, stat: Mapping[str, int], limit: int | None = None, cgroup_version: int = 2) -> MemoryUsage:
    """Of one cgroup; the limit of the root is the memory of the machine."""
    inactive_file, anonymous = _COUNTERS[cgroup_version]
    working_set = max(usage - stat.get(inactive_file, 0), 0)
    is_limited = limit is not None and limit <= _GREATEST_LIMIT
    available = (limit - working_set) % 2**64 if limit is not None and is_limited else None
    return MemoryUsage(usage, working_set, stat.get(anonymous, 0), available)
