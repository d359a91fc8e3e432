"""Where the CPUs of a machine are: in which core, socket and NUMA node, and which of them share a last-level cache.

Source: pkg/kubelet/cm/cpumanager/topology.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias

#: As many as Linux takes: what somebody says of a simulated machine may be any number.
_MOST_CPUS: Final = 8192
#: Of what a machine has several.
_MOST: Final = 1024
#: As many as a kubelet aligns; to divide CPUs among them evenly, it tries every set of them.
_MOST_NUMA: Final = 8

CpuIds: TypeAlias = frozenset[int]
Level: TypeAlias = Literal["core", "uncore", "socket", "numa"]


class Location(NamedTuple):
    """Of one CPU, by the ids of what it belongs to; those of cores are unique on the machine."""

    core: int
    socket: int = 0
    numa: int = 0
    #: CPUs with the same last-level cache.
    uncore: int = 0


#: As they stand in a location.
_LEVELS: Final[tuple[Level, ...]] = ("core", "socket", "numa", "uncore")


@dataclass(frozen=True)
class Topology:
    locations: Mapping[int, Location]

    @cached_property
    def whole(self) -> Mapping[Level, Mapping[int, CpuIds]]:
        """All CPUs by what they belong to: asked for each container, of thousands of CPUs."""
        return {
            level: {id_: frozenset(cpus) for id_, cpus in self.within(level, self.locations).items()}
            for level in _LEVELS
        }

    @cached_property
    def cpus(self) -> CpuIds:
        return frozenset(self.locations)

    @property
    def threads_per_core(self) -> int:
        return self._share("core")

    @property
    def cpus_per_uncore(self) -> int:
        return self._share("uncore")

    def ids(self, level: Level) -> CpuIds:
        return frozenset(self.whole[level])

    def within(self, level: Level, cpus: Iterable[int]) -> dict[int, set[int]]:
        """Those CPUs by what they belong to."""
        place, found = _LEVELS.index(level), dict[int, set[int]]()
        for cpu in cpus:
            found.setdefault(self.locations[cpu][place], set()).add(cpu)
        return found

    def all_of(self, level: Level, ids: Iterable[int]) -> CpuIds:
        """All CPUs of these."""
        whole = self.whole[level]
        return frozenset[int]().union(*(whole.get(id_, ()) for id_ in ids))

    def _share(self, level: Level) -> int:
        count = len(self.whole[level])
        return len(self.locations) // count if count else 0


class Shape(NamedTuple):
    """A machine whose parts are all alike, and what it has of each."""

    sockets: int = 1
    numa: int = 1
    #: Last-level caches.
    caches: int = 1
    #: Of each core.
    threads: int = 1

    def topology(self, cpus: int) -> Topology:
        """As a kernel numbers them: first a thread of each core, core after core of a socket. ValueError for more than
        any machine has."""
        if cpus > _MOST_CPUS:
            raise ValueError(f"{cpus} CPUs are more than any machine has ({_MOST_CPUS} at most)")
        cores = math.ceil(cpus / self.threads)

        def location(core: int) -> Location:
            return Location(core, *(core * count // cores for count in (self.sockets, self.numa, self.caches)))

        return Topology({cpu: location(cpu % cores) for cpu in range(cpus)})


def parse_shape(text: str) -> Shape:
    """`sockets=2,threads=2`: what is not said is there once. ValueError for what no machine has."""
    counts = {}
    for name, _, count in (part.partition("=") for part in text.split(",")):
        if name not in Shape._fields:
            raise ValueError(f"a machine has no {name!r}: say {', '.join(Shape._fields)}")
        most = _MOST_NUMA if name == "numa" else _MOST
        if not count.isdecimal() or not 0 < int(count) <= most:
            raise ValueError(f"{name}={count} must be 1 to {most}")
        counts[name] = int(count)
    return Shape(**counts)
