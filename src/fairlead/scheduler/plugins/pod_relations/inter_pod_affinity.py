"""Pods that seek to be near other pods, or to be away from them (InterPodAffinity).

A term means certain pods and a topology key: who is on a node with the same value of that label is near. Terms work
both ways: those of the newcomer look at the pods that are there, and theirs look at the newcomer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Self

import numpy as np

from fairlead.api.scheduling import Node
from fairlead.api.strict import check
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.columns import Codes, Ints, Mask, Rows
from fairlead.scheduler.facts.pod_index import AffinityKind, ExistingTerms
from fairlead.scheduler.framework import MAX_NODE_SCORE, ClusterEvent, EventKind, PodRelationPlugin, Refusals
from fairlead.scheduler.pod_relations import AffinityTerm, PodRelations
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot

NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_APART = "node(s) didn't match pod anti-affinity rules"
OTHERS_APART = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodArguments(Arguments):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class InterPodAffinity(PodRelationPlugin):
    name = "InterPodAffinity"
    events = (
        EventKind.NODE_ADDED
        | EventKind.NODE_LABELS
        | EventKind.POD_PLACED
        | EventKind.POD_REMOVED
        | EventKind.POD_LABELS
        | EventKind.OWN_LABELS
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

    def filters(self, request: SchedulingRequest, snapshot: Snapshot) -> bool:
        relations = request.relations
        if relations.affinity or relations.anti_affinity:
            return True
        selecting = snapshot.pod_index.terms_selecting(relations)
        return bool(selecting) and any(existing.kind is AffinityKind.ANTI_AFFINITY for existing in selecting)

    def filter(self, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Mask:
        relations = request.relations
        mask = _is_near(relations, snapshot, rows)
        mask &= _is_apart(relations, snapshot, rows)
        mask &= _others_are_apart(relations, snapshot, rows)
        return mask

    def refusals(self, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Refusals:
        """One reason a node; what others must be near to cannot be brought there by evicting pods."""
        relations = request.relations
        near = _is_near(relations, snapshot, rows)
        apart = _is_apart(relations, snapshot, rows)
        reasons = {NOT_NEAR: ~near, NOT_APART: near & ~apart, OTHERS_APART: near & apart}
        return Refusals(Counter({text: int(mask.sum()) for text, mask in reasons.items()}), ~near)

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        """A pod is asked about all terms at once, also about those of anti-affinity: upstream's hint has it so, though
        one of them is enough to keep a pod away. Selectors of namespaces are asked as if no namespace had labels.
        """
        if event.new_node is not None:
            return _may_do(event.old_node, event.new_node, request.relations)
        if EventKind.OWN_LABELS in event.kinds:  # others may avoid it no longer, or it may be the first of its kind
            return True
        old, new, relations = event.old_relations, event.new_relations, request.relations
        if new is not None and _are_all_about(relations.affinity, new):
            return old is None or not _are_all_about(relations.affinity, old)
        if old is None:
            return False
        if _are_all_about(relations.anti_affinity, old):
            return new is None or not _are_all_about(relations.anti_affinity, new)
        return new is None and _are_all_about(old.anti_affinity, relations)

    # --- what should be ---------------------------------------------------------------------------------------------

    def scores(self, request: SchedulingRequest, snapshot: Snapshot) -> bool:
        relations = request.relations
        prefers = bool(relations.preferred_affinity or relations.preferred_anti_affinity)
        if self._ignores_preferences_of_existing and not prefers:
            return False
        return prefers or any(
            self._pull(existing.kind, existing.weight) for existing in snapshot.pod_index.terms_selecting(relations)
        )

    def score(self, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Ints:
        """What pulls the pod there, less what pushes it away, stretched to 0…100."""
        relations, pod_index = request.relations, snapshot.pod_index
        total = np.zeros(len(rows), dtype=np.int64)
        for weight, term in relations.preferred_affinity:
            total += weight * _nearby(snapshot, term, pod_index.matching(term).counts, rows)
        for weight, term in relations.preferred_anti_affinity:
            total -= weight * _nearby(snapshot, term, pod_index.matching(term).counts, rows)
        for existing in pod_index.terms_selecting(relations):
            pull = self._pull(existing.kind, existing.weight)
            if pull:
                total += pull * _near_to(existing, snapshot, rows)
        least, most = total.min(initial=2**62), total.max(initial=-(2**62))
        if most <= least:
            return np.zeros(len(rows), dtype=np.int64)
        stretched: Ints = (MAX_NODE_SCORE * ((total - least) / float(most - least))).astype(np.int64)
        return stretched

    def _pull(self, kind: AffinityKind, weight: int) -> int:
        """How much a pod that is there draws the newcomer that it means."""
        if kind is AffinityKind.AFFINITY:
            return self._hard_weight
        if kind is AffinityKind.PREFERRED_AFFINITY:
            return weight
        return -weight if kind is AffinityKind.PREFERRED_ANTI_AFFINITY else 0


def _nearby(snapshot: Snapshot, term: AffinityTerm, counts: Ints, rows: Rows) -> Ints:
    """How many of the counted pods are near each row; none where the node lacks the topology label."""
    places = snapshot.labels(term.topology_key)
    return places.sums(counts)[places.codes[rows]]


def _near_to(existing: ExistingTerms, snapshot: Snapshot, rows: Rows) -> Ints:
    """How many pods that have the term are near each row."""
    places = snapshot.labels(existing.term.topology_key)
    return existing.sums(places)[places.codes[rows]]


def _is_near(relations: PodRelations, snapshot: Snapshot, rows: Rows) -> Mask:
    """Whether a pod that all terms mean is near by each of them; the first of its kind may start anywhere."""
    mask = np.ones(len(rows), dtype=np.bool_)
    if not relations.affinity:
        return mask
    pod_index = snapshot.pod_index
    meant = pod_index.matching_all(relations.affinity)
    columns: list[Codes[str]] = [snapshot.labels(term.topology_key) for term in relations.affinity]
    sums = [column.sums(meant.counts) for column in columns]
    is_alone = not any(counts.any() for counts in sums)
    is_first = is_alone and all(term.matches(relations, pod_index.namespace_labels) for term in relations.affinity)
    for column, found in zip(columns, sums, strict=True):
        codes = column.codes[rows]
        mask &= codes >= 0
        if not is_first:
            mask &= found[codes] > 0
    return mask


def _is_apart(relations: PodRelations, snapshot: Snapshot, rows: Rows) -> Mask:
    mask = np.ones(len(rows), dtype=np.bool_)
    for term in relations.anti_affinity:
        mask &= _nearby(snapshot, term, snapshot.pod_index.matching(term).counts, rows) == 0
    return mask


def _others_are_apart(relations: PodRelations, snapshot: Snapshot, rows: Rows) -> Mask:
    mask = np.ones(len(rows), dtype=np.bool_)
    for existing in snapshot.pod_index.terms_selecting(relations):
        if existing.kind is AffinityKind.ANTI_AFFINITY:
            mask &= _near_to(existing, snapshot, rows) == 0
    return mask


def _may_do(old: Node | None, new: Node, relations: PodRelations) -> bool:
    """A node is, or moved, where the waiting pod may find whom it seeks, or lose whom it avoids. As upstream has it,
    no node helps a pod that others avoid (isSchedulableAfterNodeChange).
    """
    places = new.metadata.labels
    if old is None:
        return bool(relations.anti_affinity) or any(term.topology_key in places for term in relations.affinity)
    before = old.metadata.labels
    moved = {key for key in before.keys() | places.keys() if before.get(key) != places.get(key)}
    return any(term.topology_key in moved and term.topology_key in places for term in relations.affinity) or any(
        term.topology_key in moved and term.topology_key in before for term in relations.anti_affinity
    )


def _are_all_about(terms: Sequence[AffinityTerm], relations: PodRelations) -> bool:
    """Whether there are terms, and each of them means that pod (podMatchesAllAffinityTerms)."""
    return bool(terms) and all(term.matches(relations, {}) for term in terms)
