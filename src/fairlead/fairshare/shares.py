"""What each of several consumers deserves of one capacity: weighted DRF with guarantees, caps and idle shares lent.

First the unlimited are served, then all others. For each of the two: guarantees (in proportion, if there is not enough
for all), then the level rises for consumers with a weight, then consumers without weight share the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec
from gmpy2 import mpq

from fairlead.fairshare.claims import Amounts, Claim, Model, Share, Surplus, capped, dominant
from fairlead.fairshare.filling import AT_DEMAND, AT_HARD, Flow, Pool, fill, positive


class _Consumer(msgspec.Struct):
    """A claim while its share is worked out."""

    claim: Claim
    flows: list[Flow]
    #: The part of its guarantee that it demands, and the part of that which it gets.
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
    for claim_before, claim_after in pairwise(claims):
        if claim_before.name == claim_after.name:
            raise ValueError(f"two claims are called {claim_before.name}")
    for claim in claims:
        amounts = (*claim.demand.values(), *claim.reserved.values(), *claim.hard.values(), claim.weight)
        if any(amount < 0 for amount in amounts):
            raise ValueError(f"the claim of {claim.name} has a negative amount")
    if any(amount < 0 for amount in capacity.values()):
        raise ValueError("the capacity has a negative amount")


# --- flows ----------------------------------------------------------------------------------------------------------


def reach(claim: Claim, capacity: Amounts) -> dict[str, mpq]:
    """The most that its pods can use of each resource: a cap on one resource stops all pods that need it."""
    return _reach(claim, _flows(claim, capacity))


def _reach(claim: Claim, flows: Sequence[Flow]) -> dict[str, mpq]:
    most: dict[str, mpq] = {}
    for flow in flows:
        for name, amount in flow.vector.items():
            most[name] = most.get(name, mpq(0)) + flow.end * amount
    return capped(most, claim.hard)


def _consumer(claim: Claim, whole: Mapping[str, mpq]) -> _Consumer:
    flows = _flows(claim, whole)
    reserved = positive(claim.reserved, whole)
    if not claim.lends:
        wanted = capped(reserved, claim.hard)
    else:
        most = _reach(claim, flows) if reserved else {}
        wanted = {name: min(amount, most.get(name, mpq(0))) for name, amount in reserved.items()}
    consumer = _Consumer(claim, flows, {name: amount for name, amount in wanted.items() if amount}, {})
    _set_speed(consumer, mpq(claim.weight), whole)
    return consumer


def _flows(claim: Claim, capacity: Amounts) -> list[Flow]:
    demand = positive(claim.demand, capacity)
    if claim.parts:
        vectors = [vector for part in claim.parts if (vector := positive(part, capacity))]
    elif claim.model is Model.TOGETHER:
        vectors = [demand] if demand else []
    else:
        vectors = [{name: amount} for name, amount in sorted(demand.items())]
    return [_flow(vector, claim.hard) for vector in vectors]


def _flow(vector: dict[str, mpq], hard: Amounts) -> Flow:
    """A flow from nothing to the whole demand, or to the first cap."""
    end, reason = mpq(1), AT_DEMAND
    for name, amount in vector.items():
        if name in hard and hard[name] < end * amount:
            end, reason = mpq(hard[name]) / amount, AT_HARD
    return Flow(vector, mpq(0), mpq(0), end, reason)


def _cap(consumer: _Consumer) -> None:
    """A cap over several parts becomes a pool that they all use."""
    if not consumer.claim.parts:
        return
    together = _all(consumer)
    for name, amount in consumer.claim.hard.items():
        if together.get(name, 0) > amount:
            _give(consumer, Pool(name, mpq(amount), is_reserve=False))


def _give(consumer: _Consumer, pool: Pool) -> None:
    for flow in consumer.flows:
        if pool.resource in flow.vector:
            flow.pools += (pool,)


def _set_speed(consumer: _Consumer, weight: mpq, whole: Mapping[str, mpq]) -> None:
    """All flows of a consumer get the speed at which its dominant share equals its weight at level 1."""
    share = dominant(_all(consumer), whole)
    for flow in consumer.flows:
        flow.speed = weight / share if share else mpq(0)


def _all(consumer: _Consumer) -> dict[str, mpq]:
    """What all its flows have at their ends."""
    amounts: dict[str, mpq] = {}
    for flow in consumer.flows:
        for name, amount in flow.vector.items():
            amounts[name] = amounts.get(name, mpq(0)) + amount
    return amounts


# --- guarantees, and what is left -----------------------------------------------------------------------------------


def _serve(consumers: Sequence[_Consumer], left: dict[str, mpq], whole: Mapping[str, mpq], surplus: Surplus) -> None:
    _serve_guarantees(consumers, left)
    for consumer in consumers:
        for flow in consumer.flows:
            flow.waits = surplus is Surplus.TOTAL
    fill([flow for consumer in consumers if consumer.claim.weight > 0 for flow in consumer.flows], left)
    weightless = [consumer for consumer in consumers if consumer.claim.weight == 0]
    for consumer in weightless:
        _set_speed(consumer, mpq(1), whole)
    fill([flow for consumer in weightless for flow in consumer.flows], left)


def _serve_guarantees(consumers: Sequence[_Consumer], left: dict[str, mpq]) -> None:
    """Start every flow where its guarantee puts it, and subtract that from `left`."""
    for name in left:
        _guarantee(name, [consumer for consumer in consumers if consumer.wanted.get(name)], left[name])
    spare = {
        name: amount - sum((consumer.guaranteed.get(name, 0) for consumer in consumers), mpq(0))
        for name, amount in left.items()
    }
    _carry(consumers, spare)
    for consumer in consumers:
        for flow in consumer.flows:
            for name, amount in flow.vector.items():
                left[name] -= flow.start * amount
            for pool in flow.pools:
                pool.left -= flow.start * flow.vector[pool.resource]
        if not consumer.claim.lends:
            _hold(consumer, left)


def _guarantee(name: str, consumers: Sequence[_Consumer], available: mpq) -> None:
    """Everybody's guarantee of one resource; max-min in proportion to the guarantees if there is too little."""
    if sum(consumer.wanted[name] for consumer in consumers) <= available:
        for consumer in consumers:
            consumer.guaranteed[name] = consumer.wanted[name]
        return
    flows = [
        Flow({name: mpq(1)}, mpq(consumer.claim.reserved[name]), mpq(0), consumer.wanted[name])
        for consumer in consumers
    ]
    fill(flows, {name: available})
    for consumer, flow in zip(consumers, flows, strict=True):
        consumer.guaranteed[name] = flow.position


