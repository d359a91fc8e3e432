"""Progressive filling: all weighted dominant shares rise at one level until something stops them (DRF).

    level ▲   a ─────────────┐ demand met            A flow is what grows in fixed proportions: a consumer whose pods
          │   b ──────┐ hard                          need all resources at once is one flow, a group that may take
          │   c ──────────┐ cpu used up               each resource by itself is one flow per resource.
          └────────────────────▶

The level does not rise in small steps: between the moments at which flows begin or end, every resource is used at a
constant rate. So the moments are kept in a heap, and the next one, or the next exhausted resource, is computed.
Ghodsi et al., Dominant Resource Fairness (NSDI 2011); with weights, caps and guarantees as lower bounds.

A pool is an amount for the flows of one consumer alone (a cap, or a reserve). It is looked at only when one of these
flows begins or stops; otherwise every moment would cost as much as there are consumers.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from gmpy2 import mpq

from fairlead.fairshare.claims import Amounts, bounded, bounded_up

#: Why a flow stopped, if not for a resource.
AT_DEMAND, AT_HARD = "demand", "hard"
#: What happens at a moment, in this order if several do.
_BEGINS, _ENDS, _EMPTIES = range(3)
_NOTHING: Final = mpq(0)


class Pool(msgspec.Struct, eq=False):
    """An amount of one resource for the flows of one consumer: a cap, or a reserve."""

    resource: str
    left: mpq
    #: A reserve is used before the shared capacity; a cap counts beside it, and stops the flows when it is empty.
    is_reserve: bool
    takers: list[int] = msgspec.field(default_factory=list)
    rate: mpq = _NOTHING
    #: The level at which `left` was computed, and the level at which it will be empty.
    since: mpq = _NOTHING
    until: mpq | None = None
    is_empty: bool = False


@dataclass(slots=True)
class Flow:
    """Grows along one vector: at position x it has x times the vector."""

    vector: dict[str, mpq]
    #: How far its position moves while the level rises by one.
    speed: mpq
    #: Its first and its last position.
    start: mpq
    end: mpq
    #: Why it stops at the end.
    reason: str = AT_DEMAND
    #: Whether it waits at its start until the level has caught up with it (`Surplus.TOTAL`).
    waits: bool = False
    pools: tuple[Pool, ...] = ()
    position: mpq = field(default=_NOTHING)
    stopped_by: str = ""

    def begins_at(self) -> mpq:
        return self.start / self.speed if self.waits else _NOTHING

    def ends_at(self) -> mpq:
        return (self.end if self.waits else self.end - self.start) / self.speed

    def at(self, level: mpq) -> mpq:
        """Its position at a level between `begins_at` and `ends_at`."""
        return self.speed * level if self.waits else self.start + self.speed * level

    def shared(self) -> Mapping[str, mpq]:
        """The part of its vector that comes from the shared capacity."""
        own = {pool.resource for pool in self.pools if pool.is_reserve and not pool.is_empty}
        return {name: amount for name, amount in self.vector.items() if name not in own} if own else self.vector


def fill(flows: Sequence[Flow], left: dict[str, mpq]) -> None:
    """Raise the level until every flow has stopped, and update `left`, what remains of each resource.

    The caller has subtracted what the flows have at their start from `left` already.
    """
    _Filling(flows, left).run()


class _Filling:
    """The state of one `fill`."""

    def __init__(self, flows: Sequence[Flow], left: dict[str, mpq]) -> None:
        self._flows, self._left = flows, left
        self._level = _NOTHING
        self._rates: dict[str, mpq] = dict.fromkeys(left, _NOTHING)
        self._growing: dict[int, None] = {}
        self._pools: list[Pool] = []
        self._numbers: dict[Pool, int] = {}
        self._moments: list[tuple[mpq, int, int]] = []  # level, what happens, number of the flow or pool

    def run(self) -> None:
        self._expect()
        while self._moments:
            moment, what, number = self._moments[0]
            full = self._next_full(moment - self._level)
            if full is not None:
                resource, step = full
                self._raise(bounded(self._level + step))
                self._left[resource] = _NOTHING
                self._stop_all(resource)
                continue
            self._raise(moment)
            heapq.heappop(self._moments)
            if what == _EMPTIES:
                self._empty(self._pools[number])
            elif not self._flows[number].stopped_by:
                if what == _ENDS:
                    self._stop(number, self._flows[number].end, self._flows[number].reason)
                else:
                    self._begin(number)

    def _expect(self) -> None:
        for number, flow in enumerate(self._flows):
            flow.position = flow.start
            if flow.end <= flow.start:
                flow.stopped_by = flow.reason
            elif flow.speed > 0:
                self._moments += ((flow.begins_at(), _BEGINS, number), (flow.ends_at(), _ENDS, number))
            for pool in flow.pools:
                if pool not in self._numbers:
                    self._numbers[pool] = len(self._pools)
                    self._pools.append(pool)
                    pool.is_empty = not pool.left
        heapq.heapify(self._moments)

    def _next_full(self, within: mpq) -> tuple[str, mpq] | None:
        """The first resource to be used up within that rise of the level, and the rise until then."""
        full: tuple[mpq, str] | None = None
        for name, rate in self._rates.items():
            if rate > 0 and self._left[name] < rate * within:
                step = self._left[name] / rate
                if full is None or (step, name) < full:
                    full = step, name
        return None if full is None else (full[1], full[0])

    def _raise(self, to: mpq) -> None:
        step = to - self._level
        if step > 0:
            for name, rate in self._rates.items():
                if rate > 0:
                    self._left[name] = max(bounded(self._left[name] - rate * step), _NOTHING)
        self._level = to

    # --- flows ------------------------------------------------------------------------------------------------------

    def _begin(self, number: int) -> None:
        flow = self._flows[number]
        if any(pool.is_empty and not pool.is_reserve for pool in flow.pools):
            flow.stopped_by = AT_HARD
            return
        shared = flow.shared()
        if (missing := next((name for name in shared if not self._left[name]), None)) is not None:
            flow.stopped_by = missing
            return
        self._growing[number] = None
        for name, amount in shared.items():
            self._use(name, flow.speed * amount)
        for pool in flow.pools:
            if not pool.is_empty:
                pool.takers.append(number)
                self._draw(pool, flow.speed * flow.vector[pool.resource])

    def _use(self, name: str, more: mpq) -> None:
        self._rates[name] = bounded_up(self._rates[name] + more)

    def _stop(self, number: int, position: mpq, why: str) -> None:
        flow = self._flows[number]
        flow.position, flow.stopped_by = position, why
        if number in self._growing:
            del self._growing[number]
            for name, amount in flow.shared().items():
                self._rates[name] -= flow.speed * amount
            for pool in flow.pools:
                if number in pool.takers:
                    pool.takers.remove(number)
                    self._draw(pool, -flow.speed * flow.vector[pool.resource])

    def _stop_all(self, resource: str) -> None:
        """The resource is used up: stop all flows that need it."""
        for number in [index for index in self._growing if resource in self._flows[index].shared()]:
            self._stop_here(number, resource)
        self._rates[resource] = _NOTHING  # rounding may have left a remainder

    def _stop_here(self, number: int, why: str) -> None:
        flow = self._flows[number]
        self._stop(number, min(flow.at(self._level), flow.end), why)

    # --- pools ------------------------------------------------------------------------------------------------------

    def _draw(self, pool: Pool, more: mpq) -> None:
        """Change the rate at which the pool is used, from this level on."""
        pool.left = max(bounded(pool.left - pool.rate * (self._level - pool.since)), _NOTHING)
        pool.since, pool.until = self._level, None
        pool.rate = bounded_up(pool.rate + more) if pool.takers else _NOTHING
        if pool.rate:
            pool.until = bounded(self._level + pool.left / pool.rate)
            heapq.heappush(self._moments, (pool.until, _EMPTIES, self._numbers[pool]))

    def _empty(self, pool: Pool) -> None:
        """Its takers stop (a cap), or go on with the shared capacity (a reserve)."""
        if pool.until != self._level:
            return  # outdated: a taker began or stopped since this moment was computed
        pool.is_empty, pool.until = True, None
        takers, pool.takers = pool.takers, []
        for number in takers:
            if not pool.is_reserve:
                self._stop_here(number, AT_HARD)
                continue
            self._use(pool.resource, self._flows[number].speed * self._flows[number].vector[pool.resource])
            if not self._left[pool.resource]:
                self._stop_here(number, pool.resource)


def positive(amounts: Amounts, capacity: Amounts) -> dict[str, mpq]:
    """The amounts above zero of resources that the capacity names."""
    return {name: mpq(amount) for name, amount in sorted(amounts.items()) if amount > 0 and name in capacity}
