"""Node selectors and node affinity: which labels, or names, a node must or should have (NodeAffinity).

Terms are alternatives; within a term every expression must hold. A term without expressions matches nothing, and so
does one that makes no sense (component-helpers/scheduling/corev1/nodeaffinity).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

import numpy as np

from fairlead.api.fields import Errors, aggregated
from fairlead.api.labels import LabelSelector
from fairlead.api.node_affinity import (
    NAME_FIELD,
    LabelTest,
    NodeSelectorTerm,
    faults_of,
    field_test,
    label_test,
    makes_sense,
    matches_term,
    meets_required,
    required_terms,
)
from fairlead.api.node_affinity import NodeAffinity as NodeAffinityTerms
from fairlead.api.scheduling import Node
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.framework import ClusterEvent, EventKind, Narrowed, Plugin, Refusals, Refused, normalise_to_best
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot

ENFORCED: Final = "node(s) didn't match scheduler-enforced node affinity"


class AffinityArguments(Arguments):
    added_affinity: NodeAffinityTerms | None = None


class NodeAffinity(Plugin):
    name = "NodeAffinity"
    reason = "node(s) didn't match Pod's node affinity/selector"
    normalises = True
    events = EventKind.NODE_ADDED | EventKind.NODE_LABELS

    arguments = AffinityArguments

    def __init__(self, added: NodeAffinityTerms | None = None) -> None:
        """`added` holds for every pod of the profile, beside the pod's own."""
        required = added.required if added else None
        self._enforced = (required.node_selector_terms or ()) if required else None
        self._preferred = (added.preferred if added else None) or ()

    @classmethod
    def configured(cls, args: AffinityArguments) -> Self:
        return cls(args.added_affinity)

    def pre_filter(self, requirements: PodRequirements, snapshot: Snapshot) -> Refused | Narrowed | None:
        terms = required_terms(requirements.node_affinity)
        named = [_named(term) for term in terms or ()]
        names = [allowed for allowed in named if allowed is not None]
        if not named or len(names) < len(named):
            return None
        allowed = frozenset[str]().union(*names)
        return Narrowed(allowed) if allowed else Refused("pod affinity terms conflict")

    def filters(self, requirements: PodRequirements) -> bool:
        return (
            self._enforced is not None
            or bool(requirements.node_selector)
            or required_terms(requirements.node_affinity) is not None
        )

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        return _matching(requirements, snapshot, rows) & self._admits(snapshot, rows)

    def refusals(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Refusals:
        refused = super().refusals(requirements, snapshot, rows)
        enforced = int((~self._admits(snapshot, rows)).sum())
        if enforced:
            refused.reasons = Counter({ENFORCED: enforced, self.reason: len(rows) - enforced})
        return refused

    def _admits(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """Whether the node meets what the profile requires of every node."""
        if self._enforced is None:
            return np.ones(len(rows), dtype=np.bool_)
        return any_term(self._enforced, snapshot, rows)

    def scores(self, requirements: PodRequirements) -> bool:
        return bool(self._preferred or (requirements.node_affinity and requirements.node_affinity.preferred))

    def scoring_fault(self, requirements: PodRequirements) -> str:
        errors = Errors()
        faults_of((requirements.node_affinity and requirements.node_affinity.preferred) or (), errors)
        return aggregated(errors) if errors else ""

    def score(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Ints:
        """The sum of the weights of the terms that the node matches."""
        preferred = (requirements.node_affinity and requirements.node_affinity.preferred) or ()
        total = np.zeros(len(rows), dtype=np.int64)
        for preference in (*self._preferred, *preferred):
            total += preference.weight * _term_mask(preference.preference, snapshot, rows)
        return total

    def normalise(self, scores: Ints) -> Ints:
        return normalise_to_best(scores)

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        """By the pod's own affinity; what the profile adds must hold now, but is not asked whether it did before."""
        requirements = request.requirements
        if event.new_node is None or not matches(requirements, event.new_node):
            return False
        if self._enforced is not None and not any(_meets(term, event.new_node) for term in self._enforced):
            return False
        return event.old_node is None or not matches(requirements, event.old_node)


def _named(term: NodeSelectorTerm) -> frozenset[str] | None:
    """The node names that a term allows; None for any."""
    allowed: frozenset[str] | None = None
    for requirement in term.match_fields or ():
        if requirement.key == NAME_FIELD and requirement.operator == "In":
            values = frozenset(requirement.values or ())
            allowed = values if allowed is None else allowed & values
    return allowed


# --- many nodes at once ---------------------------------------------------------------------------------------------


def eligible_rows(requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Rows:
    """Those of the rows that meet the pod's selector and what its affinity requires."""
    if not requirements.node_selector and required_terms(requirements.node_affinity) is None:
        return rows
    return rows[_matching(requirements, snapshot, rows)]


def _matching(requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
    mask = _labelled(requirements.node_selector, snapshot, rows)
    terms = required_terms(requirements.node_affinity)
    if terms is not None:
        mask &= any_term(terms, snapshot, rows)
    return mask


def _labelled(wanted: Mapping[str, str], snapshot: Snapshot, rows: Rows) -> Mask:
    """Which rows have all these labels, of which there may be tens of thousands: the first that nobody has decides."""
    mask = np.ones(len(rows), dtype=np.bool_)
    for key, value in wanted.items():
        mask &= has_label(snapshot, rows, key, (value,))
        if not mask.any():
            break
    return mask


def any_term(terms: Sequence[NodeSelectorTerm], snapshot: Snapshot, rows: Rows) -> Mask:
    mask = np.zeros(len(rows), dtype=np.bool_)
    for term in terms:
        mask |= _term_mask(term, snapshot, rows)
    return mask


def _term_mask(term: NodeSelectorTerm, snapshot: Snapshot, rows: Rows) -> Mask:
    mask = np.full(len(rows), makes_sense(term))
    for requirement in term.match_expressions or ():
        if not mask.any():
            break
        if requirement.operator == "In":
            mask &= has_label(snapshot, rows, requirement.key, requirement.values or ())
        else:
            mask &= _label_mask(snapshot, rows, requirement.key, label_test(requirement))
    for requirement in term.match_fields or ():
        test = field_test(requirement)
        mask &= np.fromiter((test(snapshot.names[row]) for row in rows), dtype=np.bool_, count=len(rows))
    return mask


def selected_rows(selector: LabelSelector, snapshot: Snapshot, rows: Rows) -> Mask:
    """Which rows have labels that the selector means."""
    mask = _labelled(selector.match_labels, snapshot, rows)
    for requirement in selector.match_expressions:
        if requirement.operator in ("In", "NotIn"):
            is_met = has_label(snapshot, rows, requirement.key, requirement.values or ())
        else:
            is_met = snapshot.labels(requirement.key).codes[rows] >= 0
        mask &= is_met if requirement.operator in ("In", "Exists") else ~is_met
    return mask


def has_label(snapshot: Snapshot, rows: Rows, key: str, values: Sequence[str]) -> Mask:
    """Which rows have one of these values; however many values the label has on other nodes."""
    column = snapshot.labels(key)
    codes = [code for value in values if (code := column.find(value)) is not None]
    if not codes:
        return np.zeros(len(rows), dtype=np.bool_)
    here = column.codes[rows]
    return here == codes[0] if len(codes) == 1 else np.isin(here, codes)


def has_labels(snapshot: Snapshot, rows: Rows, keys: Sequence[str], wanted: Iterable[Sequence[str]]) -> Mask:
    """Which rows have, of these labels, the values that belong together, however many of them are wanted."""
    columns = [snapshot.labels(key) for key in keys]
    found = (map(column.find, values) for column, values in zip(columns, zip(*wanted, strict=True), strict=True))
    codes = set(zip(*found, strict=True))
    here = zip(*(column.codes[rows].tolist() for column in columns), strict=True)
    return np.fromiter((each in codes for each in here), np.bool_, len(rows))


def _label_mask(snapshot: Snapshot, rows: Rows, key: str, test: LabelTest) -> Mask:
    column = snapshot.labels(key)
    if not column.values:
        return np.full(len(rows), test(None))
    mask: Mask = column.map(rows, test) != 0
    return mask


# --- one node -------------------------------------------------------------------------------------------------------


def matches(requirements: PodRequirements, node: Node) -> bool:
    """Whether the node meets the selector and what the affinity requires."""
    labels, name = node.metadata.labels, node.metadata.name
    return meets_required(requirements.node_selector, requirements.node_affinity, labels, name)


def _meets(term: NodeSelectorTerm, node: Node) -> bool:
    return matches_term(term, node.metadata.labels, node.metadata.name)
