"""Pods to whom room on a node is promised: the preemptors that wait for their victims to end.

What is promised counts as taken for everybody who is not more important (S3-24). Per priority, what that adds up to
is kept as columns, so that a decision need not look at the promises one by one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairlead.api.scheduling import Pod
from fairlead.scheduler.columns import Amounts, Ints, Rows
from fairlead.scheduler.company import Company, Task
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Placed, Snapshot

#: For how many priorities sums are kept.
MOST_PRIORITIES: Final = 16


@dataclass(frozen=True, slots=True)
class Nominated:
    """A promise."""

    pod: Pod
    shape: Shape
    company: Company
    node: str


class Crowding:
    """What pods of at least some priority are promised, node by node."""

    def __init__(self, size: int) -> None:
        self.requested = Amounts(size)
        self.pod_count: Ints = np.zeros(size, dtype=np.int64)

    def count(self, row: int, shape: Shape, sign: int) -> None:
        self.requested.add(row, shape.requests, sign)
        self.pod_count[row] += sign


class Nominations:
    """Every promise, by pod and by node."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._by_uid: dict[str, Nominated] = {}
        self._by_node: dict[str, dict[str, Nominated]] = {}
        self._crowding: OrderedDict[int, Crowding] = OrderedDict()
        self._nodes_seen = snapshot.node_changes.position

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> Nominated | None:
        return self._by_uid.get(uid)

    def on(self, node: str) -> Iterable[Nominated]:
        """The promises on one node."""
        return self._by_node.get(node, {}).values()

    def set(self, pod: Pod, shape: Shape, company: Company, node: str) -> None:
        """Promise the pod room on that node; `""` takes the promise back."""
        uid = pod.metadata.uid
        known = self._by_uid.pop(uid, None)
        if known is not None:
            del self._by_node[known.node][uid]
            self._count(known, -1)
        if node:
            new = Nominated(pod, shape, company, node)
            self._by_uid[uid] = new
            self._by_node.setdefault(node, {})[uid] = new
            self._count(new, 1)

    def drop(self, uid: str) -> bool:
        """Forget the pod: it is bound, or gone. False if nothing was promised to it."""
        known = self._by_uid.get(uid)
        if known is None:
            return False
        self.set(known.pod, known.shape, known.company, "")
        return True

    def against(self, task: Task, node: str) -> list[Placed]:
        """The promises on that node that this pod must respect, as if the pods were there."""
        row = self._snapshot.row_of(node)
        if row is None:
            return []
        return [
            Placed(one.pod, row, one.shape, one.company)
            for one in self.on(node)
            if one.pod.priority >= task.priority and one.pod.metadata.uid != task.uid
        ]

    def crowded(self, task: Task) -> tuple[Snapshot, Rows]:
        """The cluster as if all pods whose promises this pod must respect were there, and the rows where that is so."""
        crowding = self._crowding_for(task.priority)
        own = self._by_uid.get(task.uid)
        row = self._snapshot.row_of(own.node) if own is not None and own.pod.priority >= task.priority else None
        if own is not None and row is not None:
            crowding.count(row, own.shape, -1)
        rows = np.flatnonzero(crowding.pod_count)
        view = self._snapshot.crowded(crowding.requested, crowding.pod_count) if len(rows) else self._snapshot
        if own is not None and row is not None:
            crowding.count(row, own.shape, 1)
        return view, rows

    def _crowding_for(self, priority: int) -> Crowding:
        """The sums for that priority. A node that comes or goes may change rows: then they are made anew."""
        position = self._snapshot.node_changes.position
        if position != self._nodes_seen:
            self._crowding.clear()
            self._nodes_seen = position
        found = self._crowding.get(priority)
        if found is None or len(found.pod_count) != self._snapshot.size:
            found = self._crowding[priority] = Crowding(self._snapshot.size)
            for one in self._by_uid.values():
                row = self._snapshot.row_of(one.node)
                if row is not None and one.pod.priority >= priority:
                    found.count(row, one.shape, 1)
            if len(self._crowding) > MOST_PRIORITIES:
                self._crowding.popitem(last=False)
        return found

    def _count(self, one: Nominated, sign: int) -> None:
        row = self._snapshot.row_of(one.node)
        if row is None:
            return
        self._snapshot.pod_changes.mark(row)  # whatever was worked out for the node is out of date
        if self._snapshot.node_changes.position != self._nodes_seen:
            return  # the sums are void
        for priority, crowding in self._crowding.items():
            if one.pod.priority >= priority and row < len(crowding.pod_count):
                crowding.count(row, one.shape, sign)
