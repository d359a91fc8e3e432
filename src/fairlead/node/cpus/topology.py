"""Where the CPUs of a machine are: in which core, socket and NUMA node, and which of them share a last-level cache.

Source: pkg/kubelet/cm/cpumanager/topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import msgspec

CpuIds: TypeAlias = frozenset[int]
Level: TypeAlias = Literal["core", "uncore", "socket", "numa"]


class Location(NamedTuple):
    """Of one CPU, by the ids of what it belongs to; those of cores are unique on the machine."""

    core: int
    socket: int = 0
    numa: int = 0
    #: CPUs with the same last-level cache.
    uncore: int = 0


class Topology(msgspec.Struct, frozen=True):
    locations: Mapping[int, Location]

    @property
    def cpus(self) -> CpuIds:
        return frozenset(self.locations)

    @property
    def threads_per_core(self) -> int:
        return self._share("core")

    @property
    def cpus_per_uncore(self) -> int:
        return self._share("uncore")

    def ids(self, level: Level) -> CpuIds:
        return frozenset(self.within(level, self.locations))

    def within(self, level: Level, cpus: Iterable[int]) -> dict[int, set[int]]:
        """Those CPUs by what they belong to."""
        found: dict[int, set[int]] = {}
        for cpu in cpus:
            found.setdefault(self.id_of(level, cpu), set()).add(cpu)
        return found

    def id_of(self, level: Level, cpu: int) -> int:
        found: int = getattr(self.locations[cpu], level)
        return found

    def all_of(self, level: Level, ids: Iterable[int]) -> CpuIds:
        """All CPUs of these."""
        wanted = set(ids)
        return frozenset(cpu for cpu in self.locations if self.id_of(level, cpu) in wanted)

    def _share(self, level: Level) -> int:
        count = len(self.ids(level))
        return len(self.locations) // count if count else 0


def flat(cpus: int) -> Topology:
    """Of a machine of which nothing but the number of its CPUs is known: each is a core, all in one socket."""
    return Topology({cpu: Location(core=cpu) for cpu in range(cpus)})
