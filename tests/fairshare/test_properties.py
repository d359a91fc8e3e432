"""What holds for whatever is claimed: of shares, trees, whole numbers, what is granted, and who has to go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from gmpy2 import mpq
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fairlead.fairshare.claims import Amount, Claim, Model, Share, Surplus, dominant
from fairlead.fairshare.filling import AT_DEMAND, AT_HARD
from fairlead.fairshare.handoff import Holding, granted
from fairlead.fairshare.shares import shares
from fairlead.fairshare.tree import Zone, tree_shares
from fairlead.fairshare.whole import Tasks, picks, rounded
from tests.fairshare.generated import (
    NAMES,
    RESOURCES,
    ROUNDING,
    Problem,
    capped,
    claims_of,
    demand_of,
    parts_of,
    problems,
    surpluses,
    total,
    trees,
    utility,
    wanted,
    weights,
    zones_of,
)

often = settings(max_examples=40, deadline=None)

anything = problems(has_unlimited=True, has_weightless=True, has_holders=True, has_parts=True)
#: As the paper has it: nobody is guaranteed or refused anything, and pods need all their resources at once.
fluid = problems(models=(Model.TOGETHER,), has_guarantees=False, has_caps=False, is_large=False)


# --- shares: what is never exceeded ---------------------------------------------------------------------------------


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
    assert all(one.deserved.keys() == problem.capacity.keys() for one in found.values())


@often
@given(anything, surpluses)
def test_the_dominant_share_is_the_largest_by_weight(problem: Problem, surplus: Surplus) -> None:
    for name, share in shares(problem.claims, problem.capacity, surplus).items():
        largest = max(amount / problem.capacity[resource] for resource, amount in share.deserved.items())
        weight = problem.by_name[name].weight
        assert share.dominant_share == (largest / weight if weight else 0)


# --- shares: nothing is wasted --------------------------------------------------------------------------------------


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
            sharers = [one for one in found.values() if one.deserved[share.bottleneck]]
            assert all(one.dominant_share <= share.dominant_share + ROUNDING for one in sharers)


@often
@given(problems(has_parts=True, has_unlimited=True, has_weightless=True), surpluses)
def test_without_contention_everybody_has_what_it_demands(problem: Problem, surplus: Surplus) -> None:
    capacity = {name: 1 + sum(int(capped(one, name)) for one in problem.claims) for name in problem.capacity}
    found = shares(problem.claims, capacity, surplus)
    for claim in problem.claims:
        if all(amount >= claim.demand.get(name, 0) for name, amount in claim.hard.items()):
            assert {name: found[claim.name].deserved[name] for name in claim.demand} == claim.demand


# --- shares: guarantees ---------------------------------------------------------------------------------------------


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
        if sum(mpq(wanted(one, name)) for one in limited(problem)) <= amount:
            assert all(found[one.name].deserved[name] >= wanted(one, name) for one in limited(problem))


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
    goals = {one.name: goal_of(one, problem.capacity) for one in limited(problem)}
    for name, amount in left.items():
        needed = sum(max(mpq(wanted(one, name)), goals[one.name] * one.demand.get(name, 0)) for one in limited(problem))
        assume(needed <= amount)
    for one in limited(problem):
        for name, demanded in demand_of(one, problem.capacity).items():
            assert found[one.name].deserved[name] >= goals[one.name] * demanded


@often
@given(problems(models=(Model.TOGETHER,), has_unlimited=True, has_weightless=True), surpluses)
def test_pods_that_need_everything_at_once_have_what_the_least_of_their_guarantees_is_enough_for(
    problem: Problem, surplus: Surplus
) -> None:
    """What holds for `Model.TOGETHER` whenever the guarantees themselves fit, whatever they would carry."""
    found = shares(problem.claims, problem.capacity, surplus)
    left = for_the_limited(problem, found)
    for name, amount in left.items():
        assume(sum(mpq(wanted(one, name)) for one in limited(problem)) <= amount)
    for one in limited(problem):
        demand = demand_of(one, problem.capacity)
        least = min((mpq(wanted(one, name)) / amount for name, amount in demand.items()), default=mpq(0))
        assert all(found[one.name].deserved[name] >= least * amount for name, amount in demand.items())


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
        guaranteed = [one for one in limited(problem) if wanted(one, name)]
        if sum(mpq(wanted(one, name)) for one in guaranteed) <= amount:
            continue
        parts = {one.name: found[one.name].deserved[name] / one.reserved[name] for one in guaranteed}
        short = [one.name for one in guaranteed if found[one.name].deserved[name] < wanted(one, name)]
        assert short
        assert len({parts[one] for one in short}) == 1
        assert all(found[one.name].deserved[name] <= wanted(one, name) for one in guaranteed)
        assert max(parts.values()) <= parts[short[0]]
        assert not any(found[one].is_reserved_met for one in short)
        assert sum(found[one.name].deserved[name] for one in guaranteed) == amount


@often
@given(problems(has_weightless=True, is_large=False), surpluses)
def test_the_unlimited_get_what_they_demand_before_anybody_else(problem: Problem, surplus: Surplus) -> None:
    first, *others = problem.claims
    found = shares([replace(first, is_unlimited=True), *others], problem.capacity, surplus)
    alone = shares([replace(first, weight=1, reserved={})], problem.capacity, surplus)
    assert found[first.name].deserved == alone[first.name].deserved


@often
@given(problems(has_guarantees=False, is_large=False, has_parts=True), surpluses)
def test_those_without_weight_take_nothing_from_those_with_one(problem: Problem, surplus: Surplus) -> None:
    """They get what the others leave."""
    found = shares(problem.claims, problem.capacity, surplus)
    weightless = [Claim(one.value, dict.fromkeys(problem.capacity, 5), 0, model=one) for one in Model]
    crowded = shares([*problem.claims, *weightless], problem.capacity, surplus)
    assert all(crowded[name].deserved == one.deserved for name, one in found.items())


# --- shares: what makes no difference -------------------------------------------------------------------------------


@often
@given(anything, surpluses, st.data())
def test_the_order_of_claims_does_not_matter(problem: Problem, surplus: Surplus, data: st.DataObject) -> None:
    claims = data.draw(st.permutations(problem.claims))
    found = shares(problem.claims, problem.capacity, surplus)
    assert shares(claims, problem.capacity, surplus) == found


@often
@given(problems(has_unlimited=True, has_weightless=True, has_holders=True, is_large=False), surpluses)
def test_names_of_consumers_do_not_matter(problem: Problem, surplus: Surplus) -> None:
    names = dict(zip(problem.by_name, reversed(problem.by_name), strict=True))
    found = shares(problem.claims, problem.capacity, surplus)
    renamed = shares([replace(one, name=names[one.name]) for one in problem.claims], problem.capacity, surplus)
    assert all(renamed[names[name]].deserved == one.deserved for name, one in found.items())


@often
@given(problems(has_unlimited=True, has_weightless=True, has_parts=True, is_large=False), surpluses)
def test_names_of_resources_do_not_matter(problem: Problem, surplus: Surplus) -> None:
    names = dict(zip(RESOURCES, reversed(RESOURCES), strict=True))

    def other(amounts: Mapping[str, Amount]) -> dict[str, Amount]:
        return {names[name]: amount for name, amount in amounts.items()}

    claims = [
        replace(
            one,
            demand=other(one.demand),
            reserved=other(one.reserved),
            hard=other(one.hard),
            parts=[other(part) for part in one.parts],
        )
        for one in problem.claims
    ]
    capacity = {names[name]: amount for name, amount in problem.capacity.items()}
    renamed = shares(claims, capacity, surplus)
    for name, share in shares(problem.claims, problem.capacity, surplus).items():
        assert renamed[name].deserved == other(share.deserved)


@often
@given(
    problems(has_unlimited=True, has_weightless=True, has_holders=True, has_parts=True, is_large=False),
    surpluses,
    st.fractions(Fraction(1, 1000), 1000, max_denominator=1000).filter(bool),
)
def test_only_the_proportions_of_weights_matter(problem: Problem, surplus: Surplus, factor: Fraction) -> None:
    found = shares(problem.claims, problem.capacity, surplus)
    heavier = [replace(one, weight=one.weight * factor) for one in problem.claims]
    for name, share in shares(heavier, problem.capacity, surplus).items():
        dominant_share = found[name].dominant_share / factor
        assert share == replace(found[name], dominant_share=dominant_share)


@often
@given(problems(is_large=True, has_weightless=True), surpluses, st.integers(1, 1000))
def test_proportions_of_weights_matter_for_bytes_as_well(problem: Problem, surplus: Surplus, factor: int) -> None:
    found = shares(problem.claims, problem.capacity, surplus)
    heavier = [replace(one, weight=one.weight * factor) for one in problem.claims]
    for name, share in shares(heavier, problem.capacity, surplus).items():
        for resource, amount in share.deserved.items():
            assert abs(amount - found[name].deserved[resource]) <= problem.capacity[resource] * ROUNDING


@often
@given(problems(has_unlimited=True, has_weightless=True, has_holders=True, is_large=False), surpluses)
def test_the_unit_of_a_resource_does_not_matter(problem: Problem, surplus: Surplus) -> None:
    """Bytes are shared as kibibytes are."""

    def in_bytes(amounts: Mapping[str, Amount]) -> dict[str, Amount]:
        return {name: amount * 1024 if name == "cpu" else amount for name, amount in amounts.items()}

    claims = [
        replace(one, demand=in_bytes(one.demand), reserved=in_bytes(one.reserved), hard=in_bytes(one.hard))
        for one in problem.claims
    ]
    found = shares(claims, in_bytes(problem.capacity), surplus)
    for name, share in shares(problem.claims, problem.capacity, surplus).items():
        assert found[name] == replace(
            share, deserved={key: mpq(amount) for key, amount in in_bytes(share.deserved).items()}
        )


@often
@given(
    st.one_of(
        problems(models=(Model.TOGETHER,), has_weightless=True, has_caps=False, is_large=False),
        problems(models=(Model.TOGETHER,), has_weightless=True, has_guarantees=False, is_large=False),
    ),
    surpluses,
)
def test_one_part_is_the_whole_demand(problem: Problem, surplus: Surplus) -> None:
    claims = [replace(one, parts=[one.demand]) for one in problem.claims]
    found = shares(problem.claims, problem.capacity, surplus)
    for name, share in shares(claims, problem.capacity, surplus).items():
        assert share.deserved == found[name].deserved


@often
@given(problems(models=(Model.APART,), has_weightless=True, is_large=False), surpluses)
def test_parts_of_one_resource_each_are_resources_apart(problem: Problem, surplus: Surplus) -> None:
    claims = [
        replace(one, parts=[{name: amount} for name, amount in one.demand.items()], model=Model.TOGETHER)
        for one in problem.claims
    ]
    found = shares(problem.claims, problem.capacity, surplus)
    for name, share in shares(claims, problem.capacity, surplus).items():
        assert share.deserved == found[name].deserved


# --- shares: what the paper promises --------------------------------------------------------------------------------


@often
@given(problems(models=(Model.TOGETHER,), has_guarantees=False, has_caps=False))
def test_sharing_is_never_worse_than_a_cluster_of_ones_own(problem: Problem) -> None:
    """Sharing incentive: with its part of every resource, by weight, nobody could run more of its pods."""
    found = shares(problem.claims, problem.capacity)
    all_weights = sum(mpq(one.weight) for one in problem.claims)
    for claim in problem.claims:
        demand = demand_of(claim, problem.capacity)
        own = {name: amount * mpq(claim.weight) / all_weights for name, amount in problem.capacity.items()}
        shared = utility(demand, found[claim.name].deserved)
        assert shared >= min(utility(demand, own), mpq(1)) - ROUNDING


@often
@given(problems(models=(Model.APART,), has_guarantees=False, has_caps=False))
def test_resources_apart_are_no_worse_to_share_either(problem: Problem) -> None:
    """Of each resource at least what a cluster of one's own would have let all of them grow to together."""
    found = shares(problem.claims, problem.capacity)
    all_weights = sum(mpq(one.weight) for one in problem.claims)
    for claim in problem.claims:
        demand = demand_of(claim, problem.capacity)
        own = {name: amount * mpq(claim.weight) / all_weights for name, amount in problem.capacity.items()}
        part = min(utility(demand, own), mpq(1)) - ROUNDING
        assert all(found[claim.name].deserved[name] >= part * amount for name, amount in demand.items())


