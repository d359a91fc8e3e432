"""The unlimited get what they ask for before anybody else (S2-28), wherever in the tree they are."""

from __future__ import annotations

import pytest
from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.fairshare.claims import Claim, Share, Surplus
from fairlead.fairshare.shares import shares
from fairlead.fairshare.tree import ShareGroup, tree_shares
from tests.fairshare.generated import Problem, claims_of, often, problems, surpluses, total, trees, zones_of

SYSTEM = Claim("system", {"cpu": 6}, is_unlimited=True)
HUNGRY = Claim("hungry", {"cpu": 10})
CLUSTER = {"cpu": 10}


def cpu(found: dict[str, Share]) -> dict[str, mpq]:
    return {name: share.deserved["cpu"] for name, share in found.items()}


@pytest.mark.parametrize("weight", [0, 1, 10**18])
def test_no_weight_makes_a_difference_to_the_only_unlimited(weight: int) -> None:
    found = shares([replace(SYSTEM, weight=weight), replace(HUNGRY, weight=10**18)], CLUSTER)
    assert cpu(found) == {"system": 6, "hungry": 4}


@pytest.mark.parametrize("factor", [1, 1000, 10**18])
def test_without_weight_the_unlimited_take_what_the_other_unlimited_leave(factor: int) -> None:
    """As everywhere: whoever has a weight comes first, however small it is beside others."""
    idle = Claim("idle", {"cpu": 10}, 0, is_unlimited=True)
    small = Claim("small", {"cpu": 4}, factor, is_unlimited=True)
    large = Claim("large", {"cpu": 4}, 2 * factor, is_unlimited=True)
    assert cpu(shares([idle, small, large, HUNGRY], CLUSTER)) == {"idle": 2, "small": 4, "large": 4, "hungry": 0}


@pytest.mark.parametrize("surplus", Surplus)
def test_what_is_guaranteed_to_one_of_the_unlimited_is_not_for_another(surplus: Surplus) -> None:
    safe = Claim("safe", {"cpu": 8}, reserved={"cpu": 8}, is_unlimited=True)
    found = shares([safe, Claim("wild", {"cpu": 10}, is_unlimited=True), HUNGRY], CLUSTER, surplus)
    assert cpu(found) == {"safe": 8, "wild": 2, "hungry": 0}


def test_what_one_of_the_unlimited_does_not_lend_is_kept_for_it() -> None:
    keeper = Claim("keeper", {"cpu": 1}, reserved={"cpu": 3}, is_unlimited=True, lends=False)
    assert cpu(shares([keeper, HUNGRY], CLUSTER)) == {"keeper": 3, "hungry": 7}


# --- in a tree ------------------------------------------------------------------------------------------------------


def test_in_a_zone_they_take_off_the_clusters_top() -> None:
    """The zone of the system divides what is left with its sibling, half and half."""
    group = ShareGroup("zone", [SYSTEM, Claim("inside", {"cpu": 10})])
    found = tree_shares(ShareGroup("root", [group, HUNGRY]), CLUSTER)
    assert cpu(found) == {"system": 6, "zone": 8, "inside": 2, "hungry": 2}


def test_what_they_take_counts_towards_the_guarantee_of_their_zone() -> None:
    group = ShareGroup("zone", [SYSTEM, Claim("inside", {"cpu": 10})], reserved={"cpu": 9})
    found = tree_shares(ShareGroup("root", [group, HUNGRY]), CLUSTER)
    assert cpu(found) == {"system": 6, "zone": 9, "inside": 3, "hungry": 1}


def test_the_cap_of_a_zone_holds_for_them_too() -> None:
    group = ShareGroup("zone", [SYSTEM, Claim("inside", {"cpu": 10})], hard={"cpu": 5})
    found = tree_shares(ShareGroup("root", [group, HUNGRY]), CLUSTER)
    assert cpu(found) == {"system": 5, "zone": 5, "inside": 0, "hungry": 5}


