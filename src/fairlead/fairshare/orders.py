"""Who is served first, and from whom is taken first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gmpy2 import mpq

from fairlead.fairshare.claims import Amount, Amounts


@dataclass(frozen=True, slots=True)
class Standing:
    """How a consumer stands to its guarantee."""

    used: Amount
    guaranteed: Amount
    priority: int = 0


def by_need(consumers: Mapping[str, Standing]) -> list[str]:
    """The neediest first: the lowest part of its guarantee used, then the higher priority, then by name.

    Who is guaranteed nothing comes after all who are. Take from the end.
    """

    def rank(name: str) -> tuple[bool, mpq, int, str]:
        consumer = consumers[name]
        ratio = mpq(consumer.used) / mpq(consumer.guaranteed) if consumer.guaranteed else mpq(consumer.used)
        return not consumer.guaranteed, ratio, -consumer.priority, name

    return sorted(consumers, key=rank)


def borrowed_share(used: Amounts, nominal: Amounts, lendable: Amounts, weight: Amount = 1) -> mpq:
    """The largest part of anything lendable that is used beyond what is one's own, divided by the weight; exact.

    For a weight of 0 raises ZeroDivisionError: such a consumer is worth less than any other that borrows.
    """
    shares = (
        mpq(amount - nominal.get(name, 0)) / mpq(lendable[name])
        for name, amount in used.items()
        if lendable.get(name) and amount > nominal.get(name, 0)
    )
    return max(shares, default=mpq(0)) / mpq(weight)
