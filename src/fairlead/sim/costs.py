"""How long nodes were there and what that costs, and how much of what is free lies in pieces.

A node's price is its annotation, an amount of money per hour; nodes of pools have that of their pool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.api.builtin import NODES
from fairlead.api.nodes import Node
from fairlead.api.pods import Pod
from fairlead.client.informer import Informers
from fairlead.node.allocation import amounts
from fairlead.runtime.clock import now
from fairlead.sim.admission import wants
from fairlead.sim.behaviour import PREFIX

#: The annotation of a node with its price per hour.
PRICE: Final = PREFIX + "price-per-hour"
_HOUR: Final = 3600.0
#: A node with less than this part of a resource left is full: what is left of others there is stranded.
_FULL: Final = 0.05


class NodeCosts:
    def __init__(self, informers: Informers, prices: Mapping[str, float]) -> None:
        """`prices`: of nodes that have no annotation."""
        self._prices, self._nodes = prices, informers.of(NODES, Node)
        self._since: dict[str, float] = {}
        self._price: dict[str, float] = {}
        self._hours = self._cost = 0.0
        self._has_price = False
        self._nodes.subscribe(self._node)

    def _node(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            name = new.metadata.name
            self._since.setdefault(name, now())
            price = _price(new.metadata.annotations.get(PRICE, ""), self._prices.get(name))
            if price is not None:
                self._price[name], self._has_price = price, True
        elif old is not None:
            self._hours, self._cost = self._sums([old.metadata.name], now())
            self._since.pop(old.metadata.name, None)

    def _sums(self, names: Iterable[str], end: float) -> tuple[float, float]:
        hours, cost = self._hours, self._cost
        for name in names:
            more = max(end - self._since.get(name, end), 0.0) / _HOUR
            hours, cost = hours + more, cost + more * self._price.get(name, 0.0)
        return hours, cost

    def node_hours(self, end: float) -> float:
        return round(self._sums(self._since, end)[0], 3)

    def cost(self, end: float) -> float | None:
        """None where no node has a price."""
        return round(self._sums(self._since, end)[1], 2) if self._has_price else None

    def fragmentation(self, pods: Iterable[Pod]) -> dict[str, float]:
        """By resource: which part of what is free lies on nodes that are full of another resource."""
        held: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for pod in pods:
            if pod.spec.node_name and not pod.is_finished:
                for name, amount in wants(pod).items():
                    held[pod.spec.node_name][name] += amount
        free: dict[str, int] = defaultdict(int)
        stranded: dict[str, int] = defaultdict(int)
        for node in self._nodes:
            there = amounts(node.status.allocatable)
            left = {name: max(there.get(name, 0) - held[node.metadata.name][name], 0) for name in ("cpu", "memory")}
            full = {name for name, amount in left.items() if amount < _FULL * there.get(name, 0)}
            for name, amount in left.items():
                free[name] += amount
                stranded[name] += amount if full - {name} else 0
        return {name: round(stranded[name] / amount, 4) if amount else 0.0 for name, amount in sorted(free.items())}


def _price(text: str, otherwise: float | None) -> float | None:
    try:
        return max(float(text), 0.0) if text else otherwise
    except ValueError:
        return otherwise
