"""Input and output of the division: what consumers claim of a capacity, and what they deserve.

Amounts are exact: integers or fractions. The fractions are gmpy2's, which equal Python's and are ten times as fast. A
resource that is not named counts as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from fractions import Fraction
from typing import Final, TypeAlias

import msgspec
from gmpy2 import mpq

Amount: TypeAlias = "int | Fraction | mpq"
Amounts: TypeAlias = Mapping[str, Amount]

#: A level whose denominator needs more bits is rounded down to a multiple of 2^-128. That is smaller than any amount in
#: a cluster, and without it the fractions of five thousand consumers grow to a hundred thousand digits.
MOST_BITS: Final = 384
_GRID: Final = 1 << 128


class Model(Enum):
    """Whether a consumer's resources grow together."""

    #: In the proportions of its demand, as pods need them. It stops when one of them is used up.
    TOGETHER = "leontief"
    #: Each resource by itself: for groups, whose members want different things.
    APART = "separable"


class Surplus(Enum):
    """What is divided by weight."""

    #: The whole capacity; a guarantee is a lower bound.
    TOTAL = "floor"
    #: The capacity that is left after all guarantees.
    REST = "surplus"


class Claim(msgspec.Struct, frozen=True):
    """One consumer."""

    name: str
    demand: Amounts
    weight: Amount = 1
    #: Guaranteed, as far as it is demanded.
    reserved: Amounts = msgspec.field(default_factory=dict)
    #: No more than this; a resource that is not named has no bound.
    hard: Amounts = msgspec.field(default_factory=dict)
    #: Is served before all others, with all that it demands.
    is_unlimited: bool = False
    #: Whether others may use its reserved amounts while they are idle.
    lends: bool = True
    model: Model = Model.TOGETHER
    #: The demand by size of pod; replaces `model`. Each part needs all its resources at once, all parts grow together,
    #: and a resource that is used up stops only the parts that need it.
    parts: Sequence[Amounts] = ()


class Share(msgspec.Struct, frozen=True):
    """What a consumer deserves."""

    name: str
    deserved: Mapping[str, mpq]
    #: The largest share of any resource, of the whole capacity, divided by the weight; 0 for a weight of 0.
    dominant_share: mpq
    #: What limits it: a resource that is used up, `demand`, or `hard`.
    bottleneck: str
    #: Whether it gets its guarantee, as far as it demands it.
    is_reserved_met: bool


def bounded(level: mpq) -> mpq:
    """The level, rounded down if its denominator is too long."""
    if level.denominator.bit_length() <= MOST_BITS:
        return level
    return mpq(level.numerator * _GRID // level.denominator, _GRID)


def bounded_up(rate: mpq) -> mpq:
    """The rate, rounded up if its denominator is too long, so that never more is given than there is."""
    return -bounded(-rate)


def capped(amounts: Amounts, hard: Amounts) -> dict[str, mpq]:
    """The amounts, limited by `hard`; a resource that it does not name has no bound."""
    return {name: mpq(min(amount, hard[name]) if name in hard else amount) for name, amount in amounts.items()}


def dominant(amounts: Amounts, capacity: Amounts) -> mpq:
    """The dominant share: the largest fraction of the capacity of any resource that there is."""
    return max(
        (mpq(amount) / capacity[name] for name, amount in amounts.items() if capacity.get(name)),
        default=mpq(0),
    )
