"""Where a pod would fit if some others were gone, and others there: asked by who plans, answered without deciding."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.scheduling import Pod
from fairlead.scheduler.answers import Answers
from fairlead.scheduler.loop import Scheduler
from fairlead.scheduler.snapshot import Placed


class WhatIf:
    """A scheduler's snapshot and filters. The scheduler itself need not run, only be synced."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def fits(self, pod: Pod, without: Sequence[Pod], beside: Sequence[tuple[Pod, str]]) -> str:
        """A node on which the pod would fit if those were gone and these there; empty if there is none.

        A pod that asks for a scheduler of another name is judged by the first profile.
        """
        scheduler = self._scheduler
        profiles = scheduler.profiles
        runtime = profiles.get(pod.spec.scheduler_name) or next(iter(profiles.values()))
        snapshot, request = scheduler.snapshot, scheduler.request(pod)
        gone = {one.uid: one for key in without if (one := snapshot.placed(key.metadata.key)) is not None}
        there = [placed for other, node in beside if (placed := self._placed(other, node)) is not None]
        with snapshot.assuming(without=gone.values(), beside=there):
            rows = runtime.decider.feasible_of(request, Answers(request.requirements, runtime.profile, snapshot))
            return snapshot.names[int(rows[0])] if len(rows) else ""

    def _placed(self, pod: Pod, node: str) -> Placed | None:
        """As if the pod were on that node; None if it is on one already, or the node is gone."""
        scheduler = self._scheduler
        row = scheduler.snapshot.row_of(node)
        if row is None or scheduler.snapshot.placed(pod.metadata.key) is not None:
            return None
        request = scheduler.request(pod)
        return Placed(pod, row, request.requirements, request.relations)