@often
@given(problems(models=(Model.TOGETHER,), has_guarantees=False, has_caps=False))
def test_nobody_envies_another(problem: Problem) -> None:
    """Envy-freeness: what another deserves, by weight, would not be worth more."""
    found = shares(problem.claims, problem.capacity)
    for claim in problem.claims:
        demand = demand_of(claim, problem.capacity)
        own = utility(demand, found[claim.name].deserved)
        for other in problem.claims:
            ratio = mpq(claim.weight) / other.weight
            bundle = {name: amount * ratio for name, amount in found[other.name].deserved.items()}
            assert min(utility(demand, bundle), mpq(1)) <= own + ROUNDING


@settings(max_examples=100, deadline=None)
@given(fluid, st.data())
def test_it_does_not_pay_to_lie(problem: Problem, data: st.DataObject) -> None:
    """Strategy-proofness: no other demand gets anybody more of the pods it really wants to run."""
    honest = problem.claims[0]
    demand = demand_of(honest, problem.capacity)
    truth = utility(demand, shares(problem.claims, problem.capacity)[honest.name].deserved)
    told = data.draw(st.dictionaries(st.sampled_from(sorted(problem.capacity)), st.integers(0, 30)))
    lying = shares([replace(honest, demand=told), *problem.claims[1:]], problem.capacity)[honest.name].deserved
    assert min(utility(demand, lying), mpq(1)) <= truth


