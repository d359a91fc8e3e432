"""What each namespace deserved of the cluster and what it used, over a run: told by its Allocation.

Both are dominant shares: the part of whatever resource of the cluster it has most of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fairlead.api.quantity import QuantityError, parse
from fairlead.arbitrator.objects import ALLOCATIONS, Allocation
from fairlead.client.informer import Informers
from fairlead.runtime.clock import now
from fairlead.sim.mean_series import MeanSeries

_PREFIXES = ("requests.", "limits.")


#: Into so many parts a run is divided.
PARTS: Final = 24


class Shares(NamedTuple):
    """On average over the run, and in each part of it."""

    deserved: float
    used: float
    deserved_over_time: list[float]
    used_over_time: list[float]


class FairnessRecord:
    def __init__(self, informers: Informers, capacity: Callable[[], Mapping[str, int]]) -> None:
        """`capacity`: what all nodes together may give, by resource."""
        self.began, self._capacity = now(), capacity
        self._shares: dict[str, tuple[MeanSeries, MeanSeries]] = {}  # by namespace: deserved, used
        informers.of(ALLOCATIONS, Allocation).subscribe(self._allocation)

    def _allocation(self, old: Allocation | None, new: Allocation | None) -> None:
        allocation = new or old
        assert allocation is not None
        moment, capacity = now(), self._capacity()
        namespace = allocation.metadata.namespace
        if namespace not in self._shares:
            self._shares[namespace] = MeanSeries(self.began), MeanSeries(self.began)
        deserved, used = self._shares[namespace]
        deserved.change(moment, _dominant(new.status.deserved, capacity) if new is not None else 0.0)
        used.change(moment, _dominant(new.status.used, capacity) if new is not None else 0.0)

    def shares(self, end: float) -> dict[str, Shares]:
        """By namespace, as parts of the cluster; those that had and deserved nothing are left out."""
        length, found = end - self.began, {}
        for namespace, series in sorted(self._shares.items()):
            for each in series:
                each.advance(end)
            deserved, used = (round(each.area / length, 4) if length > 0 else 0.0 for each in series)
            if deserved or used:
                found[namespace] = Shares(deserved, used, *(each.means(PARTS) for each in series))
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
