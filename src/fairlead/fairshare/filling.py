"""Progressive filling: everybody's weighted dominant share rises at one level until something stops it (DRF).

    level ▲   a ─────────────┐ demand met            A strand is what grows together: a consumer whose pods need
          │   b ──────┐ hard                          all their resources at once is one strand, a group that may
          │   c ──────────┐ cpu used up               take each resource by itself is one for each of them.
          └────────────────────▶

The level is not raised in steps: between two moments at which a strand begins or ends to grow, every resource is used
at a constant rate, so the moments are sorted and the next one, or the next resource to be used up, is computed.
Ghodsi et al., Dominant Resource Fairness (NSDI 2011); with weights, caps and guarantees as floors.

What only one consumer takes of (a cap of its own, what is kept for it) is a purse: it is looked at only when one of
that consumer's strands begins or stops, or a thousand of them would be looked at in every moment.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gmpy2 import mpq

from fairlead.fairshare.claims import Amounts, bounded, bounded_up

#: Why a strand stopped where it is.
AT_DEMAND, AT_HARD = "demand", "hard"
#: What happens in a moment, in this order if several do.
_BEGINS, _ENDS, _EMPTIES = range(3)
_NOTHING: Final = mpq(0)


@dataclass(slots=True, eq=False)
class Purse:
    """An amount of one resource for the strands of one consumer."""

    resource: str
    left: mpq
    #: They take of it instead of what is left for all, until it is empty; a cap counts beside that, and stops them.
    is_reserve: bool
    takers: list[int] = field(default_factory=list)
    rate: mpq = _NOTHING
    #: The level at which that was left, and at which nothing will be.
    since: mpq = _NOTHING
    until: mpq | None = None
    is_empty: bool = False


@dataclass(slots=True)
class Strand:
    """Something that grows along one vector: at position x it has x times the vector."""

    vector: dict[str, mpq]
    #: How far it gets while the level rises by one.
    speed: mpq
    #: Where it starts and where it has enough.
    start: mpq
    end: mpq
    #: What it means to have arrived at the end.
    reason: str = AT_DEMAND
    #: Whether the start lies on its way: then it stays there until the level has caught up.
    waits: bool = False
    purses: tuple[Purse, ...] = ()
    position: mpq = field(default=_NOTHING)
    stopped_by: str = ""

    def begins_at(self) -> mpq:
        return self.start / self.speed if self.waits else _NOTHING

    def ends_at(self) -> mpq:
        return (self.end if self.waits else self.end - self.start) / self.speed

    def at(self, level: mpq) -> mpq:
        """Its position at a level between its beginning and its end."""
        return self.speed * level if self.waits else self.start + self.speed * level

    def shared(self) -> Mapping[str, mpq]:
        """What it takes of what is left for all."""
        own = {purse.resource for purse in self.purses if purse.is_reserve and not purse.is_empty}
        return {name: amount for name, amount in self.vector.items() if name not in own} if own else self.vector


def fill(strands: Sequence[Strand], left: dict[str, mpq]) -> None:
    """Raise the level until every strand has stopped; `left` is what remains of each resource.

    What the strands have at their start must be taken off `left` already; it is, with the rest, when this returns.
    """
    _Filling(strands, left).run()


class _Filling:
    """The level, on its way up."""

    def __init__(self, strands: Sequence[Strand], left: dict[str, mpq]) -> None:
        self._strands, self._left = strands, left
        self._level = _NOTHING
        self._rates: dict[str, mpq] = dict.fromkeys(left, _NOTHING)
        self._growing: dict[int, None] = {}
        self._purses: list[Purse] = []
        self._numbers: dict[Purse, int] = {}
        self._moments: list[tuple[mpq, int, int]] = []  # level, what happens, number of the strand or the purse

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
                self._empty(self._purses[number])
            elif not self._strands[number].stopped_by:
                if what == _ENDS:
                    self._stop(number, self._strands[number].end, self._strands[number].reason)
                else:
                    self._begin(number)

    def _expect(self) -> None:
        for number, strand in enumerate(self._strands):
            strand.position = strand.start
            if strand.end <= strand.start:
                strand.stopped_by = strand.reason
            elif strand.speed > 0:
                self._moments += ((strand.begins_at(), _BEGINS, number), (strand.ends_at(), _ENDS, number))
            for purse in strand.purses:
                if purse not in self._numbers:
                    self._numbers[purse] = len(self._purses)
                    self._purses.append(purse)
                    purse.is_empty = not purse.left
        heapq.heapify(self._moments)

    def _next_full(self, within: mpq) -> tuple[str, mpq] | None:
        """The resource that is used up first within that much more level, and how much more that is."""
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

    # --- strands ----------------------------------------------------------------------------------------------------

    def _begin(self, number: int) -> None:
        strand = self._strands[number]
        if any(purse.is_empty and not purse.is_reserve for purse in strand.purses):
            strand.stopped_by = AT_HARD
            return
        shared = strand.shared()
        if (missing := next((name for name in shared if not self._left[name]), None)) is not None:
            strand.stopped_by = missing
            return
        self._growing[number] = None
        for name, amount in shared.items():
            self._use(name, strand.speed * amount)
        for purse in strand.purses:
            if not purse.is_empty:
                purse.takers.append(number)
                self._draw(purse, strand.speed * strand.vector[purse.resource])

    def _use(self, name: str, more: mpq) -> None:
        self._rates[name] = bounded_up(self._rates[name] + more)

    def _stop(self, number: int, position: mpq, why: str) -> None:
        strand = self._strands[number]
        strand.position, strand.stopped_by = position, why
        if number in self._growing:
            del self._growing[number]
            for name, amount in strand.shared().items():
                self._rates[name] -= strand.speed * amount
            for purse in strand.purses:
                if number in purse.takers:
                    purse.takers.remove(number)
                    self._draw(purse, -strand.speed * strand.vector[purse.resource])

    def _stop_all(self, resource: str) -> None:
        """A resource is used up: whoever needs it stops where it is."""
        for number in [index for index in self._growing if resource in self._strands[index].shared()]:
            self._stop_here(number, resource)
        self._rates[resource] = _NOTHING  # rounding may have left a trace of those that are gone

    def _stop_here(self, number: int, why: str) -> None:
        strand = self._strands[number]
        self._stop(number, min(strand.at(self._level), strand.end), why)

    # --- purses -----------------------------------------------------------------------------------------------------

    def _draw(self, purse: Purse, more: mpq) -> None:
        """From now on so much more is taken of it."""
        purse.left = max(bounded(purse.left - purse.rate * (self._level - purse.since)), _NOTHING)
        purse.since, purse.until = self._level, None
        purse.rate = bounded_up(purse.rate + more) if purse.takers else _NOTHING
        if purse.rate:
            purse.until = bounded(self._level + purse.left / purse.rate)
            heapq.heappush(self._moments, (purse.until, _EMPTIES, self._numbers[purse]))

    def _empty(self, purse: Purse) -> None:
        """Its takers stop, or go on with what is left for all."""
        if purse.until != self._level:
            return  # it was thought so before one of them began or stopped
        purse.is_empty, purse.until = True, None
        takers, purse.takers = purse.takers, []
        for number in takers:
            if not purse.is_reserve:
                self._stop_here(number, AT_HARD)
                continue
            self._use(purse.resource, self._strands[number].speed * self._strands[number].vector[purse.resource])
            if not self._left[purse.resource]:
                self._stop_here(number, purse.resource)


def positive(amounts: Amounts, capacity: Amounts) -> dict[str, mpq]:
    """The amounts above zero of resources that there are."""
    return {name: mpq(amount) for name, amount in sorted(amounts.items()) if amount > 0 and name in capacity}
