"""From exact shares to whole numbers: integers with the same sum, and whole tasks."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

import msgspec
from gmpy2 import mpq

from fairlead.fairshare.claims import Amount, Amounts, dominant


def rounded(shares: Mapping[str, Amount], total: int) -> dict[str, int]:
    """Whole numbers of that sum, each less than one away from its share: by largest remainder, ties by name.

    Raises ValueError if the shares do not allow that sum.
    """
    whole = {name: int(amount) for name, amount in shares.items()}
    missing = total - sum(whole.values())
    by_remainder = sorted(shares, key=lambda name: (whole[name] - shares[name], name))
    growing = [name for name in by_remainder if shares[name] > whole[name]]
    if not 0 <= missing <= len(growing):
        raise ValueError(f"shares of {sum(shares.values())} cannot be rounded to {total}")
    for name in growing[:missing]:
        whole[name] += 1
    return whole


class Tasks(msgspec.Struct, frozen=True):
    """A consumer of `count` tasks of one size."""

    name: str
    size: Amounts
    count: int
    weight: Amount = 1


def picks(consumers: Iterable[Tasks], capacity: Amounts) -> list[str]:
    """The order in which consumers get tasks: always the smallest weighted dominant share whose task fits.

    The DRF algorithm of the paper; ties go to the first in `consumers`.
    """
    left = {name: mpq(amount) for name, amount in capacity.items()}
    given: list[str] = []
    line = [
        (mpq(0), order, consumer, 0)
        for order, consumer in enumerate(consumers)
        if consumer.count and consumer.weight > 0
    ]
    heapq.heapify(line)
    while line:
        _, order, consumer, had = heapq.heappop(line)
        if any(amount > left.get(name, 0) for name, amount in consumer.size.items()):
            continue  # nothing is ever given back, so it will not fit later either
        for name, amount in consumer.size.items():
            left[name] -= amount
        given.append(consumer.name)
        had += 1
        if had < consumer.count:
            share = dominant({name: amount * had for name, amount in consumer.size.items()}, capacity) / consumer.weight
            heapq.heappush(line, (share, order, consumer, had))
    return given
