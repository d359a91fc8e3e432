"""From exact shares to whole things: integers that add up, and pods, which come in one piece."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Tasks:
    """A consumer of so many tasks of one size."""

    name: str
    size: Amounts
    count: int
    weight: Amount = 1


def picks(consumers: Iterable[Tasks], capacity: Amounts) -> list[str]:
    """Who gets a task, one after the other: whoever has the smallest weighted dominant share and a task that fits.

    The DRF algorithm of the paper; ties go to who comes first in `consumers`.
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
        _, order, claim, had = heapq.heappop(line)
        if any(amount > left.get(name, 0) for name, amount in claim.size.items()):
            continue  # nothing is given back, so it will never fit again
        for name, amount in claim.size.items():
            left[name] -= amount
        given.append(claim.name)
        had += 1
        if had < claim.count:
            share = dominant({name: amount * had for name, amount in claim.size.items()}, capacity) / claim.weight
            heapq.heappush(line, (share, order, claim, had))
    return given