def _carry(consumers: Sequence[_Consumer], spare: dict[str, mpq]) -> None:
    """With a guarantee of one resource its pods also need their other resources: give them those from what nobody is
    guaranteed (`spare`), and set a flow back to what the scarcest of them allows.
    """
    carried: list[tuple[Flow, Flow]] = []
    for consumer in consumers:
        if not consumer.guaranteed:
            continue
        reached = _guaranteed_positions(consumer)
        for flow, positions in zip(consumer.flows, reached, strict=True):
            flow.start = max(positions.values(), default=mpq(0))
        _keep_within_caps(consumer)
        for flow, positions in zip(consumer.flows, reached, strict=True):
            goal = flow.start
            lacking = {
                name: amount * (goal - positions.get(name, mpq(0))) / goal
                for name, amount in flow.vector.items()
                if positions.get(name, mpq(0)) < goal
            }
            if lacking:
                carried.append((flow, Flow(lacking, goal, mpq(0), goal)))
            if consumer.claim.lends:  # a flow that a cap has set back does not use its whole guarantee
                for name, position in positions.items():
                    spare[name] += max(position - goal, mpq(0)) * flow.vector[name]
    fill([flow for _, flow in carried], spare)
    for flow, carrying in carried:
        if carrying.position < carrying.end:
            flow.start = min(
                flow.start,
                *(_reached(flow, name, carrying) for name in carrying.vector),
            )