@often
@given(fluid, st.data())
def test_nobody_can_be_made_better_off_without_harm(problem: Problem, data: st.DataObject) -> None:
    """Pareto efficiency: to give one more pods takes something that another one uses."""
    found = shares(problem.claims, problem.capacity)
    claim = data.draw(st.sampled_from(problem.claims))
    demand = demand_of(claim, problem.capacity)
    if utility(demand, found[claim.name].deserved) < 1:
        assert any(total(found, name) == problem.capacity[name] for name in demand)


# --- shares: what never goes down -----------------------------------------------------------------------------------

#: With several resources less of one can be more for somebody: who stops earlier leaves others what it does not take.
of_one_resource = problems(resources=1, has_weightless=True, is_large=False)


def nobody_has_less(now: Mapping[str, Share], before: Mapping[str, Share]) -> bool:
    return all(
        amount >= before[name].deserved[resource]
        for name, share in now.items()
        if name in before
        for resource, amount in share.deserved.items()
    )


@often
@given(of_one_resource, surpluses, st.integers(1, 12))
def test_more_of_the_only_resource_is_less_for_nobody(problem: Problem, surplus: Surplus, more: int) -> None:
    before = shares(problem.claims, problem.capacity, surplus)
    now = shares(problem.claims, {name: amount + more for name, amount in problem.capacity.items()}, surplus)
    assert nobody_has_less(now, before)


