"""Which CPUs a container gets of those that are free: as few sockets, NUMA nodes and cores are begun as will do.

Whole NUMA nodes and sockets come first (the larger of the two before the smaller one), then whole cores, then single
CPUs, each time the fullest first, so that what is whole stays whole. `take_distributed` spreads over NUMA nodes.
Source: pkg/kubelet/cm/cpumanager/cpu_assignment.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations
from typing import Final, NamedTuple

from fairlead.node.cpus.topology import CpuIds, Level, Topology

#: What is looked at within what, where a socket is not larger than a NUMA node, and where it is.
_NUMA_FIRST: Final[Mapping[Level, Level]] = {"socket": "numa", "core": "socket", "uncore": "numa"}
_SOCKET_FIRST: Final[Mapping[Level, Level]] = {"numa": "socket", "core": "numa", "uncore": "numa"}


#: Finds in a message how many CPUs were asked for, and how many there were.
NOT_ENOUGH_CPUS: Final = re.compile(r"not enough cpus available to satisfy request: requested=(\d+), available=(\d+)")


class NotEnoughCpus(Exception):
    def __init__(self, requested: int, available: int) -> None:
        super().__init__(f"not enough cpus available to satisfy request: requested={requested}, available={available}")


def take_packed(
    topology: Topology, available: Set[int], count: int, *, spreads: bool = False, prefers_uncore: bool = False
) -> CpuIds:
    """So many of the available CPUs. `spreads`: one of each core before the second of any; `prefers_uncore`: behind
    one last-level cache, if that can be."""
    taking = _Taking(topology, available, count)
    for level in taking.largest_first:
        taking.take_whole(level)
    if prefers_uncore:
        taking.take_uncores()
    if not spreads:
        taking.take_whole("core")
    taking.take_single("socket" if spreads else "core")
    return frozenset(taking.taken)


def take_distributed(
    topology: Topology, available: Set[int], count: int, group: int, *, spreads: bool = False
) -> CpuIds:
    """The same number of each of as few NUMA nodes as will do, in groups of so many that stay together."""

    def packed(cpus: Set[int], wanted: int) -> CpuIds:
        return take_packed(topology, cpus, wanted, spreads=spreads)

    if count % group:
        return packed(available, count)
    taking = _Taking(topology, available, count)
    if not taking.missing:
        return frozenset()
    free = {numa: len(cpus) for numa, cpus in taking.free_by("numa").items()}
    nodes = taking.ordered("numa")
    for size in _sizes(topology, len(nodes), count, group):
        best = _best_division(nodes, size, free, count, group)
        if best is None:
            continue
        share = _share(count, size, group)
        for numa in best.nodes:
            taking.take(packed(taking.free_by("numa")[numa], share))
        while taking.missing:
            for numa in best.remainder:
                left = taking.free_by("numa").get(numa, set())
                if taking.missing and len(left) >= group:
                    taking.take(packed(left, group))
        return frozenset(taking.taken)
    return packed(available, count)


class _Taking:
    """What is free still, and what has been taken."""

    def __init__(self, topology: Topology, available: Set[int], count: int) -> None:
        if count > len(available):
            raise NotEnoughCpus(count, len(available))
        self._topology, self._free, self.missing = topology, set(available), count
        self.taken: set[int] = set()
        is_numa_first = len(topology.ids("socket")) >= len(topology.ids("numa"))
        self._above = _NUMA_FIRST if is_numa_first else _SOCKET_FIRST
        self.largest_first: tuple[Level, Level] = ("numa", "socket") if is_numa_first else ("socket", "numa")

    def free_by(self, level: Level) -> dict[int, set[int]]:
        return self._topology.within(level, self._free)

    def take(self, cpus: Iterable[int]) -> None:
        new = set(cpus)
        self.taken |= new
        self._free -= new
        self.missing -= len(new)

    def take_whole(self, level: Level) -> None:
        """Of whatever is free as a whole as much as is needed."""
        whole = self._topology.whole[level]
        if self.missing < min(map(len, whole.values()), default=0):
            return
        free = self.free_by(level)
        for id_ in self.ordered(level):
            if free[id_] == whole[id_] and len(whole[id_]) <= self.missing:
                self.take(whole[id_])

    def take_single(self, level: Level) -> None:
        free = self.free_by(level)
        each = [cpu for id_ in self.ordered(level) for cpu in sorted(free[id_])]
        self.take(each[: self.missing])

    def take_uncores(self) -> None:
        """Whole caches, then what is left of one cache, if it has enough for all that is missing."""
        ordered = self.ordered("uncore")
        if self.missing >= self._topology.cpus_per_uncore:
            self.take_whole("uncore")
        free, threads = self.free_by("uncore"), self._topology.threads_per_core
        for uncore in ordered:
            if self.missing:
                self._take_of_uncore(free.get(uncore, set()), threads)

    def _take_of_uncore(self, free: Set[int], threads: int) -> None:
        by_core = self._topology.within("core", free)
        cores = sorted(by_core)[: math.ceil(self.missing / threads)]
        cpus = sorted(cpu for core in cores for cpu in by_core[core])
        if self.missing % 2 and threads > 1 and len(cpus) > self.missing:
            cpus.pop()  # of the last core one is enough
        if len(cpus) == self.missing:
            self.take(cpus)

    def ordered(self, level: Level) -> Sequence[int]:
        """All of which something is free: first what has the least, within the order of what they are in."""
        free = self.free_by(level)

        def in_order(ids: Iterable[int]) -> list[int]:
            return sorted(ids, key=lambda id_: (len(free[id_]), id_))

        if (above := self._above.get(level)) is None:
            return in_order(free)
        cpus = self.free_by(above)
        inner = (in_order(self._topology.within(level, cpus[id_])) for id_ in self.ordered(above))
        return list(dict.fromkeys(id_ for ids in inner for id_ in ids))


class _Division(NamedTuple):
    """NUMA nodes of which each gives its share, and those of them that give a group more."""

    nodes: tuple[int, ...]
    remainder: tuple[int, ...]


def _share(count: int, nodes: int, group: int) -> int:
    return count // nodes // group * group


def _sizes(topology: Topology, available_nodes: int, count: int, group: int) -> Iterable[int]:
    """How many NUMA nodes it could take."""
    groups, needed = math.ceil(len(topology.locations) / group), math.ceil(count / group)
    per_node = math.ceil(groups / len(topology.ids("numa")))
    return range(math.ceil(needed / per_node), min(needed, available_nodes) + 1)


def _best_division(
    nodes: Sequence[int], size: int, free: Mapping[int, int], count: int, group: int
) -> _Division | None:
    """The one that leaves all NUMA nodes of the machine as even as can be; the first of equals."""
    best, best_balance, share = None, math.inf, _share(count, size, group)
    for chosen in combinations(nodes, size):
        if best_balance == 0:
            break
        if sum(free[numa] // group * group for numa in chosen) < count or any(free[numa] < share for numa in chosen):
            continue
        left = {numa: free[numa] - share * (numa in chosen) for numa in nodes}
        for remainder, balance in _remainders(chosen, left, count - share * size, group):
            if balance < best_balance:
                best, best_balance = _Division(chosen, remainder), balance
    return best


def _remainders(
    chosen: Sequence[int], left: Mapping[int, int], missing: int, group: int
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Which of them could give what is missing still, and how uneven that leaves the machine."""
    if not missing:
        yield (), _deviation(left.values())
        return
    able = [numa for numa in chosen if left[numa] >= group]
    for subset in combinations(able, missing // group):
        yield subset, _deviation(count - group * (numa in subset) for numa, count in left.items())


def _deviation(values: Iterable[int]) -> float:
    """As a kubelet rounds it: what differs by less is equal."""
    every = list(values)
    mean = round(sum(every) / len(every), 3)
    return round(math.sqrt(sum((value - mean) ** 2 for value in every) / len(every)), 3)
