"""Whom to drive away so that a more important pod fits (DefaultPreemption, S3-18 to S3-31).

On each node where that could help, take away every less important pod, see whether the newcomer fits, and put back whom
one can: first those whose budget would be violated, then the others, the most important first. Then one node is
chosen: fewest violated budgets, least important victims, least in sum, fewest, youngest.

What was found for a node stays found until something changes there, so many preemptors of one kind cost one look at
all nodes and then one node each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final

import numpy as np

from fairlead.api.scheduling import Pod
from fairlead.caches import LruCache
from fairlead.runtime import clock, rng
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.decide import Decider
from fairlead.scheduler.diagnosis import Diagnosis, sentence
from fairlead.scheduler.framework import Nominate, NoRoom
from fairlead.scheduler.node_trials import NodeTrial, NodeTrials, node_trials, reads_others
from fairlead.scheduler.plugins.default_preemption import EnoughCandidates
from fairlead.scheduler.pod_relations import PodRelations
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Placed

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
STILL_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."

#: A pod that has not started yet is the youngest of all.
NOT_STARTED: Final = 2**62
#: For how many kinds of preemptors plans are kept.
MOST_KINDS: Final = 8
#: Makes every victim count, whatever its priority (pickOneNodeForPreemption).
_PER_VICTIM: Final = 2**31


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Who would have to leave one node, the most important first."""

    victims: tuple[Placed, ...]
    violations: int

    def rank(self) -> tuple[int, int, int, int, int]:
        """The lower the better (pickOneNodeForPreemption): the last is when the longest running of the most important
        victims started, the later the better.
        """
        top = self.victims[0].pod.priority
        total = sum(victim.pod.priority + _PER_VICTIM for victim in self.victims)
        since = min(started(victim.pod) for victim in self.victims if victim.pod.priority == top)
        return self.violations, top, total, len(self.victims), -since


class Plans:
    """What was found, node by node, for one kind of preemptor."""

    def __init__(self, size: int, pod_position: int, node_position: int) -> None:
        self.pod_position, self.node_position = pod_position, node_position
        self.found: dict[int, PreemptionPlan | Counter[str]] = {}
        self.is_known: Mask = np.zeros(size, dtype=np.bool_)
        #: Where nobody is less important than the preemptor; in an overloaded cluster of equals that is everywhere.
        self.has_nobody: Mask = np.zeros(size, dtype=np.bool_)
        #: Of the rows that have a plan: and its rank, column by column.
        self.helps: Mask = np.zeros(size, dtype=np.bool_)
        self.ranks: Ints = np.zeros((5, size), dtype=np.int64)

    def keep(self, row: int, plan: PreemptionPlan | Counter[str]) -> None:
        self.found[row] = plan
        self.is_known[row], self.has_nobody[row] = True, False
        self.helps[row] = isinstance(plan, PreemptionPlan)
        if isinstance(plan, PreemptionPlan):
            self.ranks[:, row] = plan.rank()

    def keep_nobody(self, rows: Rows) -> None:
        self.is_known[rows], self.has_nobody[rows], self.helps[rows] = True, True, False

    def have_enough(self, rows: Rows, most: int) -> bool:
        """Whether so many of the rows would do, and one of them without violating a budget."""
        helping = rows[self.helps[rows]]
        return len(helping) >= most and bool((self.ranks[0][helping] == 0).any())

    def drop(self, row: int) -> None:
        self.is_known[row] = False