@often
@given(of_one_resource, surpluses)
def test_one_less_is_less_for_nobody_else(problem: Problem, surplus: Surplus) -> None:
    before = shares(problem.claims, problem.capacity, surplus)
    assert nobody_has_less(shares(problem.claims[1:], problem.capacity, surplus), before)


@often
@given(problems(models=(Model.TOGETHER,), has_guarantees=False, demands_everything=True, is_large=False))
def test_one_less_is_less_for_nobody_who_wants_the_same_resources(problem: Problem) -> None:
    """Population monotonicity: all stop at the same moment, and that comes later."""
    before = shares(problem.claims, problem.capacity)
    assert nobody_has_less(shares(problem.claims[1:], problem.capacity), before)


@often
@given(of_one_resource, surpluses, st.integers(1, 12))
def test_who_demands_more_of_the_only_resource_has_no_less(problem: Problem, surplus: Surplus, more: int) -> None:
    first, *others = problem.claims
    before = shares(problem.claims, problem.capacity, surplus)
    greedy = replace(first, demand={"cpu": first.demand["cpu"] + more})
    now = shares([greedy, *others], problem.capacity, surplus)
    assert now[first.name].deserved["cpu"] >= before[first.name].deserved["cpu"]
    assert nobody_has_less({name: before[name] for name in before if name != first.name}, now)


