"""What each of several consumers deserves of one capacity: weighted DRF with guarantees, caps and idle shares lent.

First for the unlimited, who get what they demand, then for everybody else: guarantees are served (in proportion, if
there is not enough for all); the level rises for those with a weight; what is left goes to those without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gmpy2 import mpq

from fairlead.fairshare.claims import Amounts, Claim, Model, Share, Surplus, capped, dominant
from fairlead.fairshare.filling import AT_DEMAND, AT_HARD, Purse, Strand, fill, positive


@dataclass(slots=True)
class _Consumer:
    """A claim on its way to a share."""

    claim: Claim
    strands: list[Strand]
    #: What it is guaranteed of what it wants, and what it could be given of that.
    wanted: dict[str, mpq]
    guaranteed: dict[str, mpq]


def shares(claims: Iterable[Claim], capacity: Amounts, surplus: Surplus = Surplus.TOTAL) -> dict[str, Share]:
    """What every claim deserves, by name. The order of the claims does not matter.

    Raises ValueError for two claims of one name, and for negative amounts and weights.
    """
    ordered = sorted(claims, key=lambda claim: claim.name)
    _check(ordered, capacity)
    whole = {name: mpq(amount) for name, amount in capacity.items()}
    left = dict(whole)
    consumers = [_consumer(claim, whole) for claim in ordered]
    for consumer in consumers:
        _cap(consumer)
    for is_unlimited in (True, False):
        _serve(
            [consumer for consumer in consumers if consumer.claim.is_unlimited is is_unlimited], left, whole, surplus
        )
    return {consumer.claim.name: _share(consumer, whole) for consumer in consumers}


def _check(claims: Sequence[Claim], capacity: Amounts) -> None:
    for claim, following in pairwise(claims):
        if claim.name == following.name:
            raise ValueError(f"two claims are called {claim.name}")
    for claim in claims:
        amounts = (*claim.demand.values(), *claim.reserved.values(), *claim.hard.values(), claim.weight)
        if any(amount < 0 for amount in amounts):
            raise ValueError(f"the claim of {claim.name} has a negative amount")
    if any(amount < 0 for amount in capacity.values()):
        raise ValueError("the capacity has a negative amount")


# --- strands --------------------------------------------------------------------------------------------------------


def reach(claim: Claim, capacity: Amounts) -> dict[str, mpq]:
    """The most that its pods can take of each resource: a cap on one stops those that need it, all of them."""
    return _reach(claim, _strands(claim, capacity))


def _reach(claim: Claim, strands: Sequence[Strand]) -> dict[str, mpq]:
    most: dict[str, mpq] = {}
    for strand in strands:
        for name, amount in strand.vector.items():
            most[name] = most.get(name, mpq(0)) + strand.end * amount
    return capped(most, claim.hard)


def _consumer(claim: Claim, whole: Mapping[str, mpq]) -> _Consumer:
    strands = _strands(claim, whole)
    reserved = positive(claim.reserved, whole)
    if not claim.lends:
        wanted = capped(reserved, claim.hard)
    else:
        most = _reach(claim, strands) if reserved else {}
        wanted = {name: min(amount, most.get(name, mpq(0))) for name, amount in reserved.items()}
    consumer = _Consumer(claim, strands, {name: amount for name, amount in wanted.items() if amount}, {})
    _set_speed(consumer, mpq(claim.weight), whole)
    return consumer


def _strands(claim: Claim, capacity: Amounts) -> list[Strand]:
    demand = positive(claim.demand, capacity)
    if claim.parts:
        vectors = [vector for part in claim.parts if (vector := positive(part, capacity))]
    elif claim.model is Model.TOGETHER:
        vectors = [demand] if demand else []
    else:
        vectors = [{name: amount} for name, amount in sorted(demand.items())]
    return [_strand(vector, claim.hard) for vector in vectors]


def _strand(vector: dict[str, mpq], hard: Amounts) -> Strand:
    """From nothing to all that is demanded, or to the first cap."""
    end, reason = mpq(1), AT_DEMAND
    for name, amount in vector.items():
        if name in hard and hard[name] < end * amount:
            end, reason = mpq(hard[name]) / amount, AT_HARD
    return Strand(vector, mpq(0), mpq(0), end, reason)


def _cap(consumer: _Consumer) -> None:
    """A cap over several parts is a purse of which they all take."""
    if not consumer.claim.parts:
        return
    for name, amount in consumer.claim.hard.items():
        if _all(consumer).get(name, 0) > amount:
            _give(consumer, Purse(name, mpq(amount), is_reserve=False))


def _give(consumer: _Consumer, purse: Purse) -> None:
    for strand in consumer.strands:
        if purse.resource in strand.vector:
            strand.purses += (purse,)


def _set_speed(consumer: _Consumer, weight: mpq, whole: Mapping[str, mpq]) -> None:
    """All strands of a consumer move as its whole demand would: at level 1 its dominant share is its weight."""
    share = dominant(_all(consumer), whole)
    for strand in consumer.strands:
        strand.speed = weight / share if share else mpq(0)


def _all(consumer: _Consumer) -> dict[str, mpq]:
    """What all its strands would have at their ends."""
    amounts: dict[str, mpq] = {}
    for strand in consumer.strands:
        for name, amount in strand.vector.items():
            amounts[name] = amounts.get(name, mpq(0)) + amount
    return amounts


# --- guarantees, and what is left -----------------------------------------------------------------------------------


def _serve(consumers: Sequence[_Consumer], left: dict[str, mpq], whole: Mapping[str, mpq], surplus: Surplus) -> None:
    _serve_guarantees(consumers, left)
    for consumer in consumers:
        for strand in consumer.strands:
            strand.waits = surplus is Surplus.TOTAL
    fill([strand for consumer in consumers if consumer.claim.weight > 0 for strand in consumer.strands], left)
    weightless = [consumer for consumer in consumers if consumer.claim.weight == 0]
    for consumer in weightless:
        _set_speed(consumer, mpq(1), whole)
    fill([strand for consumer in weightless for strand in consumer.strands], left)


def _serve_guarantees(consumers: Sequence[_Consumer], left: dict[str, mpq]) -> None:
    """Put every strand where its guarantee lets it begin, and take that off what is left."""
    for name in left:
        _guarantee(name, [consumer for consumer in consumers if consumer.wanted.get(name)], left[name])
    spare = {
        name: amount - sum((consumer.guaranteed.get(name, 0) for consumer in consumers), mpq(0))
        for name, amount in left.items()
    }
    _carry(consumers, spare)
    for consumer in consumers:
        for strand in consumer.strands:
            for name, amount in strand.vector.items():
                left[name] -= strand.start * amount
            for purse in strand.purses:
                purse.left -= strand.start * strand.vector[purse.resource]
        if not consumer.claim.lends:
            _hold(consumer, left)


def _guarantee(name: str, consumers: Sequence[_Consumer], available: mpq) -> None:
    """Everybody's guarantee of one resource, or what max-min by the guarantees makes of too little."""
    if sum(consumer.wanted[name] for consumer in consumers) <= available:
        for consumer in consumers:
            consumer.guaranteed[name] = consumer.wanted[name]
        return
    strands = [
        Strand({name: mpq(1)}, mpq(consumer.claim.reserved[name]), mpq(0), consumer.wanted[name])
        for consumer in consumers
    ]
    fill(strands, {name: available})
    for consumer, strand in zip(consumers, strands, strict=True):
        consumer.guaranteed[name] = strand.position


