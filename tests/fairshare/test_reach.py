"""A cap on one resource stops pods that need it, all of them: nobody is guaranteed what it cannot use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.fairshare.claims import Amount, Claim, Model, Share, Surplus
from fairlead.fairshare.shares import reach, shares
from fairlead.fairshare.tree import ShareGroup, tree_shares
from tests.fairshare.generated import Problem, capped, often, problems, surpluses

CLUSTER = {"cpu": 10, "mem": 10}
HUNGRY = Claim("hungry", {"cpu": 10, "mem": 10})


def deserved(found: dict[str, Share], name: str) -> tuple[Amount, ...]:
    return tuple(found[name].deserved.values())


def test_the_cap_of_a_leaf_is_a_cap_on_what_its_zone_is_guaranteed_for_it() -> None:
    """Or its neighbours in the zone would be guaranteed the rest."""
    capped_leaf = Claim("capped", {"cpu": 10}, reserved={"cpu": 8}, hard={"cpu": 2})
    group = ShareGroup("zone", [capped_leaf, Claim("neighbour", {"cpu": 10})])
    found = tree_shares(ShareGroup("root", [group, Claim("other", {"cpu": 10})]), {"cpu": 10})
    assert (deserved(found, "zone"), deserved(found, "other")) == ((5,), (5,))
    assert (deserved(found, "capped"), deserved(found, "neighbour")) == ((2,), (3,))


def test_what_a_leaf_does_not_ask_for_is_not_guaranteed_to_its_neighbours() -> None:
    idle = Claim("idle", {"mem": 1}, reserved={"cpu": 8})
    group = ShareGroup("zone", [idle, Claim("neighbour", {"cpu": 10})])
    found = tree_shares(ShareGroup("root", [group, Claim("other", {"cpu": 10})]), CLUSTER)
    assert (deserved(found, "neighbour"), deserved(found, "other")) == ((5, 0), (5, 0))


@pytest.mark.parametrize("lends", [True, False])
def test_what_a_leaf_holds_is_no_more_than_its_cap(lends: bool) -> None:
    leaf = Claim("leaf", {"cpu": 10}, reserved={"cpu": 8}, hard={"cpu": 2}, lends=lends)
    found = tree_shares(ShareGroup("root", [ShareGroup("zone", [leaf]), Claim("other", {"cpu": 10})]), {"cpu": 10})
    assert (deserved(found, "zone"), deserved(found, "other")) == ((2,), (8,))


def test_a_zone_does_not_ask_for_what_its_leaf_cannot_use() -> None:
    leaf = Claim("leaf", {"cpu": 10, "mem": 10}, hard={"cpu": 2})
    found = tree_shares(ShareGroup("root", [ShareGroup("zone", [leaf]), HUNGRY]), CLUSTER)
    assert deserved(found, "zone") == deserved(found, "leaf") == (2, 2)
    assert deserved(found, "hungry") == (8, 8)


@pytest.mark.parametrize("surplus", Surplus)
def test_nobody_is_kept_from_its_guarantee_by_one_that_another_cannot_use(surplus: Surplus) -> None:
    """Of the memory that the capped one is guaranteed, its processors are enough for a fifth."""
    stuck = Claim("capped", {"cpu": 10, "mem": 10}, reserved={"mem": 10}, hard={"cpu": 2})
    safe = Claim("safe", {"cpu": 10, "mem": 10}, reserved={"mem": 7})
    found = shares([stuck, safe, HUNGRY], CLUSTER, surplus)
    assert deserved(found, "safe")[1] >= 7
    assert all(share.is_reserved_met for share in found.values())


@often
@given(problems(has_parts=True, has_weightless=True), surpluses)
def test_nobody_reaches_further_however_much_there_is(problem: Problem, surplus: Surplus) -> None:
    plenty = {name: 1 + sum(int(capped(claim, name)) for claim in problem.claims) for name in problem.capacity}
    found = shares(problem.claims, plenty, surplus)
    for claim in problem.claims:
        most = reach(claim, plenty)
        assert all(amount <= most.get(name, 0) for name, amount in found[claim.name].deserved.items())
        if not claim.parts:
            assert all(found[claim.name].deserved[name] == amount for name, amount in most.items())


@often
@given(problems(resources=1, is_large=False), st.integers(1, 5), surpluses)
def test_a_bound_is_in_a_zone_what_a_lower_demand_is(problem: Problem, size: int, surplus: Surplus) -> None:
    def found_with(claims: list[Claim]) -> dict[str, Share]:
        return tree_shares(
            ShareGroup("root", [ShareGroup("zone", claims[:size]), *claims[size:]]), problem.capacity, surplus
        )

    claims = [replace(claim, model=Model.TOGETHER) for claim in problem.claims]
    lower = [replace(claim, demand={name: capped(claim, name) for name in claim.demand}, hard={}) for claim in claims]
    with_bounds, with_demands = found_with(claims), found_with(lower)
    assert all(with_bounds[name].deserved == share.deserved for name, share in with_demands.items())
