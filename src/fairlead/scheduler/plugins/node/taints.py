"""Taints keep pods away that do not tolerate them, or make a node less welcome (TaintToleration)."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.taints import PREFER_NO_SCHEDULE, Taint, Toleration, first_untolerated, is_tolerated
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.framework import ClusterEvent, EventKind, Plugin, normalise_reversed
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot


class TaintToleration(Plugin):
    name = "TaintToleration"
    reason = "node(s) had untolerated taint(s)"
    normalises = True
    events = EventKind.NODE_ADDED | EventKind.NODE_TAINTS | EventKind.OWN_TOLERATIONS

    def filters(self, requirements: PodRequirements) -> bool:
        return True

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        return admitted(requirements, snapshot, rows)

    def scores(self, requirements: PodRequirements) -> bool:
        return True

    def score(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Ints:
        """How many unwelcoming taints the pod does not tolerate."""
        tolerations = [
            toleration for toleration in requirements.tolerations if toleration.effect in ("", PREFER_NO_SCHEDULE)
        ]
        return snapshot.taints.map(rows, lambda taints: _unwelcoming(taints or (), tolerations))

    def normalise(self, scores: Ints) -> Ints:
        return normalise_reversed(scores)

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        requirements = request.requirements
        if event.new_node is None:
            return True
        was_admitted = event.old_node is not None and _admits(event.old_node.taints, requirements)
        return not was_admitted and _admits(event.new_node.taints, requirements)


def admitted(requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
    """Which of the rows have no taint that keeps the pod away."""
    mask: Mask = snapshot.taints.map(rows, lambda taints: _admits(taints or (), requirements)) != 0
    return mask


def _admits(taints: Sequence[Taint], requirements: PodRequirements) -> bool:
    return first_untolerated(taints, requirements.tolerations) is None


def _unwelcoming(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int:
    return sum(taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations) for taint in taints)
