"""Progressive filling: everybody's weighted dominant share rises at one level until something stops it (DRF).

    level ▲   a ─────────────┐ demand met            A strand is what grows together: a consumer whose pods need
          │   b ──────┐ hard                          all their resources at once is one strand, a group that may
          │   c ──────────┐ cpu used up               take each resource by itself is one for each of them.
          └────────────────────▶

The level is not raised in steps: between two moments at which a strand begins or ends to grow, every resource is used
at a constant rate, so the moments are sorted and the next one, or the next resource to be used up, is computed.
Ghodsi et al., Dominant Resource Fairness (NSDI 2011); with weights, caps and guarantees as floors.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gmpy2 import mpq

from fairlead.fairshare.claims import Amounts, bounded, bounded_up

#: Why a strand stopped where it is.
AT_DEMAND, AT_HARD = "demand", "hard"


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
    position: mpq = field(default=mpq(0))
    stopped_by: str = ""

    def begins_at(self) -> mpq:
        return self.start / self.speed if self.waits else mpq(0)

    def ends_at(self) -> mpq:
        return (self.end if self.waits else self.end - self.start) / self.speed

    def at(self, level: mpq) -> mpq:
        """Its position at a level between its beginning and its end."""
        return self.speed * level if self.waits else self.start + self.speed * level


def fill(strands: Sequence[Strand], left: dict[str, mpq]) -> None:
    """Raise the level until every strand has stopped; `left` is what remains of each resource.

    What the strands have at their start must be taken off `left` already; it is, with the rest, when this returns.
    """
    moments: list[tuple[mpq, int, int]] = []  # level, 0: begins or 1: ends, strand
    for number, strand in enumerate(strands):
        strand.position = strand.start
        if strand.end <= strand.start:
            strand.stopped_by = strand.reason
        elif strand.speed > 0:
            moments += ((strand.begins_at(), 0, number), (strand.ends_at(), 1, number))
    heapq.heapify(moments)
    growing: dict[int, None] = {}
    rates: dict[str, mpq] = dict.fromkeys(left, mpq(0))
    level = mpq(0)
    while moments:
        moment, ends, number = moments[0]
        full = _next_full(rates, left, moment - level)
        if full is not None:
            resource, step = full
            level = _raise(level, bounded(level + step), rates, left)
            left[resource] = mpq(0)
            _stop_all(strands, growing, rates, level, resource)
            continue
        level = _raise(level, moment, rates, left)
        heapq.heappop(moments)
        strand = strands[number]
        if strand.stopped_by:
            continue
        if ends:
            _stop(strands, number, growing, rates, strand.end, strand.reason)
        elif (missing := next((name for name in strand.vector if not left[name]), None)) is not None:
            strand.stopped_by = missing
        else:
            growing[number] = None
            for name, amount in strand.vector.items():
                rates[name] = bounded_up(rates[name] + strand.speed * amount)


def _next_full(rates: Mapping[str, mpq], left: Mapping[str, mpq], within: mpq) -> tuple[str, mpq] | None:
    """The resource that is used up first within that much more level, and how much more that is."""
    full: tuple[mpq, str] | None = None
    for name, rate in rates.items():
        if rate > 0 and left[name] < rate * within:
            step = left[name] / rate
            if full is None or (step, name) < full:
                full = step, name
    return None if full is None else (full[1], full[0])


def _raise(level: mpq, to: mpq, rates: Mapping[str, mpq], left: dict[str, mpq]) -> mpq:
    step = to - level
    if step > 0:
        for name, rate in rates.items():
            if rate > 0:
                left[name] = max(bounded(left[name] - rate * step), mpq(0))
    return to


def _stop_all(
    strands: Sequence[Strand], growing: dict[int, None], rates: dict[str, mpq], level: mpq, resource: str
) -> None:
    """A resource is used up: whoever needs it stops where it is."""
    for number in [number for number in growing if resource in strands[number].vector]:
        strand = strands[number]
        _stop(strands, number, growing, rates, min(strand.at(level), strand.end), resource)
    rates[resource] = mpq(0)  # rounding may have left a trace of those that are gone


def _stop(
    strands: Sequence[Strand],
    number: int,
    growing: dict[int, None],
    rates: dict[str, mpq],
    position: mpq,
    why: str,
) -> None:
    strand = strands[number]
    strand.position, strand.stopped_by = position, why
    if number in growing:
        del growing[number]
        for name, amount in strand.vector.items():
            rates[name] -= strand.speed * amount


def taken(strands: Iterable[Strand], resources: Iterable[str]) -> dict[str, mpq]:
    """What the strands have."""
    total = dict.fromkeys(resources, mpq(0))
    for strand in strands:
        for name, amount in strand.vector.items():
            total[name] += strand.position * amount
    return total


def positive(amounts: Amounts, capacity: Amounts) -> dict[str, mpq]:
    """The amounts above zero of resources that there are."""
    return {name: mpq(amount) for name, amount in sorted(amounts.items()) if amount > 0 and name in capacity}