@often
@given(of_one_resource, surpluses, st.integers(1, 12))
def test_who_is_guaranteed_more_of_the_only_resource_has_no_less(problem: Problem, surplus: Surplus, more: int) -> None:
    first, *others = problem.claims
    before = shares(problem.claims, problem.capacity, surplus)[first.name].deserved["cpu"]
    safer = replace(first, reserved={"cpu": first.reserved.get("cpu", 0) + more})
    assert shares([safer, *others], problem.capacity, surplus)[first.name].deserved["cpu"] >= before


@often
@given(of_one_resource, surpluses, weights)
def test_who_has_more_weight_has_no_less_of_the_only_resource(problem: Problem, surplus: Surplus, more: Amount) -> None:
    first, *others = problem.claims
    before = shares(problem.claims, problem.capacity, surplus)[first.name].deserved["cpu"]
    heavier = replace(first, weight=first.weight + more)
    assert shares([heavier, *others], problem.capacity, surplus)[first.name].deserved["cpu"] >= before


# --- shares: what is refused ----------------------------------------------------------------------------------------


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


# --- trees ----------------------------------------------------------------------------------------------------------


@often
@given(anything, surpluses)
def test_a_tree_of_one_level_is_no_tree(problem: Problem, surplus: Surplus) -> None:
    flat = shares(problem.claims, problem.capacity, surplus)
    assert tree_shares(Zone("root", problem.claims), problem.capacity, surplus) == flat


@often
@given(trees(problems(most=6, has_weightless=True, has_holders=True, has_parts=True)), surpluses)
def test_those_in_a_zone_share_no_more_than_it_deserves(tree: tuple[Zone, dict[str, int]], surplus: Surplus) -> None:
    root, capacity = tree
    found = tree_shares(root, capacity, surplus)
    for zone in zones_of(root):
        for resource, amount in capacity.items():
            whole = amount if zone is root else found[zone.name].deserved[resource]
            assert sum(found[member.name].deserved[resource] for member in zone.members) <= whole


@often
@given(trees(problems(most=6, has_weightless=True, has_holders=True, has_parts=True)), surpluses)
def test_everybody_in_a_tree_has_one_share_within_its_cap(tree: tuple[Zone, dict[str, int]], surplus: Surplus) -> None:
    root, capacity = tree
    found = tree_shares(root, capacity, surplus)
    members = {member.name: member for zone in zones_of(root) for member in zone.members}
    assert found.keys() == members.keys()
    for name, member in members.items():
        for resource, amount in member.hard.items():
            assert found[name].deserved.get(resource, 0) <= amount


@often
@given(trees(problems(most=6, resources=1, has_guarantees=False, has_caps=False, is_large=False)), surpluses)
def test_nothing_is_idle_in_a_tree_while_somebody_wants_it(tree: tuple[Zone, dict[str, int]], surplus: Surplus) -> None:
    """Of one resource: with several, a zone may deserve what those in it cannot use without another."""
    root, capacity = tree
    found = tree_shares(root, capacity, surplus)
    claims = claims_of(root)
    used = sum(found[claim.name].deserved["cpu"] for claim in claims)
    assert used == min(capacity["cpu"], sum(claim.demand["cpu"] for claim in claims))


@often
@given(trees(problems(most=6, resources=1, has_caps=False, is_large=False)), surpluses)
def test_a_guarantee_at_a_leaf_is_kept_through_all_zones(tree: tuple[Zone, dict[str, int]], surplus: Surplus) -> None:
    root, capacity = tree
    claims = claims_of(root)
    reserved = sum(mpq(zone.reserved.get("cpu", 0)) for zone in zones_of(root))
    assume(reserved + sum(mpq(wanted(claim, "cpu")) for claim in claims) <= capacity["cpu"])
    found = tree_shares(root, capacity, surplus)
    assert all(found[claim.name].deserved["cpu"] >= wanted(claim, "cpu") for claim in claims)


