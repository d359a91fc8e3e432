"""Taints keep pods away that do not tolerate them, or make a node less welcome (TaintToleration)."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.scheduling import Taint, Toleration
from fairlead.api.taints import PREFER_NO_SCHEDULE, first_untolerated, is_tolerated
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.company import Task
from fairlead.scheduler.framework import Change, Event, Plugin, normalise_reversed
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Snapshot


class TaintToleration(Plugin):
    name = "TaintToleration"
    reason = "node(s) had untolerated taint(s)"
    normalises = True
    events = Event.NODE_ADDED | Event.NODE_TAINTS | Event.OWN_TOLERATIONS

    def filters(self, shape: Shape) -> bool:
        return True

    def filter(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Mask:
        return admitted(shape, snapshot, rows)

    def scores(self, shape: Shape) -> bool:
        return True

    def score(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Ints:
        """How many unwelcoming taints the pod does not tolerate."""
        tolerations = [one for one in shape.tolerations if one.effect in ("", PREFER_NO_SCHEDULE)]
        return snapshot.taints.map(rows, lambda taints: _unwelcoming(taints or (), tolerations))

    def normalise(self, scores: Ints) -> Ints:
        return normalise_reversed(scores)

    def helps(self, change: Change, task: Task) -> bool:
        shape = task.shape
        if change.new_node is None:
            return True
        was_admitted = change.old_node is not None and _admits(change.old_node.taints, shape)
        return not was_admitted and _admits(change.new_node.taints, shape)


def admitted(shape: Shape, snapshot: Snapshot, rows: Rows) -> Mask:
    """Which of the rows have no taint that keeps the pod away."""
    mask: Mask = snapshot.taints.map(rows, lambda taints: _admits(taints or (), shape)) != 0
    return mask


def _admits(taints: Sequence[Taint], shape: Shape) -> bool:
    return first_untolerated(taints, shape.tolerations) is None


def _unwelcoming(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int:
    return sum(one.effect == PREFER_NO_SCHEDULE and not is_tolerated(one, tolerations) for one in taints)
