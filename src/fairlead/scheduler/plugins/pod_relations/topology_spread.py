"""Pods that belong together spread over zones, hosts or whatever else (PodTopologySpread).

A hard constraint bounds how many more of the counted pods one domain may have than the emptiest; a soft one makes the
fuller domains less welcome. What a pod does not say itself, the cluster's default says for pods that belong to
something: over hosts a little, over zones a little less (KEP-895, KEP-3094, KEP-3022).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Literal, Self

import msgspec
import numpy as np

from fairlead.api.labels import LabelSelector
from fairlead.api.scheduling import Node, TopologySpreadConstraint
from fairlead.api.strict import ConfigurationError, check
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.columns import Ints, Mask, Rows, distinct_of
from fairlead.scheduler.facts.owners import DefaultSelector
from fairlead.scheduler.facts.pod_index import MatchCount
from fairlead.scheduler.framework import MAX_NODE_SCORE, ClusterEvent, EventKind, PodRelationPlugin, Refusals
from fairlead.scheduler.plugins.node.affinity import eligible_rows
from fairlead.scheduler.plugins.node.taints import admitted
from fairlead.scheduler.pod_relations import PodRelations
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

TOO_SKEWED: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = f"{TOO_SKEWED} (missing required label)"

#: For pods without constraints that a service or a controller selects (`systemDefaultConstraints`).
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)


class Spread(msgspec.Struct, frozen=True):
    """A constraint, whom it is about, and how many of those are counted where."""

    rule: TopologySpreadConstraint
    selector: DefaultSelector | None
    match_count: MatchCount

    def counts_newcomer(self, relations: PodRelations) -> int:
        """By its labels alone, even if it is going away or the selector is empty: the index counts no such pods, but
        upstream asks about them only of those that are there (countPodsMatchSelector).
        """
        return int(self.selector is not None and self.selector.matches(relations.labels))


class SpreadArguments(Arguments):
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"


class PodTopologySpread(PodRelationPlugin):
    name = "PodTopologySpread"
    events = (
        EventKind.NODE_ADDED
        | EventKind.NODE_REMOVED
        | EventKind.NODE_LABELS
        | EventKind.NODE_TAINTS
        | EventKind.POD_PLACED
        | EventKind.POD_REMOVED
        | EventKind.POD_LABELS
        | EventKind.OWN_LABELS
        | EventKind.OWN_TOLERATIONS
    )

    arguments = SpreadArguments

    def __init__(self, defaults: Sequence[TopologySpreadConstraint] | None = None) -> None:
        """`defaults` replace the system's own."""
        self._defaults = tuple(SYSTEM_DEFAULTS if defaults is None else defaults)
        self._is_system_default = defaults is None

    @classmethod
    def configured(cls, args: SpreadArguments) -> Self:
        if args.defaulting_type == "System":
            check(not args.default_constraints, "defaultingType", "System", "when .defaultConstraints are not empty")
            return cls()
        for index, rule in enumerate(args.default_constraints):
            where = f"defaultConstraints[{index}]"
            check(rule.max_skew > 0, f"{where}.maxSkew", rule.max_skew, "not in valid range (0, inf)")
            when = rule.when_unsatisfiable
            for name, value in (("topologyKey", rule.topology_key), ("whenUnsatisfiable", when)):
                if not value:
                    raise ConfigurationError(f"{where}.{name}: Required value: can not be empty")
            if when not in (HARD, SOFT):
                supported = f'supported values: "{HARD}", "{SOFT}"'
                raise ConfigurationError(f'{where}.whenUnsatisfiable: Unsupported value: "{when}": {supported}')
            if rule.label_selector is not None:
                why = "constraint must not define a selector, as they deduced for each pod"
                raise ConfigurationError(f"{where}.labelSelector: Forbidden: {why}")
            before = args.default_constraints[:index]
            if any(
                (earlier.topology_key, earlier.when_unsatisfiable) == (rule.topology_key, when) for earlier in before
            ):
                raise ConfigurationError(f'{where}: Duplicate value: "{{{rule.topology_key}, {when}}}"')
        return cls(args.default_constraints)

    # --- what must be -----------------------------------------------------------------------------------------------

    def filters(self, request: SchedulingRequest, snapshot: Snapshot) -> bool:
        return bool(self._rules(request.relations, HARD, snapshot))

    def filter(self, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Mask:
        mask = np.ones(len(rows), dtype=np.bool_)
        for fits, _ in self._judged(request, snapshot, rows):
            mask &= fits
            if not mask.any():
                break  # of thousands of constraints, most name labels that no node has
        return mask

    def refusals(self, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Refusals:
        """The first constraint that a node does not meet speaks; a label cannot be had by evicting pods."""
        undecided = np.ones(len(rows), dtype=np.bool_)
        lacking = np.zeros(len(rows), dtype=np.bool_)
        for fits, has_label in self._judged(request, snapshot, rows):
            lacking |= undecided & ~has_label
            undecided &= fits
            if not undecided.any():
                break
        count = int(lacking.sum())
        return Refusals(Counter({NO_LABEL: count, TOO_SKEWED: len(rows) - count}), lacking)

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        """Nodes that have the labels of all hard rules come, go or move; pods are counted now, or no longer."""
        relations = request.relations
        rules = [rule for rule in relations.constraints or self._defaults if rule.when_unsatisfiable == HARD]
        if event.new_node is not None or event.old_node is not None:
            return _moved(event.old_node, event.new_node, rules)
        if EventKind.OWN_TOLERATIONS in event.kinds and any(rule.node_taints_policy == "Honor" for rule in rules):
            return True
        old, new = event.old_relations, event.new_relations
        if all(changed is None or changed.namespace != relations.namespace for changed in (old, new)):
            return False
        if not relations.constraints:  # whom the defaults count, only the services of the namespace could tell
            return old is not new
        selectors = [selector for rule in rules if (selector := _selector(rule, relations)) is not None]
        return any(_is_meant(old, selector) != _is_meant(new, selector) for selector in selectors)

    def _judged(self, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Iterator[tuple[Mask, Mask]]:
        """Rule by rule: which rows will do, and which have its label."""
        spreads = self._spreads(request.relations, HARD, snapshot)
        labelled = _rows_with_labels(spreads, snapshot)
        for spread in spreads:
            places = snapshot.labels(spread.rule.topology_key)
            eligible = _included(spread.rule, request, snapshot, labelled)
            domains = places.codes[eligible]
            sums = places.sums(spread.match_count.counts, eligible)
            distinct = distinct_of(domains)
            least = int(sums[distinct].min(initial=2**31 - 1))
            if len(distinct) < (spread.rule.min_domains or 1):
                least = 0
            codes = places.codes[rows]
            has_label = codes >= 0
            skew = sums[codes] + spread.counts_newcomer(request.relations) - least
            yield has_label & (skew <= spread.rule.max_skew), has_label

    # --- what should be ---------------------------------------------------------------------------------------------

    def scores(self, request: SchedulingRequest, snapshot: Snapshot) -> bool:
        return bool(self._rules(request.relations, SOFT, snapshot))

    def score(self, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Ints:
        """The fewer of the counted pods, the better; nodes without all the labels get nothing."""
        needs_all = bool(request.relations.constraints) or not self._is_system_default
        scored = np.ones(len(rows), dtype=np.bool_)
        for rule in self._rules(request.relations, SOFT, snapshot) if needs_all else ():
            scored &= snapshot.labels(rule.topology_key).codes[rows] >= 0
            if not scored.any():
                return np.zeros(len(rows), dtype=np.int64)
        spreads = self._spreads(request.relations, SOFT, snapshot)
        codes = [snapshot.labels(spread.rule.topology_key).codes for spread in spreads]
        counted = _rows_with_labels(spreads, snapshot) if needs_all else snapshot.rows()
        total = np.zeros(len(rows), dtype=np.float64)
        for spread, column in zip(spreads, codes, strict=True):
            domains = column[rows]
            if spread.rule.topology_key == HOSTNAME:
                size, counts = int(scored.sum()), spread.match_count.counts[rows]
            else:
                places = snapshot.labels(spread.rule.topology_key)
                eligible = _included(spread.rule, request, snapshot, counted)
                sums, places_of_scored = places.sums(spread.match_count.counts, eligible), domains[scored]
                blank = places.find("")
                if blank is not None:  # to upstream no label and an empty one are the same domain
                    places_of_scored = np.where(places_of_scored == blank, -1, places_of_scored)
                    sums[blank] += spread.match_count.counts[eligible[column[eligible] < 0]].sum()
                size = len(distinct_of(places_of_scored + 1))  # no label (-1) is one more domain, as upstream counts
                counts = sums[domains]
            weighted = counts * np.log(float(size + 2)) + float(spread.rule.max_skew - 1)
            total += np.where(domains >= 0, weighted, 0.0)
        return _reversed(np.floor(total + 0.5).astype(np.int64), scored)

    # --- constraints ------------------------------------------------------------------------------------------------

    def _rules(self, relations: PodRelations, when: str, snapshot: Snapshot) -> list[TopologySpreadConstraint]:
        rules = relations.constraints or self._defaults
        wanted = [rule for rule in rules if rule.when_unsatisfiable == when]
        if wanted and not relations.constraints and snapshot.owners.default_selector(relations).is_empty:
            return []
        return wanted

    def _spreads(self, relations: PodRelations, when: str, snapshot: Snapshot) -> list[Spread]:
        rules = self._rules(relations, when, snapshot)
        if relations.constraints:
            return [_spread(rule, snapshot, relations, _selector(rule, relations)) for rule in rules]
        selector = snapshot.owners.default_selector(relations)
        return [_spread(rule, snapshot, relations, selector) for rule in rules]


def _selector(rule: TopologySpreadConstraint, relations: PodRelations) -> DefaultSelector | None:
    """What the constraint counts: its selector, narrowed to pods that share these labels with the newcomer."""
    if rule.label_selector is None:
        return None
    same = {key: relations.labels[key] for key in rule.match_label_keys or () if key in relations.labels}
    exact = (LabelSelector(match_labels=same),) if same else ()
    return DefaultSelector((rule.label_selector, *exact))


def _is_meant(relations: PodRelations | None, selector: DefaultSelector) -> bool:
    return relations is not None and selector.matches(relations.labels)


def _moved(old: Node | None, new: Node | None, rules: Sequence[TopologySpreadConstraint]) -> bool:
    """Whether the node is a place for the rules now, no longer, another one, or with other taints."""
    before, now = _place(old, rules), _place(new, rules)
    if before != now:
        return True
    return now is not None and old is not None and new is not None and old.taints != new.taints


def _place(node: Node | None, rules: Sequence[TopologySpreadConstraint]) -> list[str] | None:
    """Where the node is by each of the rules; None if it lacks one of the labels, or is not there."""
    labels = node.metadata.labels if node is not None else {}
    if node is None or any(rule.topology_key not in labels for rule in rules):
        return None
    return [labels[rule.topology_key] for rule in rules]


def _spread(
    rule: TopologySpreadConstraint, snapshot: Snapshot, relations: PodRelations, selector: DefaultSelector | None
) -> Spread:
    """The rule, counting pods of the namespace that are not going away. By an empty selector, which is about everybody,
    upstream counts nobody but the newcomer and who is assumed to come or go (countPodsMatchSelector, updateWithPod).
    """
    namespace = relations.namespace
    is_about_all = selector is not None and selector.is_empty

    def matches(counted: PodRelations) -> bool:
        is_here = counted.namespace == namespace and not counted.is_terminating
        if selector is None or not is_here or (is_about_all and not counted.is_hypothetical):
            return False
        return selector.matches(counted.labels)

    match_count = snapshot.pod_index.match_count((namespace, selector.key if selector else None), matches)
    return Spread(rule, selector, match_count)


def _rows_with_labels(spreads: Sequence[Spread], snapshot: Snapshot) -> Rows:
    """The nodes that have every one of the labels."""
    rows = snapshot.rows()
    for spread in spreads:
        codes = snapshot.labels(spread.rule.topology_key).codes[rows]
        if (codes < 0).any():
            rows = rows[codes >= 0]
    return rows


def _included(rule: TopologySpreadConstraint, request: SchedulingRequest, snapshot: Snapshot, rows: Rows) -> Rows:
    """Those of the nodes that count: usually where the pod's node affinity lets it go (KEP-3094)."""
    if (rule.node_affinity_policy or "Honor") == "Honor":
        rows = eligible_rows(request.requirements, snapshot, rows)
    if rule.node_taints_policy == "Honor":
        rows = rows[admitted(request.requirements, snapshot, rows)]
    return rows


def _reversed(scores: Ints, scored: Mask) -> Ints:
    """The least becomes 100."""
    if not scored.any():
        return np.zeros(len(scores), dtype=np.int64)
    least, most = int(scores[scored].min()), int(scores[scored].max())
    if most == 0:
        return np.where(scored, MAX_NODE_SCORE, 0)
    return np.where(scored, MAX_NODE_SCORE * (most + least - scores) // most, 0)
