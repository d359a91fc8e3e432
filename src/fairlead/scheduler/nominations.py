"""Nominated pods: the preemptors that wait on a node for their victims to end.

Their room counts as taken for everybody who is not more important (S3-24). Per priority, what that adds up to is kept
as columns, so that a decision need not look at the nominated pods one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np

from fairlead.api.scheduling import Pod
from fairlead.caches import LruCache
from fairlead.scheduler.columns import Amounts, Ints, Rows
from fairlead.scheduler.pod_relations import PodRelations
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Placed, Snapshot

#: For how many priorities sums are kept.
MOST_PRIORITIES: Final = 16


class Nominated(msgspec.Struct, frozen=True):
    """A pod and the node that it is nominated to."""

    pod: Pod
    requirements: PodRequirements
    relations: PodRelations
    node: str


class NominatedAmounts:
    """What nominated pods of at least some priority request, node by node."""

    def __init__(self, size: int) -> None:
        self.requested = Amounts(size)
        self.pod_count: Ints = np.zeros(size, dtype=np.int64)

    def count(self, row: int, requirements: PodRequirements, sign: int) -> None:
        self.requested.add(row, requirements.requests, sign)
        self.pod_count[row] += sign


class Nominations:
    """All nominated pods, by uid and by node."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._by_uid: dict[str, Nominated] = {}
        self._by_node: dict[str, dict[str, Nominated]] = {}
        self._amounts: LruCache[int, NominatedAmounts] = LruCache(MOST_PRIORITIES)
        self._nodes_seen = snapshot.node_changes.position

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, uid: str) -> Nominated | None:
        return self._by_uid.get(uid)

    def on(self, node: str) -> Iterable[Nominated]:
        """The pods nominated to one node."""
        return self._by_node.get(node, {}).values()

    def set(self, pod: Pod, requirements: PodRequirements, relations: PodRelations, node: str) -> None:
        """Nominate the pod to that node; `""` takes the nomination back."""
        uid = pod.metadata.uid
        known = self._by_uid.pop(uid, None)
        if known is not None:
            del self._by_node[known.node][uid]
            self._count(known, -1)
        if node:
            new = Nominated(pod, requirements, relations, node)
            self._by_uid[uid] = new
            self._by_node.setdefault(node, {})[uid] = new
            self._count(new, 1)

    def drop(self, uid: str) -> bool:
        """Forget the pod: it is bound, or gone. False if it was not nominated."""
        known = self._by_uid.get(uid)
        if known is None:
            return False
        self.set(known.pod, known.requirements, known.relations, "")
        return True

    def against(self, request: SchedulingRequest, node: str) -> list[Placed]:
        """The pods nominated to that node that this pod must leave room for, as if they were there."""
        row = self._snapshot.row_of(node)
        if row is None:
            return []
        return [
            Placed(nominated.pod, row, nominated.requirements, nominated.relations)
            for nominated in self.on(node)
            if nominated.pod.priority >= request.priority and nominated.pod.metadata.uid != request.uid
        ]

    def with_nominated(self, request: SchedulingRequest) -> tuple[Snapshot, Rows]:
        """The cluster as if all pods that this pod must leave room for were there, and the rows where that is so."""
        amounts = self._amounts_for(request.priority)
        own = self._by_uid.get(request.uid)
        row = self._snapshot.row_of(own.node) if own is not None and own.pod.priority >= request.priority else None
        if own is not None and row is not None:
            amounts.count(row, own.requirements, -1)
        rows = np.flatnonzero(amounts.pod_count)
        view = self._snapshot.with_nominated(amounts.requested, amounts.pod_count) if len(rows) else self._snapshot
        if own is not None and row is not None:
            amounts.count(row, own.requirements, 1)
        return view, rows

    def _amounts_for(self, priority: int) -> NominatedAmounts:
        """The sums for that priority. A node that comes or goes may change rows: then they are made anew."""
        position = self._snapshot.node_changes.position
        if position != self._nodes_seen:
            self._amounts.clear()
            self._nodes_seen = position
        found = self._amounts.get(priority)
        if found is None or len(found.pod_count) != self._snapshot.size:
            found = NominatedAmounts(self._snapshot.size)
            for nominated in self._by_uid.values():
                row = self._snapshot.row_of(nominated.node)
                if row is not None and nominated.pod.priority >= priority:
                    found.count(row, nominated.requirements, 1)
            self._amounts.put(priority, found)
        return found

    def _count(self, nominated: Nominated, sign: int) -> None:
        row = self._snapshot.row_of(nominated.node)
        if row is None:
            return
        self._snapshot.pod_changes.mark(row)  # whatever was worked out for the node is out of date
        if self._snapshot.node_changes.position != self._nodes_seen:
            return  # the sums are void
        for priority, amounts in self._amounts.items():
            if nominated.pod.priority >= priority and row < len(amounts.pod_count):
                amounts.count(row, nominated.requirements, sign)
