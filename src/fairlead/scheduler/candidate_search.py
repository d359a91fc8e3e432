"""The search for nodes where room can be made for a pod (upstream's DryRunPreemption)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import chain

import numpy as np

from fairlead.runtime import rng
from fairlead.runtime.turns import Turn
from fairlead.scheduler.columns import Rows
from fairlead.scheduler.decide import Decider
from fairlead.scheduler.diagnosis import Diagnosis
from fairlead.scheduler.node_trials import NodeTrial, node_trials
from fairlead.scheduler.plugins.default_preemption import EnoughCandidates
from fairlead.scheduler.preemption_plans import Plans, PreemptionPlan, importance
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Placed


class CandidateSearch:
    """One pod's: node after node is looked at, and others may have turns of the event loop in between.

    Where something changes meanwhile, what was found is void, and the node is no candidate.
    """

    def __init__(
        self,
        decider: Decider,
        plans: Plans,
        request: SchedulingRequest,
        found: Diagnosis,
        enough: EnoughCandidates,
    ) -> None:
        """`plans` are what is known already, and are added to."""
        self.plans, self.found = plans, found
        #: Whether a node may have been left out that would do.
        self.is_overtaken = False
        self._decider, self._snapshot, self._request = decider, decider.snapshot, request
        self._trials, self._most = node_trials(request, decider), enough.of(len(found.resolvable))
        rows = found.resolvable[~plans.is_known[found.resolvable]]
        has_nobody = self._snapshot.least_priorities.column[rows] >= request.priority
        plans.keep_nobody(rows[has_nobody])
        rows = rows[~has_nobody]
        self._left = (_from_anywhere(rows, self._most) if self._trials.is_slow else rows).tolist()[::-1]
        self._changed: set[int] = set()

    @property
    def rows(self) -> Rows:
        """The nodes that would do."""
        return self.found.resolvable[self.plans.helps[self.found.resolvable]]

    async def run(self) -> None:
        """Look at all nodes that must be looked at."""
        while self.go_on(Turn()):  # noqa: ASYNC110  (it waits for nothing)
            await asyncio.sleep(0)

    def go_on(self, turn: Turn | None = None) -> bool:
        """Look at more nodes, until the end or that of the turn; whether there are more."""
        self._catch_up()
        while self._left:
            row = self._left.pop()
            if row in self._changed:
                continue
            self.plans.keep(row, self._plan(row))
            if self._trials.is_slow and self.plans.have_enough(self.found.resolvable, self._most):
                return False
            if turn is not None and turn.is_over:
                return bool(self._left)
        return False

    def _catch_up(self) -> None:
        """Leave the nodes out where something changed."""
        changed = self.plans.overtaken(self._snapshot)
        if changed is None:  # too much to say what
            self._left, self.is_overtaken = [], True
            return
        resolvable = set(self.found.resolvable.tolist()) if changed else set()
        for row in resolvable.intersection(changed):
            self.is_overtaken |= bool(self.plans.helps[row] or not self.plans.is_known[row])
            self.plans.drop(row)
            self._changed.add(row)

    def _plan(self, row: int) -> PreemptionPlan | Counter[str]:
        """Who would have to leave this node, where somebody is less important; or why even that would not help."""
        request = self._request
        victims = [placed for placed in self._snapshot.pods_on(row) if placed.pod.priority < request.priority]
        nominated = self._decider.nominations.against(request, self._snapshot.names[row])
        with self._trials.of(row, nominated) as trial:
            for victim in victims:
                trial.leave(victim)
            refused = trial.refused()
            if refused is not None:
                return refused
            victims.sort(key=importance)
            violating, unprotected = self._by_budget(victims)
            leaving = _staying_out(violating, trial), _staying_out(unprotected, trial)
        keys = {victim.key for victim in chain(*leaving)}
        return PreemptionPlan(tuple(victim for victim in victims if victim.key in keys), len(leaving[0]))

    def _by_budget(self, victims: list[Placed]) -> tuple[list[Placed], list[Placed]]:
        """Those whose leaving would violate a budget, and the others, each in the order given."""
        budgets = self._snapshot.budgets
        if not budgets:
            return [], victims
        allowed: dict[str, int] = {}
        violating: list[Placed] = []
        unprotected: list[Placed] = []
        for victim in victims:
            is_violated = False
            for budget in budgets.guarding(victim.pod):
                key = budget.metadata.key
                allowed[key] = allowed.get(key, budget.status.disruptions_allowed) - 1
                is_violated |= allowed[key] < 0
            (violating if is_violated else unprotected).append(victim)
        return violating, unprotected


def _from_anywhere(rows: Rows, most: int) -> Rows:
    """Not always the same of many, if not all are looked at."""
    return np.roll(rows, rng.source().randrange(len(rows))) if len(rows) > most else rows


def _staying_out(victims: Iterable[Placed], trial: NodeTrial) -> list[Placed]:
    """Of those that may come back, in this order, who cannot."""
    found = []
    for victim in victims:
        trial.come(victim)
        if not trial.fits():
            trial.leave(victim)
            found.append(victim)
    return found
