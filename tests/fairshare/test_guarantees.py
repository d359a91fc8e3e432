"""Who is guaranteed something has it if that can be; the unlimited come before, those without weight after."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from gmpy2 import mpq
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.fairshare.claims import Claim, Model, Share, Surplus
from fairlead.fairshare.shares import shares
from tests.fairshare.generated import ROUNDING, Problem, capped, demand_of, often, problems, surpluses, total, wanted


def for_the_limited(problem: Problem, found: dict[str, Share]) -> dict[str, mpq]:
    """What the unlimited leave."""
    gone = {name: share for name, share in found.items() if problem.by_name[name].is_unlimited}
    return {name: amount - total(gone, name) for name, amount in problem.capacity.items()}


def limited(problem: Problem) -> list[Claim]:
    return [claim for claim in problem.claims if not claim.is_unlimited]


@often
@given(
    st.one_of(
        problems(models=(Model.APART,), has_unlimited=True, has_weightless=True, has_holders=True),
        problems(resources=1, has_unlimited=True, has_weightless=True, has_holders=True),
    ),
    surpluses,
)
def test_a_guarantee_that_can_be_kept_is_kept(problem: Problem, surplus: Surplus) -> None:
    """Of each resource by itself: if the guarantees of it fit into what the unlimited leave, everybody has its own."""
    found = shares(problem.claims, problem.capacity, surplus)
    left = for_the_limited(problem, found)
    for name, amount in left.items():
        if sum(mpq(wanted(claim, name)) for claim in limited(problem)) <= amount:
            assert all(found[claim.name].deserved[name] >= wanted(claim, name) for claim in limited(problem))


def goal_of(claim: Claim, capacity: Mapping[str, int]) -> mpq:
    """Which part of its pods the best of its guarantees is enough for, within its caps."""
    demand = demand_of(claim, capacity)
    most = min((mpq(capped(claim, name)) / amount for name, amount in demand.items()), default=mpq(0))
    return min(most, max((mpq(wanted(claim, name)) / amount for name, amount in demand.items()), default=mpq(0)))


@often
@given(problems(models=(Model.TOGETHER,), has_unlimited=True, has_weightless=True), surpluses)
def test_pods_that_need_everything_at_once_have_their_guarantee_with_what_it_carries(
    problem: Problem, surplus: Surplus
) -> None:
    """A guarantee of memory is of no use without processors: it is kept whole if what it carries fits, too.

    What holds for `Model.TOGETHER`, then: whole guarantees, up to the consumer's own caps, if all guarantees and what
    they carry fit into what the unlimited leave. It does not hold if only the guarantees themselves fit.
    """
    found = shares(problem.claims, problem.capacity, surplus)
    left = for_the_limited(problem, found)
    goals = {claim.name: goal_of(claim, problem.capacity) for claim in limited(problem)}
    for name, amount in left.items():
        needed = sum(
            max(mpq(wanted(claim, name)), goals[claim.name] * claim.demand.get(name, 0)) for claim in limited(problem)
        )
        assume(needed <= amount)
    for claim in limited(problem):
        for name, demanded in demand_of(claim, problem.capacity).items():
            assert found[claim.name].deserved[name] >= goals[claim.name] * demanded


@often
@given(problems(models=(Model.TOGETHER,), has_unlimited=True, has_weightless=True), surpluses)
def test_pods_that_need_everything_at_once_have_what_the_least_of_their_guarantees_is_enough_for(
    problem: Problem, surplus: Surplus
) -> None:
    """What holds for `Model.TOGETHER` whenever the guarantees themselves fit, whatever they would carry."""
    found = shares(problem.claims, problem.capacity, surplus)
    left = for_the_limited(problem, found)
    for name, amount in left.items():
        assume(sum(mpq(wanted(claim, name)) for claim in limited(problem)) <= amount)
    for claim in limited(problem):
        demand = demand_of(claim, problem.capacity)
        least = min((mpq(wanted(claim, name)) / amount for name, amount in demand.items()), default=mpq(0))
        assert all(found[claim.name].deserved[name] >= least * amount for name, amount in demand.items())


@often
@given(problems(models=(Model.TOGETHER,)))
def test_at_a_bottleneck_nothing_but_a_guarantee_lifts_anybody_higher(problem: Problem) -> None:
    """With floors, too, whoever could rise only at the cost of one who has no more may not."""
    found = shares(problem.claims, problem.capacity)
    for share in found.values():
        if share.bottleneck in problem.capacity:
            higher = [richer for richer in found.values() if richer.dominant_share > share.dominant_share + ROUNDING]
            for richer in higher:
                claim = problem.by_name[richer.name]
                floor = goal_of(claim, problem.capacity) * claim.demand.get(share.bottleneck, 0)
                assert richer.deserved[share.bottleneck] <= floor


@often
@given(problems(models=(Model.APART,), has_unlimited=True, has_weightless=True), surpluses)
def test_it_is_said_whose_guarantee_is_not_kept(problem: Problem, surplus: Surplus) -> None:
    found = shares(problem.claims, problem.capacity, surplus)
    for claim in problem.claims:
        share = found[claim.name]
        assert share.is_reserved_met == all(
            amount >= wanted(claim, name) for name, amount in share.deserved.items() if claim.demand.get(name)
        )


@often
@given(problems(models=(Model.APART,), has_unlimited=True, has_caps=False, is_large=False), surpluses)
def test_guarantees_that_cannot_all_be_kept_are_kept_in_proportion(problem: Problem, surplus: Surplus) -> None:
    """Everybody who lacks some of its guarantee has the same part of it, and nobody a larger one."""
    found = shares(problem.claims, problem.capacity, surplus)
    for name, amount in for_the_limited(problem, found).items():
        guaranteed = [claim for claim in limited(problem) if wanted(claim, name)]
        if sum(mpq(wanted(claim, name)) for claim in guaranteed) <= amount:
            continue
        parts = {claim.name: found[claim.name].deserved[name] / claim.reserved[name] for claim in guaranteed}
        short = [claim.name for claim in guaranteed if found[claim.name].deserved[name] < wanted(claim, name)]
        assert short
        assert len({parts[consumer] for consumer in short}) == 1
        assert all(found[claim.name].deserved[name] <= wanted(claim, name) for claim in guaranteed)
        assert max(parts.values()) <= parts[short[0]]
        assert not any(found[consumer].is_reserved_met for consumer in short)
        assert sum(found[claim.name].deserved[name] for claim in guaranteed) == amount


@often
@given(problems(has_weightless=True, is_large=False), surpluses)
def test_the_unlimited_get_what_they_demand_before_anybody_else(problem: Problem, surplus: Surplus) -> None:
    first, *rest = problem.claims
    found = shares([replace(first, is_unlimited=True), *rest], problem.capacity, surplus)
    alone = shares([replace(first, weight=1, reserved={})], problem.capacity, surplus)
    assert found[first.name].deserved == alone[first.name].deserved


@often
@given(problems(has_guarantees=False, is_large=False, has_parts=True), surpluses)
def test_those_without_weight_take_nothing_from_those_with_one(problem: Problem, surplus: Surplus) -> None:
    """They get what the others leave."""
    found = shares(problem.claims, problem.capacity, surplus)
    weightless = [Claim(model.value, dict.fromkeys(problem.capacity, 5), 0, model=model) for model in Model]
    crowded = shares([*problem.claims, *weightless], problem.capacity, surplus)
    assert all(crowded[name].deserved == share.deserved for name, share in found.items())


@pytest.mark.parametrize("gpus", [0, 1])
def test_pods_that_a_cap_stops_take_nothing_of_what_is_guaranteed_to_others(gpus: int) -> None:
    """Of a namespace that may have no gpus, or one, the pods without gpus have its guarantee of processors."""
    parts = [{"cpu": 10}, {"cpu": 10, "gpu": 10}]
    claim = Claim("one", {"cpu": 20, "gpu": 10}, 0, reserved={"cpu": 10}, hard={"gpu": gpus}, parts=parts)
    found = shares([claim, Claim("greedy", {"cpu": 16})], {"cpu": 16, "gpu": 16})
    assert found["one"].deserved == {"cpu": 10, "gpu": gpus}
    assert found["one"].is_reserved_met


def test_what_a_cap_keeps_one_size_of_pods_from_is_carried_for_another() -> None:
    """Its cap sets both sizes back; the processors that the first has no use for then, the second needs."""
    parts = [{"cpu": 9}, {"cpu": 12, "gpu": 1}]
    claim = Claim("one", {"cpu": 21, "gpu": 1}, reserved={"cpu": 3, "gpu": 1}, hard={"cpu": 9}, parts=parts)
    found = shares([claim, Claim("other", {"gpu": 4}, 9)], {"cpu": 9, "gpu": 4})["one"]
    assert found.deserved == {"cpu": 9, "gpu": mpq(21, 32)}