@often
@given(problems(resources=1, has_weightless=True, is_large=False), surpluses)
def test_a_zone_of_ones_own_makes_no_difference(problem: Problem, surplus: Surplus) -> None:
    lonely = [Zone(f"zone-{one.name}", [one], one.weight, one.reserved, one.hard) for one in problem.claims]
    found = tree_shares(Zone("root", lonely), problem.capacity, surplus)
    for name, share in shares(problem.claims, problem.capacity, surplus).items():
        assert found[name].deserved == found[f"zone-{name}"].deserved == share.deserved


def test_two_of_one_name_are_refused_in_different_zones() -> None:
    with pytest.raises(ValueError):
        tree_shares(Zone("root", [Zone("z", [Claim("a", {})]), Claim("a", {})]), {"cpu": 1})


# --- whole numbers --------------------------------------------------------------------------------------------------

fractions = st.fractions(0, 20, max_denominator=7)


@st.composite
def sums(draw: st.DrawFn) -> tuple[dict[str, Fraction], int]:
    """Shares, and a sum that they can be rounded to."""
    parts = draw(st.dictionaries(st.sampled_from(NAMES), fractions, min_size=1))
    least = sum(int(part) for part in parts.values())
    return parts, draw(st.integers(least, least + sum(part.denominator > 1 for part in parts.values())))


@often
@given(sums())
def test_whole_numbers_have_the_sum_that_was_asked_for(told: tuple[dict[str, Fraction], int]) -> None:
    parts, whole = told
    assert sum(rounded(parts, whole).values()) == whole


@often
@given(sums())
def test_whole_numbers_are_less_than_one_away(told: tuple[dict[str, Fraction], int]) -> None:
    parts, whole = told
    assert all(abs(amount - parts[name]) < 1 for name, amount in rounded(parts, whole).items())


@often
@given(sums())
def test_larger_remainders_are_rounded_up_first_and_ties_go_by_name(told: tuple[dict[str, Fraction], int]) -> None:
    parts, whole = told
    found = rounded(parts, whole)
    up = [name for name in parts if found[name] > parts[name]]
    down = [name for name in parts if found[name] < parts[name]]
    for one in up:
        for other in down:
            assert (-(parts[one] % 1), one) < (-(parts[other] % 1), other)


@often
@given(sums(), st.data())
def test_whole_numbers_do_not_hang_on_the_order(told: tuple[dict[str, Fraction], int], data: st.DataObject) -> None:
    parts, whole = told
    shuffled = dict(data.draw(st.permutations(list(parts.items()))))
    assert rounded(shuffled, whole) == rounded(parts, whole)


@often
@given(sums(), st.integers(1, 5))
def test_a_sum_that_is_out_of_reach_is_refused(told: tuple[dict[str, Fraction], int], away: int) -> None:
    parts, _ = told
    least = sum(int(part) for part in parts.values())
    most = least + sum(part.denominator > 1 for part in parts.values())
    for out_of_reach in (least - away, most + away):
        with pytest.raises(ValueError):
            rounded(parts, out_of_reach)


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[Tasks], dict[str, int]]:
    """Consumers with tasks to be picked; every task needs something."""
    capacity = {name: draw(st.integers(1, 20)) for name in RESOURCES[: draw(st.integers(1, 3))]}
    sizes = st.dictionaries(st.sampled_from(sorted(capacity)), st.integers(1, 6), min_size=1)
    names = NAMES[: draw(st.integers(1, 4))]
    return [Tasks(name, draw(sizes), draw(st.integers(0, 6)), draw(weights)) for name in names], capacity


@often
@given(queues())
def test_tasks_are_picked_while_one_fits_and_no_longer(queue: tuple[list[Tasks], dict[str, int]]) -> None:
    consumers, capacity = queue
    given_ = picks(consumers, capacity)
    used = {name: sum(given_.count(one.name) * one.size.get(name, 0) for one in consumers) for name in capacity}
    assert all(used[name] <= amount for name, amount in capacity.items())
    for one in consumers:
        had = given_.count(one.name)
        assert had <= one.count
        fits = all(used[name] + amount <= capacity[name] for name, amount in one.size.items())
        assert had == one.count or not fits


