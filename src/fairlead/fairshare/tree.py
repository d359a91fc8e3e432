"""Shares down a tree: what a zone deserves is divided among those in it, by the same rules, level by level.

A zone demands what its members demand, and is guaranteed at least what they are guaranteed. Of different resources it
may want different amounts, so an inner node takes each by itself.

The unlimited come off the top of the whole tree, wherever in it they are: first all of them are served, then everybody
else from what they leave. What they have counts towards the caps and the guarantees of the zones that they are in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gmpy2 import mpq

from fairlead.fairshare.claims import Amount, Amounts, Claim, Model, Share, Surplus, capped, dominant
from fairlead.fairshare.filling import AT_DEMAND
from fairlead.fairshare.shares import reach, shares

#: What the unlimited have, as one claim at the top when everybody else is served.
_GONE: Final = ""


@dataclass(frozen=True, slots=True)
class Zone:
    """An inner node."""

    name: str
    members: Sequence[Zone | Claim]
    weight: Amount = 1
    reserved: Amounts = field(default_factory=dict)
    hard: Amounts = field(default_factory=dict)
    lends: bool = True


def tree_shares(root: Zone, capacity: Amounts, surplus: Surplus = Surplus.TOTAL) -> dict[str, Share]:
    """What every zone and every claim below the root deserves, by name. Dominant shares are of the whole capacity.

    Raises ValueError for two of one name, and for negative amounts and weights.
    """
    _check_names(root)
    first: dict[str, Share] = {}
    _divide(_only_unlimited(root), capacity, capacity, surplus, first)
    found: dict[str, Share] = {}
    gone = Claim(_GONE, _taken(root, first), is_unlimited=True, model=Model.APART)
    others = [_without_unlimited(member, first) for member in root.members if not _is_unlimited(member)]
    _divide(replace(root, members=[*others, gone]), capacity, capacity, surplus, found)
    del found[_GONE]
    for zone in _zones(root):
        if zone.name in first:
            taken = replace(first[zone.name], deserved=_taken(zone, first))  # a zone may be offered what is of no use
            found[zone.name] = _both(taken, found[zone.name], zone.weight, capacity)
    return first | found


def _check_names(root: Zone) -> None:
    names = Counter(member.name for zone in _zones(root) for member in zone.members)
    if doubled := sorted(name for name, count in names.items() if count > 1):
        raise ValueError(f"two claims are called {doubled[0]}")


def _zones(zone: Zone) -> Iterator[Zone]:
    yield zone
    for member in zone.members:
        if isinstance(member, Zone):
            yield from _zones(member)


def _divide(zone: Zone, amounts: Amounts, capacity: Amounts, surplus: Surplus, found: dict[str, Share]) -> None:
    claims = {member.name: _claim(member, capacity) for member in zone.members}
    for name, share in shares(claims.values(), capped(amounts, zone.hard), surplus).items():
        found[name] = replace(share, dominant_share=_of_whole(share.deserved, capacity, claims[name].weight))
    for member in zone.members:
        if isinstance(member, Zone):
            _divide(member, found[member.name].deserved, capacity, surplus, found)


def _of_whole(deserved: Mapping[str, mpq], capacity: Amounts, weight: Amount) -> mpq:
    return dominant(deserved, capacity) / weight if weight else mpq(0)


# --- the unlimited, and the others ----------------------------------------------------------------------------------


def _is_unlimited(member: Zone | Claim) -> bool:
    return isinstance(member, Claim) and member.is_unlimited


def _only_unlimited(zone: Zone) -> Zone:
    """The zone with nobody else in it: among themselves they are as all are. Its guarantee is not for them alone."""
    inner = [_only_unlimited(member) for member in zone.members if isinstance(member, Zone)]
    members = [
        replace(member, is_unlimited=False)
        for member in zone.members
        if isinstance(member, Claim) and member.is_unlimited
    ]
    return replace(
        zone, members=[*members, *(inner_zone for inner_zone in inner if inner_zone.members)], reserved={}, lends=True
    )


def _without_unlimited(member: Zone | Claim, first: Mapping[str, Share]) -> Zone | Claim:
    """A zone as it is to everybody else."""
    if isinstance(member, Claim):
        return member
    taken = _taken(member, first)
    others = [_without_unlimited(child, first) for child in member.members if not _is_unlimited(child)]
    return replace(member, members=others, reserved=_less(member.reserved, taken), hard=_less(member.hard, taken))


def _taken(zone: Zone, first: Mapping[str, Share]) -> dict[str, mpq]:
    """What the unlimited in a zone have."""
    return _sum(
        [first[member.name].deserved for inner in _zones(zone) for member in inner.members if _is_unlimited(member)]
    )


def _less(amounts: Amounts, taken: Amounts) -> dict[str, Amount]:
    return {name: max(amount - taken.get(name, 0), 0) for name, amount in amounts.items()}


def _both(first: Share, rest: Share, weight: Amount, capacity: Amounts) -> Share:
    """What a zone deserves for the unlimited in it and for the others."""
    deserved = _sum([first.deserved, rest.deserved])
    return Share(
        rest.name,
        deserved,
        _of_whole(deserved, capacity, weight),
        rest.bottleneck if rest.bottleneck != AT_DEMAND else first.bottleneck,
        first.is_reserved_met and rest.is_reserved_met,
    )


# --- zones as claims ------------------------------------------------------------------------------------------------


def _claim(member: Zone | Claim, capacity: Amounts) -> Claim:
    """What a member claims of its zone; a zone claims for those in it."""
    if isinstance(member, Claim):
        return member
    claims = [_claim(child, capacity) for child in member.members]
    demand = _sum([_wanted(claim, capacity) for claim in claims])
    below = _sum([_guaranteed(claim, capacity) for claim in claims])
    reserved = {name: max(member.reserved.get(name, 0), below.get(name, 0)) for name in (*member.reserved, *below)}
    return Claim(member.name, demand, member.weight, reserved, member.hard, lends=member.lends, model=Model.APART)


def _wanted(claim: Claim, capacity: Amounts) -> Mapping[str, mpq]:
    """What a member wants of its zone: to hold what it does not lend is to want it."""
    most = reach(claim, capacity)
    if claim.lends:
        return most
    held = capped(claim.reserved, claim.hard)
    return {name: max(most.get(name, mpq(0)), held.get(name, mpq(0))) for name in (*most, *held)}


def _guaranteed(claim: Claim, capacity: Amounts) -> Mapping[str, mpq]:
    """What a zone must have for a member's guarantee: idle parts may be lent outside, too."""
    if not claim.lends:
        return capped(claim.reserved, claim.hard)
    most = reach(claim, capacity)
    return {name: min(mpq(amount), most.get(name, mpq(0))) for name, amount in claim.reserved.items()}


def _sum(parts: Sequence[Amounts]) -> dict[str, mpq]:
    total: dict[str, mpq] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, mpq(0)) + amount
    return total
