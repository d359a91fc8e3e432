"""How a node scores by what would be requested of it: the strategies of NodeResourcesFit.

All in whole numbers with upstream's roundings (pkg/scheduler/framework/plugins/noderesources).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from fairlead.api.strict import Strict, check
from fairlead.scheduler.columns import Ints
from fairlead.scheduler.framework import MAX_NODE_SCORE

#: Resource names, each with its weight.
Weights: TypeAlias = tuple[tuple[str, int], ...]
#: From (weight, requested, allocatable) per resource, and the number of rows, to scores.
Strategy: TypeAlias = Callable[[Sequence[tuple[int, Ints, Ints]], int], Ints]

CPU_AND_MEMORY: Final[Weights] = (("cpu", 1), ("memory", 1))
MOST_UTILISATION: Final = 100
#: Numbers as arrays, which numpy takes in half the time. It is asked at every decision about a few nodes, so that the
#: number of its calls and not that of the nodes is what counts.
ZERO, ONE, FULL = np.array(0), np.array(1), np.array(MAX_NODE_SCORE)
#: Scores in a configuration go up to 10.
_SCALE: Final = MAX_NODE_SCORE // 10


def least_allocated(columns: Sequence[tuple[int, Ints, Ints]], count: int) -> Ints:
    """The mean share that would be left: pods spread out."""
    return _mean([(weight, allocatable, _left(asked, allocatable)) for weight, asked, allocatable in columns], count)


def most_allocated(columns: Sequence[tuple[int, Ints, Ints]], count: int) -> Ints:
    """The mean share that would be taken: nodes fill up one after the other."""
    taken = [
        (weight, allocatable, np.minimum(asked, allocatable) * FULL // np.maximum(allocatable, ONE))
        for weight, asked, allocatable in columns
    ]
    return _mean(taken, count)


def ratio(points: Sequence[tuple[int, int]]) -> Strategy:
    """A line through points of (utilisation in percent, score from 0 to 10)."""
    line = [(utilisation, score * _SCALE) for utilisation, score in points]

    def strategy(columns: Sequence[tuple[int, Ints, Ints]], count: int) -> Ints:
        total, weights = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for weight, asked, allocatable in columns:
            used = np.where(
                asked > allocatable, MOST_UTILISATION, asked * MOST_UTILISATION // np.maximum(allocatable, 1)
            )
            score = np.where(allocatable > 0, _on_line(line, used), 0)
            counts = score > 0
            total += np.where(counts, weight * score, 0)
            weights += weight * counts
        return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)

    return strategy


def _left(asked: Ints, allocatable: Ints) -> Ints:
    share: Ints = np.maximum(allocatable - asked, ZERO) * FULL // np.maximum(allocatable, ONE)
    return share


def _mean(scores: Sequence[tuple[int, Ints, Ints]], count: int) -> Ints:
    """The weighted mean over the resources that the node has, rounded down."""
    total, weights = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for weight, allocatable, score in scores:
        has = allocatable > ZERO
        total += score if weight == 1 else weight * score
        weights += has if weight == 1 else weight * has
    mean: Ints = total // np.maximum(weights, ONE)
    return mean


def _on_line(line: Sequence[tuple[int, int]], used: Ints) -> Ints:
    """Go's integer division: towards zero, also where the line falls."""
    found = np.full(len(used), line[-1][1], dtype=np.int64)
    for (left, low), (right, high) in reversed(list(pairwise(line))):
        rise = (high - low) * (used - left)
        found = np.where(used < right, low + np.sign(rise) * (np.abs(rise) // (right - left)), found)
    return np.where(used <= line[0][0], line[0][1], found)


class ResourceSpec(Strict):
    """A resource that scores."""

    name: str
    weight: int = 1


def weights(resources: Sequence[ResourceSpec], path: str) -> Weights:
    """What a configuration lists; 0 is nothing said."""
    for index, resource in enumerate(resources):
        check(0 <= resource.weight <= MAX_NODE_SCORE, f"{path}[{index}].weight", resource.weight,
              f"resource weight of {resource.name} not in valid range (0, 100]")  # fmt: skip
    return tuple((resource.name, resource.weight or 1) for resource in resources)
