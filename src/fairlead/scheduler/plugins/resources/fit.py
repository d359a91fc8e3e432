"""What a pod requests must fit into what is left of a node, and the emptier node is the better (NodeResourcesFit).

Only requests count, never usage or limits (S0-50 to S0-53).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from fairlead.api.scheduling import Node
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.framework import MAX_NODE_SCORE, Change, Event, Plugin, Reads, Refusals
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Snapshot, allocatable_of, allowed_pods_of

TOO_MANY_PODS = "Too many pods"


class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"
    reads = Reads.NODE | Reads.PODS
    events = (
        Event.NODE_ADDED | Event.NODE_ALLOCATABLE | Event.POD_REMOVED | Event.POD_SCALED_DOWN | Event.OWN_SCALED_DOWN
    )
    #: The resources that score, each with its weight.
    scored = (("cpu", 1), ("memory", 1))

    def filters(self, shape: Shape) -> bool:
        return True

    def filter(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Mask:
        mask: Mask = snapshot.pod_count[rows] < snapshot.allowed_pods[rows]
        for name, amount in shape.requests.items():
            mask &= snapshot.allocatable[name][rows] - snapshot.requested[name][rows] >= amount
        return mask

    def refusals(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Refusals:
        """Every lacking resource is told; one that exceeds the whole node cannot be helped (S0-70)."""
        full = snapshot.pod_count[rows] >= snapshot.allowed_pods[rows]
        refusals = Refusals(Counter({TOO_MANY_PODS: int(full.sum())}), np.zeros(len(rows), dtype=np.bool_))
        for name, amount in shape.requests.items():
            allocatable = snapshot.allocatable[name][rows]
            refusals.reasons[f"Insufficient {name}"] += int(
                (allocatable - snapshot.requested[name][rows] < amount).sum()
            )
            refusals.unresolvable |= allocatable < amount
        return refusals

    def scores(self, shape: Shape) -> bool:
        return True

    def score(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Ints:
        """LeastAllocated: the mean over resources of the share that would be left, each rounded down."""
        total = np.zeros(len(rows), dtype=np.int64)
        weights = np.zeros(len(rows), dtype=np.int64)
        for name, weight in self.scored:
            allocatable = snapshot.allocatable[name][rows]
            left = allocatable - snapshot.nonzero_requested[name][rows] - shape.score_requests.get(name, 0)
            total += weight * (np.maximum(left, 0) * MAX_NODE_SCORE // np.maximum(allocatable, 1))
            weights += weight * (allocatable > 0)
        return total // np.maximum(weights, 1)

    def helps(self, change: Change, shape: Shape) -> bool:
        if change.new_node is not None:
            return _fits_empty(shape, change.new_node) and (
                change.old_node is None or _has_grown(shape, change.old_node, change.new_node)
            )
        if change.old_shape is not None and change.new_shape is not None and change.events & Event.POD_SCALED_DOWN:
            old, new = change.old_shape.requests, change.new_shape.requests
            return any(old.get(name, 0) > new.get(name, 0) for name in shape.requests)
        return True


def _fits_empty(shape: Shape, node: Node) -> bool:
    allocatable = allocatable_of(node)
    return allowed_pods_of(node) > 0 and all(
        amount <= allocatable.get(name, 0) for name, amount in shape.requests.items()
    )


def _has_grown(shape: Shape, old: Node, new: Node) -> bool:
    before, after = allocatable_of(old), allocatable_of(new)
    return allowed_pods_of(new) > allowed_pods_of(old) or any(
        after.get(name, 0) > before.get(name, 0) for name in shape.requests
    )
