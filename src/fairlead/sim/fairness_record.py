"""What each namespace deserved of the cluster and what it used, on average over a run: told by its Allocation.

Both are dominant shares: the part of whatever resource of the cluster it has most of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fairlead.api.quantity import QuantityError, parse
from fairlead.arbitrator.objects import ALLOCATIONS, Allocation
from fairlead.client.informer import Informers
from fairlead.runtime.clock import now

_PREFIXES = ("requests.", "limits.")


@dataclass(slots=True)
class _Shares:
    deserved: float = 0.0
    used: float = 0.0
    since: float = 0.0
    #: Sums of share times seconds.
    deserved_area: float = 0.0
    used_area: float = 0.0

    def until(self, moment: float) -> None:
        self.deserved_area += self.deserved * (moment - self.since)
        self.used_area += self.used * (moment - self.since)
        self.since = moment


class FairnessRecord:
    def __init__(self, informers: Informers, capacity: Callable[[], Mapping[str, int]]) -> None:
        """`capacity`: what all nodes together may give, by resource."""
        self.began, self._capacity = now(), capacity
        self._shares: dict[str, _Shares] = {}
        informers.of(ALLOCATIONS, Allocation).subscribe(self._allocation)

    def _allocation(self, old: Allocation | None, new: Allocation | None) -> None:
        allocation = new or old
        assert allocation is not None
        moment = now()
        shares = self._shares.setdefault(allocation.metadata.namespace, _Shares(since=moment))
        shares.until(moment)
        capacity = self._capacity()
        shares.deserved = _dominant(new.status.deserved, capacity) if new is not None else 0.0
        shares.used = _dominant(new.status.used, capacity) if new is not None else 0.0

    def means(self, end: float) -> dict[str, tuple[float, float]]:
        """By namespace: deserved and used, as parts of the cluster; those that had neither are left out."""
        length = end - self.began
        found = {}
        for namespace, shares in sorted(self._shares.items()):
            shares.until(end)
            means = (shares.deserved_area / length, shares.used_area / length) if length > 0 else (0.0, 0.0)
            if any(means):
                found[namespace] = (round(means[0], 4), round(means[1], 4))
        return found


def _dominant(held: Mapping[str, str], capacity: Mapping[str, int]) -> float:
    shares = [0.0]
    for name, text in held.items():
        resource = next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)
        whole = capacity.get(resource, 0)
        try:
            amount = parse(str(text))
        except QuantityError:
            continue
        if whole and resource != "pods":
            shares.append((amount.milli if resource == "cpu" else amount.units) / whole)
    return max(shares)
