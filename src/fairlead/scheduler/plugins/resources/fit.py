"""What a pod requests must fit into what is left of a node; how full that would be is the score (NodeResourcesFit).

Only requests count, never usage or limits (S0-50 to S0-53).
"""

from __future__ import annotations

from collections import Counter
from typing import Self

import numpy as np

from fairlead.api.scheduling import Node
from fairlead.api.strict import ConfigurationError, Strict, check
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.facts.device_offers import DeviceOffers
from fairlead.scheduler.framework import ClusterEvent, EventKind, Plugin, Reads, Refusals
from fairlead.scheduler.plugins.resources.scoring import (
    CPU_AND_MEMORY,
    ResourceSpec,
    Strategy,
    Weights,
    least_allocated,
    most_allocated,
    ratio,
    weights,
)
from fairlead.scheduler.requirements import UNSAID, PodRequirements, is_scalar
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot, allocatable_of, allowed_pods_of

TOO_MANY_PODS = "Too many pods"


class ShapePoint(Strict):
    utilization: int = 0
    score: int = 0


class Ratio(Strict):
    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(Strict):
    type: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: Ratio | None = None


class FitArguments(Arguments):
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class NodeResourcesFit(Plugin):
    name = "NodeResourcesFit"
    reads = Reads.NODE | Reads.AMOUNTS
    events = (
        EventKind.NODE_ADDED
        | EventKind.NODE_ALLOCATABLE
        | EventKind.POD_REMOVED
        | EventKind.POD_SCALED_DOWN
        | EventKind.OWN_SCALED_DOWN
        | EventKind.DEVICE_CLASSES
    )

    arguments = FitArguments

    def __init__(
        self,
        strategy: Strategy = least_allocated,
        resources: Weights = CPU_AND_MEMORY,
        *,
        ignored: frozenset[str] = frozenset(),
        ignored_groups: frozenset[str] = frozenset(),
    ) -> None:
        """`ignored` extended resources, and those of whole groups, are left to extenders or other plugins."""
        self._strategy, self._resources = strategy, resources
        self._ignored, self._ignored_groups = ignored, ignored_groups
        #: As of the last decision: `helps` is told of events alone.
        self._offers = DeviceOffers()

    @classmethod
    def configured(cls, args: FitArguments) -> Self:
        scoring = args.scoring_strategy
        resources = weights(scoring.resources, "scoringStrategy.resources") if scoring.resources else CPU_AND_MEMORY
        return cls(
            _strategy_of(scoring),
            resources,
            ignored=args.ignored_resources,
            ignored_groups=args.ignored_resource_groups,
        )

    def without(self, resources: frozenset[str]) -> NodeResourcesFit:
        """The same, but ignoring these as well."""
        ignored = self._ignored | resources
        return NodeResourcesFit(self._strategy, self._resources, ignored=ignored, ignored_groups=self._ignored_groups)

    def demands(self, requirements: PodRequirements) -> dict[str, int]:
        """What has to fit."""
        if not self._ignored and not self._ignored_groups:
            return requirements.requests
        return {name: amount for name, amount in requirements.requests.items() if not self._is_ignored(name)}

    def _is_ignored(self, name: str) -> bool:
        group, slash, _ = name.partition("/")
        return bool(slash) and (name in self._ignored or group in self._ignored_groups)

    def filters(self, requirements: PodRequirements) -> bool:
        return True

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        mask: Mask = snapshot.pod_count[rows] < snapshot.allowed_pods[rows]
        demands, self._offers = self.demands(requirements), snapshot.device_offers
        if any(name not in snapshot.allocatable and self._offers.class_of(name) is None for name in demands):
            return np.zeros(len(rows), dtype=np.bool_)
        for name, amount in demands.items():
            mask &= self._has(name, amount, snapshot, rows)
        return mask

    def _has(self, name: str, amount: int, snapshot: Snapshot, rows: Rows) -> Mask:
        """Which rows have enough left. One that has none at all may have devices in its place: others look at these."""
        allocatable = snapshot.allocatable[name][rows]
        enough: Mask = allocatable - snapshot.requested[name][rows] >= amount
        if snapshot.device_offers.class_of(name) is not None:
            enough |= allocatable <= 0
        return enough

    def refusals(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Refusals:
        """Every lacking resource is named; one that exceeds the whole node cannot be helped (S0-70)."""
        full = snapshot.pod_count[rows] >= snapshot.allowed_pods[rows]
        refusals = Refusals(Counter({TOO_MANY_PODS: int(full.sum())}), np.zeros(len(rows), dtype=np.bool_))
        for name, amount in self.demands(requirements).items():
            if snapshot.device_offers.class_of(name) is not None:
                lacking = ~self._has(name, amount, snapshot, rows)
                refusals.reasons[f"Insufficient {name}"] += int(lacking.sum())
                refusals.unresolvable |= lacking & (snapshot.allocatable[name][rows] < amount)
                continue
            if name not in snapshot.allocatable:  # a pod may name thousands that no node has
                refusals.reasons[f"Insufficient {name}"] += len(rows)
                refusals.unresolvable[:] = True
                continue
            allocatable = snapshot.allocatable[name][rows]
            refusals.reasons[f"Insufficient {name}"] += int(
                (allocatable - snapshot.requested[name][rows] < amount).sum()
            )
            refusals.unresolvable |= allocatable < amount
        return refusals

    def scores(self, requirements: PodRequirements) -> bool:
        return True

    def score(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Ints:
        """What would be requested of each scored resource, by the strategy; cpu and memory at least a little a pod."""
        columns: list[tuple[int, Ints, Ints]] = []
        for name, weight in self._resources:
            asked = requirements.score_requests.get(name, 0)
            if not asked and is_scalar(name):
                continue
            taken = snapshot.nonzero_requested if name in UNSAID else snapshot.requested
            columns.append((weight, taken[name][rows] + asked, snapshot.allocatable[name][rows]))
        return self._strategy(columns, len(rows))

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        requirements = request.requirements
        if event.kinds & EventKind.DEVICE_CLASSES:
            return bool(requirements.device_amounts)
        if event.new_node is not None:
            return self._fits_empty(requirements, event.new_node) and (
                event.old_node is None or _has_grown(requirements, event.old_node, event.new_node)
            )
        if (
            event.old_requirements is not None
            and event.new_requirements is not None
            and event.kinds & EventKind.POD_SCALED_DOWN
        ):
            old, new = event.old_requirements.requests, event.new_requirements.requests
            return any(old.get(name, 0) > new.get(name, 0) for name in requirements.requests)
        return True

    def _fits_empty(self, requirements: PodRequirements, node: Node) -> bool:
        allocatable = allocatable_of(node)
        return allowed_pods_of(node) > 0 and all(
            amount <= allocatable.get(name, 0)
            or (not allocatable.get(name) and self._offers.class_of(name) is not None)
            for name, amount in requirements.requests.items()
        )


def _strategy_of(scoring: ScoringStrategy) -> Strategy:
    plain = {"LeastAllocated": least_allocated, "MostAllocated": most_allocated}
    if scoring.type in plain:
        if scoring.requested_to_capacity_ratio is not None:
            why = "must be nil when type is not RequestedToCapacityRatio"
            raise ConfigurationError(f"scoringStrategy.requestedToCapacityRatio: Forbidden: {why}")
        return plain[scoring.type]
    supported = '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
    if scoring.type != "RequestedToCapacityRatio":
        raise ConfigurationError(
            f'scoringStrategy.type: Unsupported value: "{scoring.type}": supported values: {supported}'
        )
    path = "scoringStrategy.requestedToCapacityRatio"
    if scoring.requested_to_capacity_ratio is None:
        why = "must be specified when type is RequestedToCapacityRatio"
        raise ConfigurationError(f"{path}: Required value: {why}")
    path, points = f"{path}.shape", scoring.requested_to_capacity_ratio.shape
    if not points:
        raise ConfigurationError(f"{path}: Required value: at least one point must be specified")
    for index, point in enumerate(points):
        where = f"{path}[{index}]"
        check(0 <= point.utilization <= 100, f"{where}.utilization", point.utilization, "not in valid range [0, 100]")
        check(0 <= point.score <= 10, f"{where}.score", point.score, "not in valid range [0, 10]")
        if index:
            check(points[index - 1].utilization < point.utilization, f"{where}.utilization", point.utilization,
                  "values must be sorted in increasing order")  # fmt: skip
    return ratio([(point.utilization, point.score) for point in points])


def _has_grown(requirements: PodRequirements, old: Node, new: Node) -> bool:
    before, after = allocatable_of(old), allocatable_of(new)
    return allowed_pods_of(new) > allowed_pods_of(old) or any(
        after.get(name, 0) > before.get(name, 0) for name in requirements.requests
    )
