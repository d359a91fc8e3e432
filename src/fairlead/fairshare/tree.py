"""Shares in a tree: what a group deserves is divided among its members by the same rules, level by level.

A group demands what its members demand, and its guarantee is at least the sum of theirs. Its members want resources in
different proportions, so each resource of a group grows by itself.

Unlimited claims are served first, wherever in the tree they are; all others share what is left. What the unlimited have
counts towards the caps and guarantees of their groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from gmpy2 import mpq
from msgspec.structs import replace

from fairlead.fairshare.claims import Amount, Amounts, Claim, Model, Share, Surplus, capped, dominant
from fairlead.fairshare.filling import AT_DEMAND
from fairlead.fairshare.shares import reach, shares

#: The name of the claim that stands for what the unlimited have while all others are served.
_GONE: Final = ""


class ShareGroup(msgspec.Struct, frozen=True):
    """An inner node."""

    name: str
    members: Sequence[ShareGroup | Claim]
    weight: Amount = 1
    reserved: Amounts = msgspec.field(default_factory=dict)
    hard: Amounts = msgspec.field(default_factory=dict)
    lends: bool = True


def tree_shares(root: ShareGroup, capacity: Amounts, surplus: Surplus = Surplus.TOTAL) -> dict[str, Share]:
    """What every group and claim below the root deserves, by name. Dominant shares are of the whole capacity.

    Raises ValueError for names that occur twice, and for negative amounts and weights.
    """
    _check_names(root)
    first = _divided(_only_unlimited(root), capacity, surplus)
    taken: dict[str, dict[str, mpq]] = {}
    gone = Claim(_GONE, _taken(root, first, taken), is_unlimited=True, model=Model.APART)
    limited = [_without_unlimited(member, taken) for member in root.members if not _is_unlimited(member)]
    found = _divided(replace(root, members=[*limited, gone]), capacity, surplus)
    del found[_GONE]
    for group in _groups(root):
        if group.name in first:
            share = replace(first[group.name], deserved=taken[group.name])  # it may deserve more than it can use
            found[group.name] = _both(share, found[group.name], group.weight, capacity)
    return first | found


def _check_names(root: ShareGroup) -> None:
    names = Counter([root.name, *(member.name for group in _groups(root) for member in group.members)])
    if doubled := sorted(name for name, count in names.items() if count > 1):
        raise ValueError(f"two claims are called {doubled[0]}")


def _groups(group: ShareGroup) -> Iterator[ShareGroup]:
    yield group
    for member in group.members:
        if isinstance(member, ShareGroup):
            yield from _groups(member)


def _divided(root: ShareGroup, capacity: Amounts, surplus: Surplus) -> dict[str, Share]:
    claims: dict[str, Claim] = {}
    _claim(root, capacity, claims)
    found: dict[str, Share] = {}

    def divide(group: ShareGroup, amounts: Amounts) -> None:
        members = [claims[member.name] for member in group.members]
        for name, share in shares(members, capped(amounts, group.hard), surplus).items():
            found[name] = replace(share, dominant_share=_of_whole(share.deserved, capacity, claims[name].weight))
        for member in group.members:
            if isinstance(member, ShareGroup):
                divide(member, found[member.name].deserved)

    divide(root, capacity)
    return found


def _of_whole(deserved: Mapping[str, mpq], capacity: Amounts, weight: Amount) -> mpq:
    return dominant(deserved, capacity) / weight if weight else mpq(0)


# --- the unlimited, and the others ----------------------------------------------------------------------------------


def _is_unlimited(member: ShareGroup | Claim) -> bool:
    return isinstance(member, Claim) and member.is_unlimited


def _only_unlimited(group: ShareGroup) -> ShareGroup:
    """The group with its unlimited claims alone, which share as ordinary claims do; without its guarantee."""
    inner = [_only_unlimited(member) for member in group.members if isinstance(member, ShareGroup)]
    members = [
        replace(member, is_unlimited=False)
        for member in group.members
        if isinstance(member, Claim) and member.is_unlimited
    ]
    return replace(group, members=[*members, *(group for group in inner if group.members)], reserved={}, lends=True)


def _taken(group: ShareGroup, first: Mapping[str, Share], taken: dict[str, dict[str, mpq]]) -> dict[str, mpq]:
    """What the unlimited claims in a group have; noted in `taken` for it and for each group below."""
    parts: list[Amounts] = [_taken(inner, first, taken) for inner in group.members if isinstance(inner, ShareGroup)]
    parts += [first[peer.name].deserved for peer in group.members if _is_unlimited(peer)]
    return taken.setdefault(group.name, _sum(parts))


def _without_unlimited(member: ShareGroup | Claim, taken: Mapping[str, Amounts]) -> ShareGroup | Claim:
    """The member without its unlimited claims; what they have is subtracted from its guarantee and bound."""
    if isinstance(member, Claim):
        return member
    limited = [_without_unlimited(child, taken) for child in member.members if not _is_unlimited(child)]
    own = taken[member.name]
    return replace(member, members=limited, reserved=_less(member.reserved, own), hard=_less(member.hard, own))


def _less(amounts: Amounts, taken: Amounts) -> dict[str, Amount]:
    return {name: max(amount - taken.get(name, 0), 0) for name, amount in amounts.items()}


def _both(first: Share, rest: Share, weight: Amount, capacity: Amounts) -> Share:
    """What a group deserves for its unlimited claims and for the others together."""
    deserved = _sum([first.deserved, rest.deserved])
    return Share(
        rest.name,
        deserved,
        _of_whole(deserved, capacity, weight),
        rest.bottleneck if rest.bottleneck != AT_DEMAND else first.bottleneck,
        first.is_reserved_met and rest.is_reserved_met,
    )


# --- groups as claims ------------------------------------------------------------------------------------------------


def _claim(member: ShareGroup | Claim, capacity: Amounts, claims: dict[str, Claim]) -> Claim:
    """A member as a claim on its group, noted in `claims` with all below it; a group claims for its members."""
    if isinstance(member, ShareGroup):
        inner = [_claim(child, capacity, claims) for child in member.members]
        demand = _sum([_wanted(claim, capacity) for claim in inner])
        below = _sum([_guaranteed(claim, capacity) for claim in inner])
        reserved = {name: max(member.reserved.get(name, 0), below.get(name, 0)) for name in (*member.reserved, *below)}
        member = Claim(member.name, demand, member.weight, reserved, member.hard, lends=member.lends, model=Model.APART)
    return claims.setdefault(member.name, member)


def _wanted(claim: Claim, capacity: Amounts) -> Mapping[str, mpq]:
    """What a member wants of its group, including reserved amounts that it does not lend."""
    most = reach(claim, capacity)
    if claim.lends:
        return most
    held = capped(claim.reserved, claim.hard)
    return {name: max(most.get(name, mpq(0)), held.get(name, mpq(0))) for name in (*most, *held)}


def _guaranteed(claim: Claim, capacity: Amounts) -> Mapping[str, mpq]:
    """What a group must be guaranteed for this member: its guarantee, without what it lends while idle."""
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
