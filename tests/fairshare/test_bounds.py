"""Shares stay within what there is, what is allowed and what is asked for, and waste nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given

from fairlead.fairshare.claims import Claim, Model, Share, Surplus
from fairlead.fairshare.filling import AT_DEMAND, AT_HARD
from fairlead.fairshare.shares import shares
from tests.fairshare.generated import (
    ROUNDING,
    Problem,
    anything,
    capped,
    demand_of,
    often,
    parts_of,
    problems,
    surpluses,
    total,
)

# --- what is never exceeded -------------------------------------------------------------------------------------------


@often
@given(anything, surpluses)
def test_nobody_shares_more_than_there_is(problem: Problem, surplus: Surplus) -> None:
    found = shares(problem.claims, problem.capacity, surplus)
    for name, amount in problem.capacity.items():
        assert total(found, name) <= amount


@often
@given(anything, surpluses)
def test_nobody_deserves_more_than_is_allowed(problem: Problem, surplus: Surplus) -> None:
    for name, share in shares(problem.claims, problem.capacity, surplus).items():
        for resource, amount in problem.by_name[name].hard.items():
            assert share.deserved.get(resource, 0) <= amount


@often
@given(anything, surpluses)
def test_nobody_deserves_more_than_is_demanded_or_held(problem: Problem, surplus: Surplus) -> None:
    for name, share in shares(problem.claims, problem.capacity, surplus).items():
        claim = problem.by_name[name]
        for resource, amount in share.deserved.items():
            held = 0 if claim.lends else claim.reserved.get(resource, 0)
            assert 0 <= amount <= max(claim.demand.get(resource, 0), held)


@often
@given(anything, surpluses)
def test_every_claim_has_a_share_of_every_resource_there_is(problem: Problem, surplus: Surplus) -> None:
    found = shares(problem.claims, problem.capacity, surplus)
    assert found.keys() == problem.by_name.keys()
    assert all(share.deserved.keys() == problem.capacity.keys() for share in found.values())


@often
@given(anything, surpluses)
def test_the_dominant_share_is_the_largest_by_weight(problem: Problem, surplus: Surplus) -> None:
    for name, share in shares(problem.claims, problem.capacity, surplus).items():
        largest = max(amount / problem.capacity[resource] for resource, amount in share.deserved.items())
        weight = problem.by_name[name].weight
        assert share.dominant_share == (largest / weight if weight else 0)


# --- nothing is wasted ------------------------------------------------------------------------------------------------


def used_up(found: dict[str, Share], capacity: Mapping[str, int]) -> set[str]:
    return {name for name, amount in capacity.items() if amount - total(found, name) <= amount * ROUNDING}


@often
@given(anything, surpluses)
def test_nobody_could_get_more(problem: Problem, surplus: Surplus) -> None:
    """Whoever lacks something is kept from it by a cap, or by something that its pods need too and that is used up."""
    found = shares(problem.claims, problem.capacity, surplus)
    full = used_up(found, problem.capacity)
    for claim in problem.claims:
        deserved = found[claim.name].deserved
        stopping = full | {name for name, amount in claim.hard.items() if deserved.get(name) == amount}
        for name, demanded in demand_of(claim, problem.capacity).items():
            if deserved[name] < demanded:
                assert any(part & stopping for part in parts_of(claim, problem.capacity) if name in part)


@often
@given(anything, surpluses)
def test_the_bottleneck_that_is_named_is_a_true_one(problem: Problem, surplus: Surplus) -> None:
    found = shares(problem.claims, problem.capacity, surplus)
    full = used_up(found, problem.capacity)
    for claim in problem.claims:
        share = found[claim.name]
        demand = demand_of(claim, problem.capacity)
        lacking = {name for name, amount in demand.items() if share.deserved[name] < amount}
        if share.bottleneck == AT_DEMAND:
            assert not lacking
        elif share.bottleneck == AT_HARD:
            assert any(share.deserved[name] == claim.hard.get(name) for name in lacking)
        else:
            assert share.bottleneck in full & demand.keys()
            assert lacking


@often
@given(problems(models=(Model.TOGETHER,), has_guarantees=False), surpluses)
def test_at_a_bottleneck_nobody_has_a_higher_level(problem: Problem, surplus: Surplus) -> None:
    """This alone makes a division max-min fair: whoever could rise only at the cost of one who has no more may not."""
    found = shares(problem.claims, problem.capacity, surplus)
    for share in found.values():
        if share.bottleneck in problem.capacity:
            sharers = [sharer for sharer in found.values() if sharer.deserved[share.bottleneck]]
            assert all(sharer.dominant_share <= share.dominant_share + ROUNDING for sharer in sharers)


@often
@given(problems(has_parts=True, has_unlimited=True, has_weightless=True), surpluses)
def test_without_contention_everybody_has_what_it_demands(problem: Problem, surplus: Surplus) -> None:
    capacity = {name: 1 + sum(int(capped(claim, name)) for claim in problem.claims) for name in problem.capacity}
    found = shares(problem.claims, capacity, surplus)
    for claim in problem.claims:
        if all(amount >= claim.demand.get(name, 0) for name, amount in claim.hard.items()):
            assert {name: found[claim.name].deserved[name] for name in claim.demand} == claim.demand


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "claims",
    [
        [Claim("a", {"cpu": -1})],
        [Claim("a", {"cpu": 1}, -1)],
        [Claim("a", {"cpu": 1}, reserved={"cpu": -1})],
        [Claim("a", {"cpu": 1}, hard={"cpu": -1})],
        [Claim("a", {"cpu": 1}), Claim("a", {"cpu": 1})],
    ],
    ids=["demand", "weight", "reserved", "hard", "names"],
)
def test_negative_amounts_and_equal_names_are_refused(claims: Sequence[Claim]) -> None:
    with pytest.raises(ValueError):
        shares(claims, {"cpu": 1})


def test_a_negative_capacity_is_refused() -> None:
    with pytest.raises(ValueError):
        shares([], {"cpu": -1})