@often
@given(queues())
def test_a_task_is_picked_of_whoever_has_least_of_those_whose_task_fits(
    queue: tuple[list[Tasks], dict[str, int]],
) -> None:
    consumers, capacity = queue
    left = {name: mpq(amount) for name, amount in capacity.items()}
    had = {one.name: 0 for one in consumers}

    def level(one: Tasks) -> mpq:
        return dominant(one.size, capacity) * had[one.name] / one.weight

    for name in picks(consumers, capacity):
        fitting = [
            one
            for one in consumers
            if had[one.name] < one.count and all(amount <= left[key] for key, amount in one.size.items())
        ]
        first = min(fitting, key=level)
        assert name == first.name
        had[name] += 1
        left |= {key: left[key] - amount for key, amount in first.size.items()}


# --- what is granted ------------------------------------------------------------------------------------------------

amounts = st.one_of(st.integers(0, 12), st.integers(0, 1 << 44), st.fractions(0, 12, max_denominator=6))
holdings = st.dictionaries(
    st.sampled_from(NAMES), st.builds(Holding, amounts, amounts, st.one_of(st.just(0), weights)), min_size=1
)


@often
@given(holdings, amounts)
def test_what_is_granted_is_free_or_held_already(rows: dict[str, Holding], capacity: Amount) -> None:
    found = granted(rows, capacity)
    used = sum((mpq(one.used) for one in rows.values()), mpq(0))
    promised = sum((max(found[name], mpq(one.used)) for name, one in rows.items()), mpq(0))
    assert promised <= max(mpq(capacity), used)


@often
@given(holdings, amounts)
def test_nobody_is_granted_more_than_it_deserves(rows: dict[str, Holding], capacity: Amount) -> None:
    assert all(amount <= rows[name].deserved for name, amount in granted(rows, capacity).items())


@often
@given(holdings, amounts)
def test_nobody_who_has_too_little_is_granted_less_than_it_has(rows: dict[str, Holding], capacity: Amount) -> None:
    found = granted(rows, capacity)
    assert all(found[name] >= min(mpq(one.used), mpq(one.deserved)) for name, one in rows.items())


@often
@given(holdings, amounts)
def test_all_that_is_free_is_granted_if_it_is_deserved(rows: dict[str, Holding], capacity: Amount) -> None:
    found = granted(rows, capacity)
    free = max(mpq(capacity) - sum((mpq(one.used) for one in rows.values()), mpq(0)), mpq(0))
    lacking = sum((max(mpq(one.deserved) - one.used, mpq(0)) for one in rows.values()), mpq(0))
    more = sum((max(found[name] - one.used, mpq(0)) for name, one in rows.items()), mpq(0))
    assert more >= min(free, lacking) - free * ROUNDING


@often
@given(holdings, amounts)
def test_what_is_free_is_divided_by_weight(rows: dict[str, Holding], capacity: Amount) -> None:
    """Who lacks something still has been given no less by weight than anybody else; who has no weight comes last."""
    found = granted(rows, capacity)
    more = {name: found[name] - one.used for name, one in rows.items() if one.deserved > one.used}
    short = [name for name in more if found[name] < rows[name].deserved]
    for one in short:
        for other in more:
            if rows[one].weight and rows[other].weight:
                assert more[other] / rows[other].weight <= more[one] / rows[one].weight + ROUNDING * capacity
            elif rows[one].weight:
                assert more[other] <= ROUNDING * capacity


@often
@given(holdings, amounts)
def test_what_was_granted_can_be_used_without_changing_what_is_granted(
    rows: dict[str, Holding], capacity: Amount
) -> None:
    """Whoever starts all the pods that it may leaves the others what they were granted, and no more is granted."""
    found = granted(rows, capacity)
    started = {name: replace(one, used=max(mpq(one.used), found[name])) for name, one in rows.items()}
    again = granted(started, capacity)
    assert all(abs(again[name] - amount) <= ROUNDING * capacity for name, amount in found.items())
