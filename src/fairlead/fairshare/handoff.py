"""What may be used now, while what is deserved is still being freed (S2-35).

A consumer that has too much is granted no more than it deserves. One that has too little is granted what it has and
its part of what is free: never what somebody else still holds, or it could be taken twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gmpy2 import mpq

from fairlead.fairshare.claims import Amount
from fairlead.fairshare.filling import Strand, fill

_ONLY = "amount"


@dataclass(frozen=True, slots=True)
class Holding:
    """One consumer and one resource; `used` counts pods that are ending, too."""

    deserved: Amount
    used: Amount
    weight: Amount = 1


def granted(holdings: Mapping[str, Holding], capacity: Amount) -> dict[str, mpq]:
    """What each may use of one resource; together with what is still held beyond that, never more than there is."""
    free = max(mpq(capacity) - sum(mpq(one.used) for one in holdings.values()), mpq(0))
    lacking = {name: mpq(one.deserved) - one.used for name, one in sorted(holdings.items()) if one.deserved > one.used}
    left = {_ONLY: free}
    first = {name: _strand(lacking[name], mpq(holdings[name].weight)) for name in lacking if holdings[name].weight > 0}
    fill(list(first.values()), left)
    last = {name: _strand(lacking[name], mpq(1)) for name in lacking if name not in first}
    fill(list(last.values()), left)
    more = {name: strand.position for name, strand in (first | last).items()}
    return {name: mpq(one.used) + more[name] if name in more else mpq(one.deserved) for name, one in holdings.items()}


def _strand(amount: mpq, weight: mpq) -> Strand:
    return Strand({_ONLY: mpq(1)}, weight, mpq(0), amount)
