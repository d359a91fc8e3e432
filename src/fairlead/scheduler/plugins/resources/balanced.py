"""A node whose cpu and memory fill up evenly wastes neither (NodeResourcesBalancedAllocation).

The score is 50 plus half of (50 plus the balance after minus the balance before), about 75 where the pod makes no
difference. A pod without requests is not scored, or many would gather on one node (kubernetes issue 129138).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from fairlead.api.strict import ConfigurationError, check
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.columns import Ints, Rows
from fairlead.scheduler.framework import MAX_NODE_SCORE, Plugin, Reads
from fairlead.scheduler.plugins.resources.scoring import CPU_AND_MEMORY, FULL, ONE, ZERO, ResourceSpec, Weights, weights
from fairlead.scheduler.requirements import PodRequirements, is_scalar
from fairlead.scheduler.snapshot import Snapshot

_HALF, _TWO = np.array(MAX_NODE_SCORE // 2), np.array(2)

Floats: TypeAlias = npt.NDArray[np.float64]


class BalancedArguments(Arguments):
    resources: tuple[ResourceSpec, ...] = ()


class NodeResourcesBalancedAllocation(Plugin):
    name = "NodeResourcesBalancedAllocation"
    arguments = BalancedArguments
    reads = Reads.NODE | Reads.AMOUNTS

    def __init__(self, resources: Weights = CPU_AND_MEMORY) -> None:
        """Of `resources` the names alone matter."""
        self._resources = tuple(name for name, _ in resources)

    @classmethod
    def configured(cls, args: BalancedArguments) -> Self:
        for index, resource in enumerate(args.resources):
            if any(resource.name == before.name for before in args.resources[:index]):
                raise ConfigurationError(f'resources[{index}].name: Duplicate value: "{resource.name}"')
            check(resource.weight in (0, 1), f"resources[{index}].weight", resource.weight, "must be 1")
        return cls(weights(args.resources, "resources") if args.resources else CPU_AND_MEMORY)

    def scores(self, requirements: PodRequirements) -> bool:
        return any(name in requirements.requests for name in self._resources)

    def score(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Ints:
        names = [name for name in self._resources if name in requirements.requests or not is_scalar(name)]
        offered = [snapshot.allocatable[name][rows] for name in names]
        taken = [snapshot.requested[name][rows] for name in names]
        asked = [requirements.requests.get(name, 0) for name in names]
        before, after = _balances(offered, taken, asked)
        score: Ints = _HALF + (_HALF + after - before) // _TWO
        return score


def _balances(offered: Sequence[Ints], taken: Sequence[Ints], asked: Sequence[int]) -> Ints:
    """100 minus the deviation in percent, without and with what is asked for, in two rows.

    The rounding is that of upstream's float64 arithmetic. Both rows are worked out at once, to call numpy less often.
    """
    fractions = [
        np.minimum((used + _without_and_with(more)) / np.maximum(all_, ONE), 1.0)
        for all_, used, more in zip(offered, taken, asked, strict=True)
    ]
    if len(fractions) == 2:
        deviation = _of_two(offered, fractions)
    else:
        deviation = np.stack([_of_many(offered, [both[at] for both in fractions]) for at in (0, 1)])
    balances: Floats = (ONE - deviation) * FULL
    return balances.astype(np.int64)


@lru_cache(maxsize=1024)
def _without_and_with(more: int) -> Ints:
    return np.array([[0], [more]])


def _of_two(offered: Sequence[Ints], fractions: Sequence[Floats]) -> Floats:
    has_both = (offered[0] > ZERO) & (offered[1] > ZERO)
    deviation: Floats = np.abs((fractions[0] - fractions[1]) / _TWO) * has_both
    return deviation


def _of_many(offered: Sequence[Ints], fractions: Sequence[Floats]) -> Floats:
    """The standard deviation over the resources that the node has."""
    has = np.array([amounts > 0 for amounts in offered])
    values = np.where(has, np.array(fractions), 0.0)
    count = has.sum(axis=0)
    mean = values.sum(axis=0) / np.maximum(count, 1)
    squares = np.where(has, (values - mean) * (values - mean), 0.0)
    deviation = np.sqrt(squares.sum(axis=0) / np.maximum(count, 1))
    if len(values) > 1:  # two that are there are compared as two, whatever else is missing
        two = count == 2
        high = np.where(has, values, -1.0).max(axis=0)
        low = np.where(has, values, 2.0).min(axis=0)
        deviation = np.where(two, np.abs((high - low) / 2), deviation)
    return np.where(count > 1, deviation, 0.0)