class Preemptor:
    """Finds victims over one decider's snapshot."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._snapshot = decider.snapshot
        self._plans: LruCache[tuple[PodRequirements, PodRelations, int], Plans] = LruCache(MOST_KINDS)
        self._budgets_seen = 0

    def make_room(
        self, pod: Pod, request: SchedulingRequest, found: Diagnosis, enough: EnoughCandidates
    ) -> Nominate | NoRoom:
        """Where and by whose leaving the pod would fit, or why that does not help."""
        plans = self._candidates(pod, request, found, enough)
        if isinstance(plans, NoRoom):
            return plans
        return self._chosen(plans, found.resolvable[plans.helps[found.resolvable]])

    def candidates(
        self, pod: Pod, request: SchedulingRequest, found: Diagnosis, enough: EnoughCandidates
    ) -> dict[str, PreemptionPlan] | NoRoom:
        """The nodes that would do, each with its victims."""
        plans = self._candidates(pod, request, found, enough)
        if isinstance(plans, NoRoom):
            return plans
        rows = found.resolvable[plans.helps[found.resolvable]].tolist()
        return {self._snapshot.names[row]: plan for row in rows if isinstance(plan := plans.found[row], PreemptionPlan)}

    def choose(self, plans: Mapping[str, PreemptionPlan]) -> Nominate | NoRoom:
        """The best of these nodes."""
        chosen = Plans(self._snapshot.size, 0, 0)
        for name, plan in plans.items():
            row = self._snapshot.row_of(name)
            if row is not None and plan.victims:
                chosen.keep(row, plan)
        rows = np.flatnonzero(chosen.helps)
        if not len(rows):
            return _no_room("no candidate node for preemption")
        return self._chosen(chosen, rows)

    def _candidates(
        self, pod: Pod, request: SchedulingRequest, found: Diagnosis, enough: EnoughCandidates
    ) -> Plans | NoRoom:
        if pod.spec.preemption_policy == "Never":
            return _no_room(NEVER)
        if self._waits_for_victims(request, found):
            return _no_room(STILL_TERMINATING)
        plans, trials = self._up_to_date(request), node_trials(request, self._decider)
        rows = found.resolvable[~plans.is_known[found.resolvable]]
        has_nobody = self._snapshot.least_priorities.column[rows] >= request.priority
        plans.keep_nobody(rows[has_nobody])
        rows, most = rows[~has_nobody], enough.of(len(found.resolvable))
        for row in (_from_anywhere(rows, most) if trials.is_slow else rows).tolist():
            plans.keep(row, self._plan(request, row, trials))
            if trials.is_slow and plans.have_enough(found.resolvable, most):
                break
        if not plans.helps[found.resolvable].any():
            return _no_room(_unhelpful(found, plans), clears_nomination=True)
        return plans

    def _chosen(self, plans: Plans, rows: Rows) -> Nominate:
        row = self._choose(plans, rows)
        plan = plans.found[row]
        assert isinstance(plan, PreemptionPlan)
        return Nominate(self._snapshot.names[row], plan.victims)

    def _waits_for_victims(self, request: SchedulingRequest, found: Diagnosis) -> bool:
        """It has made room already, and the room is not free yet."""
        row = self._snapshot.row_of(request.nominated) if request.nominated else None
        if row is None or row not in found.resolvable:
            return False
        return any(
            placed.pod.priority < request.priority and _ends_by_preemption(placed.pod)
            for placed in self._snapshot.pods_on(row)
        )

    # --- plans ------------------------------------------------------------------------------------------------------

    def _up_to_date(self, request: SchedulingRequest) -> Plans:
        """The plans for such pods, without those that something has overtaken."""
        snapshot = self._snapshot
        if self._budgets_seen != snapshot.budgets.version:  # whatever was planned with them is void
            self._plans.clear()
            self._budgets_seen = snapshot.budgets.version
        key = (request.requirements, request.relations, request.priority)
        own = self._decider.nominations.get(request.uid)
        found = self._plans.get(key) if own is None else None
        pods, nodes = snapshot.pod_changes, snapshot.node_changes
        changed = pods.since(found.pod_position) if found else None
        touched = nodes.since(found.node_position) if found else None
        is_void = found is None or len(found.is_known) != snapshot.size or reads_others(request, self._decider)
        if found is None or changed is None or touched is None or is_void:
            found = Plans(snapshot.size, pods.position, nodes.position)
        else:
            for row in (*changed, *touched):
                found.drop(row)
            found.pod_position, found.node_position = pods.position, nodes.position
        if own is None:
            self._plans.put(key, found)
        return found

    def _plan(self, request: SchedulingRequest, row: int, trials: NodeTrials) -> PreemptionPlan | Counter[str]:
        """Who would have to leave this node, where somebody is less important; or why even that would not help."""
        victims = [placed for placed in self._snapshot.pods_on(row) if placed.pod.priority < request.priority]
        nominated = self._decider.nominations.against(request, self._snapshot.names[row])
        with trials.of(row, nominated) as trial:
            for victim in victims:
                trial.leave(victim)
            refused = trial.refused()
            if refused is not None:
                return refused
            victims.sort(key=_importance)
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

    @staticmethod
    def _choose(plans: Plans, rows: Rows) -> int:
        """The best node by rank; by lot among equals."""
        for column in plans.ranks:
            ranks = column[rows]
            rows = rows[ranks == ranks.min()]
        return int(rows[rng.source().randrange(len(rows))] if len(rows) > 1 else rows[0])


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


def _no_room(why: str, *, clears_nomination: bool = False) -> NoRoom:
    return NoRoom(f"preemption: {why}", clears_nomination)


def started(pod: Pod) -> int:
    """When the pod started to run, in seconds since the epoch; one that has not is the youngest of all."""
    return _seconds_of(pod.status.start_time) if pod.status.start_time else NOT_STARTED


@lru_cache(maxsize=4096)
def _seconds_of(timestamp: str) -> int:
    return int(clock.parse_timestamp(timestamp))


def _importance(victim: Placed) -> tuple[int, int]:
    """The most important first: the higher priority, then who runs for longer."""
    return -victim.pod.priority, started(victim.pod)


def _ends_by_preemption(pod: Pod) -> bool:
    target = pod.condition("DisruptionTarget")
    return (
        pod.metadata.is_terminating
        and target is not None
        and target.status == "True"
        and target.reason == "PreemptionByScheduler"
    )


def _unhelpful(found: Diagnosis, plans: Plans) -> str:
    """What is said of every node when evicting pods helps on none."""
    has_nobody = plans.has_nobody[found.resolvable]
    reasons: Counter[str] = Counter({NO_VICTIMS: int(has_nobody.sum())})
    for row in found.resolvable[~has_nobody].tolist():
        plan = plans.found[row]
        if isinstance(plan, Counter):
            for reason, count in plan.items():  # `+=` would go over all reasons at every node
                reasons[reason] += count
    reasons[NOT_HELPFUL] += found.node_count - len(found.resolvable)
    return f"0/{found.node_count} nodes are available: {sentence(reasons)}"
