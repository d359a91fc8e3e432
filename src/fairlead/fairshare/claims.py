"""What consumers claim of a capacity, and what they are found to deserve.

Amounts are exact: integers, or fractions where a share is one; gmpy2's, which are ten times as fast as Python's and
equal to them. A resource that is not named counts as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Final, TypeAlias

from gmpy2 import mpq

Amount: TypeAlias = "int | Fraction | mpq"
Amounts: TypeAlias = Mapping[str, Amount]

#: A level whose denominator grows beyond this many bits is rounded down to a multiple of 2^-128: less than any amount
#: that a cluster has, and it keeps five thousand consumers from having fractions of a hundred thousand digits.
MOST_BITS: Final = 384
_GRID: Final = 1 << 128


class Model(Enum):
    """How what a consumer gets of one resource hangs on the others."""

    #: In the proportions of its demand: a pod without memory is no pod. What saturates one resource stops it.
    TOGETHER = "leontief"
    #: Each resource by itself: for groups of consumers that want different things.
    APART = "separable"


class Surplus(Enum):
    """What the weights divide."""

    #: Everything; a guarantee is a floor.
    TOTAL = "floor"
    #: What is left when the guarantees are served.
    REST = "surplus"


@dataclass(frozen=True, slots=True)
class Claim:
    """One consumer."""

    name: str
    demand: Amounts
    weight: Amount = 1
    #: Guaranteed, as far as it is demanded.
    reserved: Amounts = field(default_factory=dict)
    #: No more than this; a resource that is not named has no bound.
    hard: Amounts = field(default_factory=dict)
    #: Gets what it demands before anybody else does.
    is_unlimited: bool = False
    #: Whether others may use what is reserved and idle.
    lends: bool = True
    model: Model = Model.TOGETHER
    #: The demand in parts, each of which needs all its resources at once: pods of different sizes. They grow together,
    #: and what is used up stops only those that need it. Instead of a model.
    parts: Sequence[Amounts] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """What a consumer deserves."""

    name: str
    deserved: Mapping[str, mpq]
    #: The largest share of any resource, of the whole capacity, divided by the weight; 0 for a weight of 0.
    dominant_share: mpq
    #: What stopped it: a resource that is used up, `demand`, or `hard`.
    bottleneck: str
    #: Whether it has what it was guaranteed, as far as it wants it.
    is_reserved_met: bool


def bounded(level: mpq) -> mpq:
    """The level, or hardly less."""
    if level.denominator.bit_length() <= MOST_BITS:
        return level
    return mpq(level.numerator * _GRID // level.denominator, _GRID)


def bounded_up(rate: mpq) -> mpq:
    """The rate, or hardly more: then it is only thought that a little less is left than there is."""
    return -bounded(-rate)


def capped(amounts: Amounts, hard: Amounts) -> dict[str, mpq]:
    """No more than that of anything; what is not named there has no bound."""
    return {name: mpq(min(amount, hard[name]) if name in hard else amount) for name, amount in amounts.items()}


def dominant(amounts: Amounts, capacity: Amounts) -> mpq:
    """The largest share that these amounts are of the capacity; a resource that is not there is no share."""
    return max(
        (mpq(amount) / capacity[name] for name, amount in amounts.items() if capacity.get(name)),
        default=mpq(0),
    )
