"""The pods of a simulated machine in the order in which they would be evicted, kept as pods come and go.

A machine that is short looks every ten seconds, and most of its pods use what they used before: those stay sorted, and
only the others are measured again. A thousand machines may be short at once.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import nsmallest
from typing import Final, TypeAlias

from fairlead.node.eviction.ranking import Overuse, Place, place
from fairlead.node.eviction.signals import RESOURCE, FileSystems, Signal
from fairlead.node.evidence import RankedPod, ranked_pod
from fairlead.sim.machine.load import Read, read_at
from fairlead.sim.machine.machine_pod import MachinePod

#: Of what never changes there is nothing to read.
_READ_NOTHING: Final[Read] = read_at(0.0)
#: Equals go in the order in which they came.
_Entry: TypeAlias = tuple[Place, int, MachinePod]


class EvictionOrder:
    """When one signal is low. Critical pods are not in it, nor are those of which nothing runs."""

    def __init__(self, signal: Signal, filesystems: FileSystems, pods: Iterable[MachinePod]) -> None:
        self._signal, self._resource, self._filesystems = signal, RESOURCE[signal], filesystems
        self._numbers: dict[str, int] = {}  # by uid, as all of these
        self._last_number = 0
        self._steady: dict[str, _Entry] = {}
        self._sorted: list[_Entry] = []  # of those that are steady
        self._varying: dict[str, MachinePod] = {}
        self._rows: dict[str, RankedPod] = {}  # of some that are steady
        for pod in pods:
            self._put(pod)
        self._sorted = sorted(self._steady.values())

    def __len__(self) -> int:
        return len(self._sorted) + len(self._varying)

    def put(self, pod: MachinePod) -> None:
        """A pod has come, or runs something else now."""
        self._take_out(pod.uid)
        self._put(pod)
        if (entry := self._steady.get(pod.uid)) is not None:
            insort(self._sorted, entry)

    def _put(self, pod: MachinePod) -> None:
        if not pod.started or pod.candidate.is_critical:
            return
        if pod.uid not in self._numbers:
            self._last_number += 1
            self._numbers[pod.uid] = self._last_number
        if not pod.is_steady:
            self._varying[pod.uid] = pod
            return
        self._steady[pod.uid] = self._entry(pod, _READ_NOTHING, 0)

    def remove(self, uid: str) -> None:
        self._take_out(uid)
        self._numbers.pop(uid, None)

    def first(
        self, most: int, read: Read, memory_room: int, overuse: Overuse | None = None
    ) -> list[tuple[MachinePod, RankedPod]]:
        """The first so many, with what counted of each; `overuse`: pods of overused namespaces go before all others."""
        entries = self._sorted[:most] if overuse is None else list(self._sorted)
        if self._varying or overuse is not None:
            entries += [self._entry(pod, read, memory_room) for pod in self._varying.values()]
            if overuse is not None:
                entries = [((-overuse(pod.candidate.namespace), *own), number, pod) for own, number, pod in entries]
            entries = nsmallest(most, entries)
        rows = self._rows  # those at the head of the order are told of in every pass
        return [(pod, rows.get(pod.uid) or self._row(pod, read, memory_room, overuse)) for _, _, pod in entries]

    def _row(self, pod: MachinePod, read: Read, memory_room: int, overuse: Overuse | None) -> RankedPod:
        usage = pod.ranked_by(self._resource, read, memory_room)
        row = ranked_pod(pod.candidate, usage, self._signal, self._filesystems, overuse)
        if pod.is_steady and overuse is None:
            self._rows[pod.uid] = row
        return row

    def _take_out(self, uid: str) -> None:
        self._varying.pop(uid, None)
        self._rows.pop(uid, None)
        if (entry := self._steady.pop(uid, None)) is not None:
            del self._sorted[bisect_left(self._sorted, entry)]

    def _entry(self, pod: MachinePod, read: Read, memory_room: int) -> _Entry:
        usage = pod.ranked_by(self._resource, read, memory_room)
        return place(pod.candidate, usage, self._signal, self._filesystems), self._numbers[pod.uid], pod
