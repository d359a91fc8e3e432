"""The order in which consumers are served; reclaiming goes the other way round."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from gmpy2 import mpq

from fairlead.fairshare.claims import Amount, Amounts


class GuaranteeUse(msgspec.Struct, frozen=True):
    """How much of its guarantee a consumer uses."""

    used: Amount
    guaranteed: Amount
    priority: int = 0


def by_need(consumers: Mapping[str, GuaranteeUse]) -> list[str]:
    """The neediest first: by the part of the guarantee that is used, then the higher priority, then the name.

    Consumers without a guarantee come last. Reclaim from the end.
    """

    def rank(name: str) -> tuple[bool, mpq, int, str]:
        consumer = consumers[name]
        ratio = mpq(consumer.used) / mpq(consumer.guaranteed) if consumer.guaranteed else mpq(consumer.used)
        return not consumer.guaranteed, ratio, -consumer.priority, name

    return sorted(consumers, key=rank)


def borrowed_share(used: Amounts, nominal: Amounts, lendable: Amounts, weight: Amount = 1) -> mpq:
    """What is used beyond `nominal` as a share of what is lendable: the largest of all resources, by weight; exact.

    Raises ZeroDivisionError for a weight of 0: such a consumer ranks after all others that borrow.
    """
    shares = (
        mpq(amount - nominal.get(name, 0)) / mpq(lendable[name])
        for name, amount in used.items()
        if lendable.get(name) and amount > nominal.get(name, 0)
    )
    return max(shares, default=mpq(0)) / mpq(weight)
