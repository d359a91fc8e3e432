"""Seats: how many requests of each priority level are carried out at once.

A level has its share of all seats. What it may lend is lent while it does not use it, to whoever needs it at that
moment; the rest is kept free for it. Requests are short, so what is lent comes back by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead.api.flow_control import PriorityLevelConfiguration

#: A wide request (a long list) takes no more than so many seats, and no more than this part of its level.
_WIDEST: Final = 10
_WIDEST_PART: Final = 0.15


class Allotment(msgspec.Struct):
    """The seats of one level."""

    nominal: int
    #: How many of those are kept free for it.
    reserved: int
    #: How many it may have with all that it borrows.
    most: int
    in_use: int = 0

    @property
    def widest(self) -> int:
        """How many seats one request may take."""
        return min(max(math.ceil(self.nominal * _WIDEST_PART), 1), _WIDEST)


class Seats:
    """All seats of a server, and which levels have them."""

    def __init__(self, total: int) -> None:
        self._wanted = total
        self.total = total
        self._allotments: list[Allotment] = []

    def divide(self, levels: Iterable[tuple[PriorityLevelConfiguration, Allotment]]) -> None:
        """Give each level its share. Requests that are being carried out keep their seats."""
        divided = list(levels)
        shares = [_shares(level) for level, _ in divided]
        whole = sum(share for share, _, _ in shares)
        self._allotments = []
        lendable = 0
        for (_, allotment), (share, percent, _) in zip(divided, shares, strict=True):
            allotment.nominal = math.ceil(self._wanted * share / whole) if whole else 0
            lent = round(allotment.nominal * percent / 100)
            allotment.reserved = allotment.nominal - lent
            lendable += lent
            self._allotments.append(allotment)
        for allotment, (_, _, borrowing) in zip(self._allotments, shares, strict=True):
            borrowable = lendable - (allotment.nominal - allotment.reserved)
            if borrowing is not None:
                borrowable = min(borrowable, round(allotment.nominal * borrowing / 100))
            allotment.most = allotment.nominal + borrowable
        self.total = sum(allotment.nominal for allotment in self._allotments)

    def take(self, allotment: Allotment, seats: int) -> bool:
        """Take seats, if there are any for that level."""
        wanted = allotment.in_use + seats
        if wanted > allotment.reserved:
            if wanted > allotment.most:
                return False
            bound = sum(max(each.in_use, each.reserved) for each in self._allotments)
            if bound - max(allotment.in_use, allotment.reserved) + wanted > self.total:
                return False
        allotment.in_use = wanted
        return True


def _shares(level: PriorityLevelConfiguration) -> tuple[int, int, int | None]:
    """Its shares, how much of them it lends, and how much it may borrow, in percent (None: whatever there is)."""
    if (limited := level.spec.limited) is not None:
        return limited.nominal_concurrency_shares or 0, limited.lendable_percent or 0, limited.borrowing_limit_percent
    exempt = level.spec.exempt
    if exempt is None:
        return 0, 0, 0
    return exempt.nominal_concurrency_shares or 0, exempt.lendable_percent or 0, 0