def _carry(consumers: Sequence[_Consumer], spare: dict[str, mpq]) -> None:
    """A guarantee of one resource carries the others that its pods need, as far as nobody is guaranteed those.

    Pods that need them all at once go no further than the scarcest lets them.
    """
    carried: list[tuple[Strand, Strand]] = []
    for consumer in consumers:
        if not consumer.guaranteed:
            continue
        reached = _guaranteed_positions(consumer)
        for strand, positions in zip(consumer.strands, reached, strict=True):
            strand.start = max(positions.values(), default=mpq(0))
        _keep_within_caps(consumer)
        for strand, positions in zip(consumer.strands, reached, strict=True):
            goal = strand.start
            lacking = {
                name: amount * (goal - positions.get(name, mpq(0))) / goal
                for name, amount in strand.vector.items()
                if positions.get(name, mpq(0)) < goal
            }
            if lacking:
                carried.append((strand, Strand(lacking, goal, mpq(0), goal)))
            if consumer.claim.lends:  # where a cap has put it back, it does not use all that it is guaranteed
                for name, position in positions.items():
                    spare[name] += max(position - goal, mpq(0)) * strand.vector[name]
    fill([strand for _, strand in carried], spare)
    for strand, carrying in carried:
        if carrying.position < carrying.end:
            strand.start = min(
                strand.start,
                *(_reached(strand, name, carrying) for name in carrying.vector),
            )