def test_what_their_zone_is_offered_and_they_cannot_use_is_not_counted_twice() -> None:
    """There is a gpu for half of what it wants, so half of the processor is left to the other."""
    picky = Claim("picky", {"gpu": 2, "cpu": 1}, is_unlimited=True)
    group = ShareGroup("zone", [picky, Claim("other", {"cpu": 1})], hard={"cpu": 1})
    found = cpu(tree_shares(ShareGroup("root", [group]), {"cpu": 1, "gpu": 1}))
    assert found == {"picky": mpq(1, 2), "other": mpq(1, 2), "zone": 1}


def test_a_zone_of_the_unlimited_alone_is_as_good_as_they_are() -> None:
    found = tree_shares(ShareGroup("root", [ShareGroup("zone", [SYSTEM], weight=0), HUNGRY]), CLUSTER)
    assert cpu(found) == {"system": 6, "zone": 6, "hungry": 4}
    assert found["zone"].bottleneck == "demand"


def test_dominant_shares_are_of_the_whole_cluster_whatever_they_take() -> None:
    """Of what is left, memory would be dominant for both."""
    capacity = {"cpu": 10, "mem": 100}
    gone = Claim("gone", {"mem": 90}, is_unlimited=True)
    claims = [Claim("a", {"cpu": 20, "mem": 20}), Claim("b", {"cpu": 20, "mem": 2})]
    flat = shares([gone, *claims], capacity)
    nested = tree_shares(ShareGroup("root", [ShareGroup("zone", [gone]), *claims]), capacity)
    assert all(nested[name] == share for name, share in flat.items())


@often
@given(
    trees(problems(most=6, has_weightless=True, has_unlimited=True, has_caps=False, is_large=False)).filter(
        lambda tree: any(claim.is_unlimited for claim in claims_of(tree[0]))
    ),
    surpluses,
)
def test_nobody_but_the_unlimited_makes_a_difference_to_them(
    tree: tuple[ShareGroup, dict[str, int]], surplus: Surplus
) -> None:
    root, capacity = tree
    found = tree_shares(root, capacity, surplus)
    alone = tree_shares(only_unlimited(root), capacity, surplus)
    assert all(
        found[claim.name].deserved == alone[claim.name].deserved for claim in claims_of(root) if claim.is_unlimited
    )


def only_unlimited(group: ShareGroup) -> ShareGroup:
    members = [only_unlimited(member) if isinstance(member, ShareGroup) else member for member in group.members]
    return replace(
        group,
        members=[member for member in members if isinstance(member, ShareGroup) or member.is_unlimited],
        reserved={},
    )


@often
@given(trees(problems(most=6, has_weightless=True, has_unlimited=True, has_holders=True, has_parts=True)), surpluses)
def test_all_of_a_tree_together_have_no_more_than_there_is(
    tree: tuple[ShareGroup, dict[str, int]], surplus: Surplus
) -> None:
    root, capacity = tree
    found = tree_shares(root, capacity, surplus)
    leaves = {claim.name: found[claim.name] for claim in claims_of(root)}
    assert all(total(leaves, name) <= amount for name, amount in capacity.items())
    for group in zones_of(root):
        if group is not root:
            assert all(found[group.name].deserved.get(name, 0) <= amount for name, amount in group.hard.items())


@often
@given(
    problems(has_unlimited=True, has_weightless=True, has_holders=True, is_large=False),
    surpluses,
    st.fractions(0, 4, max_denominator=4),
)
def test_a_zone_around_an_unlimited_makes_no_difference(problem: Problem, surplus: Surplus, weight: mpq) -> None:
    flat = shares(problem.claims, problem.capacity, surplus)
    unlimited = [claim for claim in problem.claims if claim.is_unlimited]
    if len(unlimited) == 1:
        limited = [claim for claim in problem.claims if not claim.is_unlimited]
        found = tree_shares(
            ShareGroup("root", [*limited, ShareGroup("zone", unlimited, weight)]), problem.capacity, surplus
        )
        assert all(found[name] == share for name, share in flat.items())
