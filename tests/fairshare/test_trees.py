"""Shares down a tree of zones."""

from __future__ import annotations

import pytest
from gmpy2 import mpq
from hypothesis import assume, given

from fairlead.fairshare.claims import Claim, Surplus
from fairlead.fairshare.shares import shares
from fairlead.fairshare.tree import ShareGroup, tree_shares
from tests.fairshare.generated import Problem, anything, claims_of, often, problems, surpluses, trees, wanted, zones_of


@often
@given(anything, surpluses)
def test_a_tree_of_one_level_is_no_tree(problem: Problem, surplus: Surplus) -> None:
    flat = shares(problem.claims, problem.capacity, surplus)
    assert tree_shares(ShareGroup("root", problem.claims), problem.capacity, surplus) == flat


@often
@given(trees(problems(most=6, has_weightless=True, has_holders=True, has_parts=True)), surpluses)
def test_those_in_a_zone_share_no_more_than_it_deserves(
    tree: tuple[ShareGroup, dict[str, int]], surplus: Surplus
) -> None:
    root, capacity = tree
    found = tree_shares(root, capacity, surplus)
    for group in zones_of(root):
        for resource, amount in capacity.items():
            whole = amount if group is root else found[group.name].deserved[resource]
            assert sum(found[member.name].deserved[resource] for member in group.members) <= whole


@often
@given(trees(problems(most=6, has_weightless=True, has_holders=True, has_parts=True)), surpluses)
def test_everybody_in_a_tree_has_one_share_within_its_cap(
    tree: tuple[ShareGroup, dict[str, int]], surplus: Surplus
) -> None:
    root, capacity = tree
    found = tree_shares(root, capacity, surplus)
    members = {member.name: member for group in zones_of(root) for member in group.members}
    assert found.keys() == members.keys()
    for name, member in members.items():
        for resource, amount in member.hard.items():
            assert found[name].deserved.get(resource, 0) <= amount


@often
@given(trees(problems(most=6, resources=1, has_guarantees=False, has_caps=False, is_large=False)), surpluses)
def test_nothing_is_idle_in_a_tree_while_somebody_wants_it(
    tree: tuple[ShareGroup, dict[str, int]], surplus: Surplus
) -> None:
    """Of one resource: with several, a zone may deserve what those in it cannot use without another."""
    root, capacity = tree
    found = tree_shares(root, capacity, surplus)
    claims = claims_of(root)
    used = sum(found[claim.name].deserved["cpu"] for claim in claims)
    assert used == min(capacity["cpu"], sum(claim.demand["cpu"] for claim in claims))


@often
@given(trees(problems(most=6, resources=1, has_caps=False, is_large=False)), surpluses)
def test_a_guarantee_at_a_leaf_is_kept_through_all_zones(
    tree: tuple[ShareGroup, dict[str, int]], surplus: Surplus
) -> None:
    root, capacity = tree
    claims = claims_of(root)
    reserved = sum(mpq(group.reserved.get("cpu", 0)) for group in zones_of(root))
    assume(reserved + sum(mpq(wanted(claim, "cpu")) for claim in claims) <= capacity["cpu"])
    found = tree_shares(root, capacity, surplus)
    assert all(found[claim.name].deserved["cpu"] >= wanted(claim, "cpu") for claim in claims)


@often
@given(problems(resources=1, has_weightless=True, is_large=False), surpluses)
def test_a_zone_of_ones_own_makes_no_difference(problem: Problem, surplus: Surplus) -> None:
    lonely = [
        ShareGroup(f"zone-{claim.name}", [claim], claim.weight, claim.reserved, claim.hard) for claim in problem.claims
    ]
    found = tree_shares(ShareGroup("root", lonely), problem.capacity, surplus)
    for name, share in shares(problem.claims, problem.capacity, surplus).items():
        assert found[name].deserved == found[f"zone-{name}"].deserved == share.deserved


def test_two_of_one_name_are_refused_in_different_zones() -> None:
    with pytest.raises(ValueError):
        tree_shares(ShareGroup("root", [ShareGroup("z", [Claim("a", {})]), Claim("a", {})]), {"cpu": 1})
