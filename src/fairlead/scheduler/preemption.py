"""Whom to drive away so that a more important pod fits (DefaultPreemption, S3-18 to S3-31).

On each node where that could help, take away every less important pod, see whether the newcomer fits, and put back whom
one can: first those whose budget would be violated, then the others, the most important first. Then one node is
chosen: fewest violated budgets, least important victims, least in sum, fewest, youngest.

What was found for a node stays found until something changes there, so many preemptors of one kind cost one look at
all nodes and then one node each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np

from fairlead.api.scheduling import Pod
from fairlead.caches import LruCache
from fairlead.runtime import rng
from fairlead.scheduler.candidate_search import CandidateSearch
from fairlead.scheduler.columns import Rows
from fairlead.scheduler.decide import Decider
from fairlead.scheduler.diagnosis import Diagnosis, sentence
from fairlead.scheduler.framework import Nominate, NoRoom
from fairlead.scheduler.node_trials import reads_others
from fairlead.scheduler.plugins.default_preemption import EnoughCandidates
from fairlead.scheduler.pod_relations import PodRelations
from fairlead.scheduler.preemption_plans import Plans, PreemptionPlan
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
STILL_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."

#: For how many kinds of preemptors plans are kept.
MOST_KINDS: Final = 8


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
        search = self.search(pod, request, found, enough)
        if isinstance(search, NoRoom):
            return search
        search.go_on()
        return self.outcome(search)

    def search(
        self, pod: Pod, request: SchedulingRequest, found: Diagnosis, enough: EnoughCandidates
    ) -> CandidateSearch | NoRoom:
        """The search for nodes where that helps, which has not begun; or why there is none."""
        if pod.spec.preemption_policy == "Never":
            return _no_room(NEVER)
        if self._waits_for_victims(request, found):
            return _no_room(STILL_TERMINATING)
        return CandidateSearch(self._decider, self._up_to_date(request), request, found, enough)

    def outcome(self, search: CandidateSearch) -> Nominate | NoRoom:
        """The best node of a search that is over."""
        rows = search.rows
        return self._chosen(search.plans, rows) if len(rows) else _fruitless(search)

    def candidates(self, search: CandidateSearch) -> dict[str, PreemptionPlan] | NoRoom:
        """The nodes that would do, each with its victims."""
        found = ((row, search.plans.found[row]) for row in search.rows.tolist())
        names = self._snapshot.names
        return {names[row]: plan for row, plan in found if isinstance(plan, PreemptionPlan)} or _fruitless(search)

    def choose(self, plans: Mapping[str, PreemptionPlan]) -> Nominate | NoRoom:
        """The best of these nodes."""
        chosen = Plans(self._snapshot)
        for name, plan in plans.items():
            row = self._snapshot.row_of(name)
            if row is not None and plan.victims:
                chosen.keep(row, plan)
        rows = np.flatnonzero(chosen.helps)
        if not len(rows):
            return _no_room("no candidate node for preemption")
        return self._chosen(chosen, rows)

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
        changed = None if found is None or reads_others(request, self._decider) else found.overtaken(snapshot)
        if found is None or changed is None:
            found = Plans(snapshot)
        else:
            for row in changed:
                found.drop(row)
        if own is None:
            self._plans.put(key, found)
        return found

    @staticmethod
    def _choose(plans: Plans, rows: Rows) -> int:
        """The best node by rank; by lot among equals."""
        for column in plans.ranks:
            ranks = column[rows]
            rows = rows[ranks == ranks.min()]
        return int(rows[rng.source().randrange(len(rows))] if len(rows) > 1 else rows[0])


def _no_room(why: str, *, clears_nomination: bool = False, is_overtaken: bool = False) -> NoRoom:
    return NoRoom(f"preemption: {why}", clears_nomination, is_overtaken=is_overtaken)


def _ends_by_preemption(pod: Pod) -> bool:
    target = pod.condition("DisruptionTarget")
    return (
        pod.metadata.is_terminating
        and target is not None
        and target.status == "True"
        and target.reason == "PreemptionByScheduler"
    )


def _fruitless(search: CandidateSearch) -> NoRoom:
    """What is said of every node when evicting pods helps on none."""
    found, plans = search.found, search.plans
    has_nobody = plans.has_nobody[found.resolvable]
    reasons: Counter[str] = Counter({NO_VICTIMS: int(has_nobody.sum())})
    for row in found.resolvable[~has_nobody].tolist():
        plan = plans.found.get(row)
        if isinstance(plan, Counter):
            for reason, count in plan.items():  # `+=` would go over all reasons at every node
                reasons[reason] += count
    reasons[NOT_HELPFUL] += found.node_count - len(found.resolvable)
    why = f"0/{found.node_count} nodes are available: {sentence(reasons)}"
    return _no_room(why, clears_nomination=True, is_overtaken=search.is_overtaken)