def _guaranteed_positions(consumer: _Consumer) -> list[dict[str, mpq]]:
    """The position to which each guarantee brings each flow: the same for all, except where a cap stops one."""
    reached: list[dict[str, mpq]] = [{} for _ in consumer.flows]
    whole = _all(consumer)
    for name, amount in consumer.guaranteed.items():
        taking = [number for number, flow in enumerate(consumer.flows) if name in flow.vector]
        if len(taking) == 1:
            (number,) = taking
            reached[number][name] = min(amount / whole[name], consumer.flows[number].end)
        elif taking:
            pools = {pool for number in taking for pool in consumer.flows[number].pools}
            caps = {pool: Pool(pool.resource, pool.left, is_reserve=False) for pool in pools}
            rising = [
                Flow(flow.vector, mpq(1), mpq(0), flow.end, pools=tuple(caps[pool] for pool in flow.pools))
                for flow in (consumer.flows[number] for number in taking)
            ]
            fill(rising, whole | {name: amount})
            for number, flow in zip(taking, rising, strict=True):
                reached[number][name] = flow.position
    return reached


def _keep_within_caps(consumer: _Consumer) -> None:
    """Where a cap is lower than the guarantees of several parts together, all are set back by the same factor."""
    factors: dict[Pool, mpq] = {}
    for pool in {pool for flow in consumer.flows for pool in flow.pools}:
        needed = sum((flow.start * flow.vector.get(pool.resource, 0) for flow in consumer.flows), mpq(0))
        factors[pool] = min(pool.left / needed, mpq(1)) if needed else mpq(1)
    for flow in consumer.flows:
        flow.start *= min((factors[pool] for pool in flow.pools), default=mpq(1))


def _reached(flow: Flow, name: str, carrying: Flow) -> mpq:
    """How far the flow gets with its guarantee of one resource and what `_carry` gave it of that."""
    amount, missing = flow.vector[name], carrying.vector[name]
    guaranteed = carrying.end * (amount - missing)
    return (guaranteed + carrying.position * missing) / amount


def _hold(consumer: _Consumer, left: dict[str, mpq]) -> None:
    """What is reserved and not lent becomes a reserve, which its own pods use first."""
    for name, amount in consumer.guaranteed.items():
        taking = [flow for flow in consumer.flows if name in flow.vector]
        idle = amount - sum((flow.start * flow.vector[name] for flow in taking), mpq(0))
        if idle > 0:
            left[name] -= idle
            _give(consumer, Pool(name, idle, is_reserve=True))


# --- the outcome ----------------------------------------------------------------------------------------------------


def _share(consumer: _Consumer, whole: Mapping[str, mpq]) -> Share:
    claim = consumer.claim
    deserved = dict.fromkeys(sorted(whole), mpq(0))
    for flow in consumer.flows:
        for name, amount in flow.vector.items():
            deserved[name] += flow.position * amount
    bottleneck = _bottleneck(consumer)
    if not claim.lends:
        deserved = {name: max(amount, consumer.guaranteed.get(name, mpq(0))) for name, amount in deserved.items()}
    is_met = not any(_is_denied(consumer, name) for name, amount in consumer.wanted.items() if deserved[name] < amount)
    share = dominant(deserved, whole) / claim.weight if claim.weight else mpq(0)
    return Share(claim.name, deserved, share, bottleneck, is_met)


def _is_denied(consumer: _Consumer, name: str) -> bool:
    """Whether its guarantee is not met because the cluster has too little, and not because of its own caps."""
    stops = [_stop_of(flow) for flow in consumer.flows if name in flow.vector]
    return not consumer.claim.lends or any(why not in (AT_DEMAND, AT_HARD) for why in stops)


def _bottleneck(consumer: _Consumer) -> str:
    """The first resource that stopped a flow; else `hard`; `demand` only if that stopped all of them."""
    stops = [_stop_of(flow) for flow in consumer.flows]
    return next((why for why in stops if why not in (AT_DEMAND, AT_HARD)), AT_HARD if AT_HARD in stops else AT_DEMAND)


def _stop_of(flow: Flow) -> str:
    """What stopped it; for a flow that never began, the first resource that it needs."""
    return flow.stopped_by or next(iter(flow.vector))