def _guaranteed_positions(consumer: _Consumer) -> list[dict[str, mpq]]:
    """How far each guarantee brings each strand: all of them as far, but those that a cap of their own stops."""
    reached: list[dict[str, mpq]] = [{} for _ in consumer.strands]
    whole = _all(consumer)
    for name, amount in consumer.guaranteed.items():
        taking = [number for number, strand in enumerate(consumer.strands) if name in strand.vector]
        if len(taking) == 1:
            (number,) = taking
            reached[number][name] = min(amount / whole[name], consumer.strands[number].end)
        elif taking:
            purses = {purse for number in taking for purse in consumer.strands[number].purses}
            caps = {purse: Purse(purse.resource, purse.left, is_reserve=False) for purse in purses}
            rising = [
                Strand(strand.vector, mpq(1), mpq(0), strand.end, purses=tuple(caps[purse] for purse in strand.purses))
                for strand in (consumer.strands[number] for number in taking)
            ]
            fill(rising, whole | {name: amount})
            for number, strand in zip(taking, rising, strict=True):
                reached[number][name] = strand.position
    return reached


def _keep_within_caps(consumer: _Consumer) -> None:
    """Where a cap is less than several parts are guaranteed together, all begin with the same part of it."""
    factors: dict[Purse, mpq] = {}
    for purse in {purse for strand in consumer.strands for purse in strand.purses}:
        needed = sum((strand.start * strand.vector.get(purse.resource, 0) for strand in consumer.strands), mpq(0))
        factors[purse] = min(purse.left / needed, mpq(1)) if needed else mpq(1)
    for strand in consumer.strands:
        strand.start *= min((factors[purse] for purse in strand.purses), default=mpq(1))


def _reached(strand: Strand, name: str, carrying: Strand) -> mpq:
    """How far the strand comes with what it is guaranteed of one resource and what of it was carried along."""
    amount, missing = strand.vector[name], carrying.vector[name]
    guaranteed = carrying.end * (amount - missing)
    return (guaranteed + carrying.position * missing) / amount


def _hold(consumer: _Consumer, left: dict[str, mpq]) -> None:
    """What is reserved and not lent is kept, used or not: its own pods take of that first."""
    for name, amount in consumer.guaranteed.items():
        taking = [strand for strand in consumer.strands if name in strand.vector]
        idle = amount - sum((strand.start * strand.vector[name] for strand in taking), mpq(0))
        if idle > 0:
            left[name] -= idle
            _give(consumer, Purse(name, idle, is_reserve=True))


# --- the outcome ----------------------------------------------------------------------------------------------------


def _share(consumer: _Consumer, whole: Mapping[str, mpq]) -> Share:
    claim = consumer.claim
    deserved = dict.fromkeys(sorted(whole), mpq(0))
    for strand in consumer.strands:
        for name, amount in strand.vector.items():
            deserved[name] += strand.position * amount
    bottleneck = _bottleneck(consumer)
    if not claim.lends:
        deserved = {name: max(amount, consumer.guaranteed.get(name, mpq(0))) for name, amount in deserved.items()}
    is_met = not any(_is_denied(consumer, name) for name, amount in consumer.wanted.items() if deserved[name] < amount)
    share = dominant(deserved, whole) / claim.weight if claim.weight else mpq(0)
    return Share(claim.name, deserved, share, bottleneck, is_met)


def _is_denied(consumer: _Consumer, name: str) -> bool:
    """Whether it lacks some of its guarantee because the cluster does, not because its own caps stop it."""
    stops = [_stop_of(strand) for strand in consumer.strands if name in strand.vector]
    return not consumer.claim.lends or any(why not in (AT_DEMAND, AT_HARD) for why in stops)


def _bottleneck(consumer: _Consumer) -> str:
    """Of several strands, the resource that stopped one; demand only if it stopped them all."""
    stops = [_stop_of(strand) for strand in consumer.strands]
    return next((why for why in stops if why not in (AT_DEMAND, AT_HARD)), AT_HARD if AT_HARD in stops else AT_DEMAND)


def _stop_of(strand: Strand) -> str:
    """What stopped it; where it could not even begin, the first thing that it needs and that is not there."""
    return strand.stopped_by or next(iter(strand.vector))
