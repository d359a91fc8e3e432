"""Pods that seek each other's company, or avoid it (InterPodAffinity).

A term means certain pods and a topology key: who is on a node with the same value of that label is near. Terms work
both ways: those of the newcomer look at the pods that are there, and theirs look at the newcomer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Self

import numpy as np

from fairlead.api.scheduling import Node
from fairlead.scheduler.arguments import Arguments, check
from fairlead.scheduler.columns import Codes, Ints, Mask, Rows
from fairlead.scheduler.company import Company, Task, Term
from fairlead.scheduler.crowd import Wish
from fairlead.scheduler.framework import MAX_NODE_SCORE, Change, CompanyPlugin, Event, Refusals
from fairlead.scheduler.snapshot import Snapshot

NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
OTHERS_APART = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodArguments(Arguments, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class InterPodAffinity(CompanyPlugin):
    name = "InterPodAffinity"
    events = (
        Event.NODE_ADDED
        | Event.NODE_LABELS
        | Event.POD_PLACED
        | Event.POD_REMOVED
        | Event.POD_LABELS
        | Event.OWN_LABELS
    )

    arguments = InterPodArguments

    def __init__(self, *, hard_weight: int = 1, ignores_preferences_of_existing: bool = False) -> None:
        self._hard_weight = hard_weight
        self._ignores_preferences_of_existing = ignores_preferences_of_existing

    @classmethod
    def configured(cls, args: InterPodArguments) -> Self:
        weight = args.hard_pod_affinity_weight
        check(0 <= weight <= MAX_NODE_SCORE, "hardPodAffinityWeight", weight, "not in valid range [0, 100]")
        return cls(hard_weight=weight, ignores_preferences_of_existing=args.ignore_preferred_terms_of_existing_pods)

    # --- what must be -----------------------------------------------------------------------------------------------

    def filters(self, task: Task, snapshot: Snapshot) -> bool:
        company = task.company
        concerned = snapshot.crowd.concerned_about(company)
        return bool(company.near or company.apart or any(one.wish is Wish.APART for one in concerned))

    def filter(self, task: Task, snapshot: Snapshot, rows: Rows) -> Mask:
        company = task.company
        mask = _is_near(company, snapshot, rows)
        mask &= _is_apart(company, snapshot, rows)
        mask &= _others_are_apart(company, snapshot, rows)
        return mask

    def refusals(self, task: Task, snapshot: Snapshot, rows: Rows) -> Refusals:
        """One reason a node; what others must be near to cannot be brought there by evicting pods."""
        company = task.company
        near = _is_near(company, snapshot, rows)
        apart = _is_apart(company, snapshot, rows)
        reasons = {NOT_NEAR: ~near, NOT_APART: near & ~apart, OTHERS_APART: near & apart}
        return Refusals(Counter({text: int(mask.sum()) for text, mask in reasons.items()}), ~near)

    def helps(self, change: Change, task: Task) -> bool:
        """A pod is asked about all terms at once, also about those of anti-affinity: upstream's hint has it so, though
        one of them is enough to keep a pod away. Selectors of namespaces are asked as if no namespace had labels.
        """
        if change.new_node is not None:
            return _may_do(change.old_node, change.new_node, task.company)
        if Event.OWN_LABELS in change.events:  # others may avoid it no longer, or it may be the first of its kind
            return True
        old, new, company = change.old_company, change.new_company, task.company
        if new is not None and _are_all_about(company.near, new):
            return old is None or not _are_all_about(company.near, old)
        if old is None:
            return False
        if _are_all_about(company.apart, old):
            return new is None or not _are_all_about(company.apart, new)
        return new is None and _are_all_about(old.apart, company)

    # --- what should be ---------------------------------------------------------------------------------------------

    def scores(self, task: Task, snapshot: Snapshot) -> bool:
        company = task.company
        prefers = bool(company.prefers_near or company.prefers_apart)
        if self._ignores_preferences_of_existing and not prefers:
            return False
        return prefers or any(self._pull(one.wish, one.weight) for one in snapshot.crowd.concerned_about(company))

    def score(self, task: Task, snapshot: Snapshot, rows: Rows) -> Ints:
        """What pulls the pod there, less what pushes it away, stretched to 0…100."""
        company, crowd = task.company, snapshot.crowd
        total = np.zeros(len(rows), dtype=np.int64)
        for weight, term in company.prefers_near:
            total += weight * _nearby(snapshot, term, crowd.meant_by(term).counts, rows)
        for weight, term in company.prefers_apart:
            total -= weight * _nearby(snapshot, term, crowd.meant_by(term).counts, rows)
        for one in crowd.concerned_about(company):
            pull = self._pull(one.wish, one.weight)
            if pull:
                total += pull * _nearby(snapshot, one.term, one.counts, rows)
        least, most = total.min(initial=2**62), total.max(initial=-(2**62))
        if most <= least:
            return np.zeros(len(rows), dtype=np.int64)
        stretched: Ints = (MAX_NODE_SCORE * ((total - least) / float(most - least))).astype(np.int64)
        return stretched

    def _pull(self, wish: Wish, weight: int) -> int:
        """How much a pod that is there draws the newcomer that it means."""
        if wish is Wish.NEAR:
            return self._hard_weight
        if wish is Wish.PREFERS_NEAR:
            return weight
        return -weight if wish is Wish.PREFERS_APART else 0


def _nearby(snapshot: Snapshot, term: Term, counts: Ints, rows: Rows) -> Ints:
    """How many of the counted pods are near each row; none where the node lacks the topology label."""
    places = snapshot.labels(term.topology_key)
    return places.sums(counts)[places.codes[rows]]


def _is_near(company: Company, snapshot: Snapshot, rows: Rows) -> Mask:
    """Whether a pod that all terms mean is near by each of them; the first of its kind may start anywhere."""
    mask = np.ones(len(rows), dtype=np.bool_)
    if not company.near:
        return mask
    crowd = snapshot.crowd
    meant = crowd.meant_by_all(company.near)
    columns: list[Codes[str]] = [snapshot.labels(term.topology_key) for term in company.near]
    sums = [column.sums(meant.counts) for column in columns]
    is_alone = not any(one.any() for one in sums)
    is_first = is_alone and all(term.matches(company, crowd.namespace_labels) for term in company.near)
    for column, found in zip(columns, sums, strict=True):
        codes = column.codes[rows]
        mask &= codes >= 0
        if not is_first:
            mask &= found[codes] > 0
    return mask


def _is_apart(company: Company, snapshot: Snapshot, rows: Rows) -> Mask:
    mask = np.ones(len(rows), dtype=np.bool_)
    for term in company.apart:
        mask &= _nearby(snapshot, term, snapshot.crowd.meant_by(term).counts, rows) == 0
    return mask


def _others_are_apart(company: Company, snapshot: Snapshot, rows: Rows) -> Mask:
    mask = np.ones(len(rows), dtype=np.bool_)
    for one in snapshot.crowd.concerned_about(company):
        if one.wish is Wish.APART:
            mask &= _nearby(snapshot, one.term, one.counts, rows) == 0
    return mask


def _may_do(old: Node | None, new: Node, company: Company) -> bool:
    """A node is, or moved, where the waiting pod may find whom it seeks, or lose whom it avoids. As upstream has it,
    no node helps a pod that others avoid (isSchedulableAfterNodeChange).
    """
    places = new.metadata.labels
    if old is None:
        return bool(company.apart) or any(term.topology_key in places for term in company.near)
    before = old.metadata.labels
    moved = {key for key in before.keys() | places.keys() if before.get(key) != places.get(key)}
    return any(term.topology_key in moved and term.topology_key in places for term in company.near) or any(
        term.topology_key in moved and term.topology_key in before for term in company.apart
    )


def _are_all_about(terms: Sequence[Term], other: Company) -> bool:
    """Whether there are terms, and each of them means that pod (podMatchesAllAffinityTerms)."""
    return bool(terms) and all(term.matches(other, {}) for term in terms)
