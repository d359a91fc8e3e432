"""Where a pod would fit if some others were gone, and others there: asked by who plans, answered without deciding."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.scheduling import Pod
from fairlead.scheduler.answers import Answers
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.framework import CannotDecide
from fairlead.scheduler.snapshot import Placed


class WhatIf:
    """Asks the filters of a model, which must be synced."""

    def __init__(self, model: ClusterModel) -> None:
        self._model = model

    def fits(self, pod: Pod, without: Sequence[Pod], beside: Sequence[tuple[Pod, str]]) -> str:
        """A node on which the pod would fit if those were gone and these there; empty if there is none.

        A pod that asks for a scheduler of another name is judged by the first profile.
        """
        model = self._model
        runtime = model.profiles.get(pod.spec.scheduler_name) or next(iter(model.profiles.values()))
        snapshot, request = model.snapshot, model.request(pod)
        gone = {
            placed.uid: placed for leaver in without if (placed := snapshot.placed(leaver.metadata.key)) is not None
        }
        there = [placed for guest, node in beside if (placed := self._placed(guest, node)) is not None]
        with snapshot.assuming(without=gone.values(), beside=there):
            try:
                rows = runtime.decider.feasible_of(request, Answers(request.requirements, runtime.profile, snapshot))
            except CannotDecide:  # the scheduler says so when it tries the pod
                return ""
            return snapshot.names[int(rows[0])] if len(rows) else ""

    def _placed(self, pod: Pod, node: str) -> Placed | None:
        """As if the pod were on that node; None if it is on a node already, or the node is gone."""
        row = self._model.snapshot.row_of(node)
        if row is None or self._model.snapshot.placed(pod.metadata.key) is not None:
            return None
        return self._model.placed_on(pod, row)
