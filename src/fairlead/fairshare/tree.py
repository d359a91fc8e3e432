"""Shares down a tree: what a zone deserves is divided among those in it, by the same rules, level by level.

A zone demands what its members demand, and is guaranteed at least what they are guaranteed. Of different resources it
may want different amounts, so an inner node takes each by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gmpy2 import mpq

from fairlead.fairshare.claims import Amount, Amounts, Claim, Model, Share, Surplus, dominant
from fairlead.fairshare.shares import shares


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
    """What every zone and every claim below the root deserves, by name. Dominant shares are of the whole capacity."""
    found: dict[str, Share] = {}
    _divide(root, capacity, capacity, surplus, found)
    return found


def _divide(zone: Zone, amounts: Amounts, capacity: Amounts, surplus: Surplus, found: dict[str, Share]) -> None:
    claims = [_claim(member) for member in zone.members]
    for name, share in shares(claims, _capped(amounts, zone.hard), surplus).items():
        if name in found:
            raise ValueError(f"two claims are called {name}")
        claim = next(one for one in claims if one.name == name)
        found[name] = replace(share, dominant_share=_of_whole(share.deserved, capacity, claim))
    for member in zone.members:
        if isinstance(member, Zone):
            _divide(member, found[member.name].deserved, capacity, surplus, found)


def _of_whole(deserved: Mapping[str, mpq], capacity: Amounts, claim: Claim) -> mpq:
    return dominant(deserved, capacity) / claim.weight if claim.weight else mpq(0)


def _claim(member: Zone | Claim) -> Claim:
    """What a member claims of its zone; a zone claims for those in it."""
    if isinstance(member, Claim):
        return member
    claims = [_claim(one) for one in member.members]
    demand = _sum([_capped(_wanted(one), one.hard) for one in claims])
    below = _sum([_lent(one) for one in claims])
    reserved = {name: max(member.reserved.get(name, 0), below.get(name, 0)) for name in (*member.reserved, *below)}
    return Claim(member.name, demand, member.weight, reserved, member.hard, lends=member.lends, model=Model.APART)


def _wanted(claim: Claim) -> Amounts:
    """What a member wants of its zone: to hold what it does not lend is to want it."""
    if claim.lends:
        return claim.demand
    return {
        name: max(claim.demand.get(name, 0), claim.reserved.get(name, 0)) for name in (*claim.demand, *claim.reserved)
    }


def _lent(claim: Claim) -> Amounts:
    """What a zone must have for a member's guarantee: idle parts may be lent outside, too."""
    if not claim.lends:
        return claim.reserved
    return {name: min(amount, claim.demand.get(name, 0)) for name, amount in claim.reserved.items()}


def _sum(parts: Sequence[Amounts]) -> dict[str, mpq]:
    total: dict[str, mpq] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, mpq(0)) + amount
    return total


def _capped(amounts: Amounts, hard: Amounts) -> dict[str, Amount]:
    return {name: min(amount, hard[name]) if name in hard else amount for name, amount in amounts.items()}
