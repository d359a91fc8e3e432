"""What theory promises of dominant resource fairness (Ghodsi et al., NSDI 2011), and what grows with what."""

from __future__ import annotations

from collections.abc import Mapping

from gmpy2 import mpq
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.fairshare.claims import Amount, Model, Share, Surplus
from fairlead.fairshare.shares import shares
from tests.examples import examples
from tests.fairshare.generated import (
    ROUNDING,
    Problem,
    demand_of,
    often,
    problems,
    surpluses,
    total,
    utility,
    weights,
)

#: As the paper has it: nobody is guaranteed or refused anything, and pods need all their resources at once.
fluid = problems(models=(Model.TOGETHER,), has_guarantees=False, has_caps=False, is_large=False)


# --- what the paper promises ------------------------------------------------------------------------------------------


@often
@given(problems(models=(Model.TOGETHER,), has_guarantees=False, has_caps=False))
def test_sharing_is_never_worse_than_a_cluster_of_ones_own(problem: Problem) -> None:
    """Sharing incentive: with its part of every resource, by weight, nobody could run more of its pods."""
    found = shares(problem.claims, problem.capacity)
    all_weights = sum(mpq(claim.weight) for claim in problem.claims)
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
    all_weights = sum(mpq(claim.weight) for claim in problem.claims)
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
        for peer in problem.claims:
            ratio = mpq(claim.weight) / peer.weight
            bundle = {name: amount * ratio for name, amount in found[peer.name].deserved.items()}
            assert min(utility(demand, bundle), mpq(1)) <= own + ROUNDING


@settings(max_examples=examples(100))
@given(fluid, st.data())
def test_it_does_not_pay_to_lie(problem: Problem, data: st.DataObject) -> None:
    """Strategy-proofness: no other demand gets anybody more of the pods it really wants to run."""
    honest = problem.claims[0]
    demand = demand_of(honest, problem.capacity)
    truth = utility(demand, shares(problem.claims, problem.capacity)[honest.name].deserved)
    lie = data.draw(st.dictionaries(st.sampled_from(sorted(problem.capacity)), st.integers(0, 30)))
    lying = shares([replace(honest, demand=lie), *problem.claims[1:]], problem.capacity)[honest.name].deserved
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


# --- what never goes down ---------------------------------------------------------------------------------------------


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
    first, *rest = problem.claims
    before = shares(problem.claims, problem.capacity, surplus)
    greedy = replace(first, demand={"cpu": first.demand["cpu"] + more})
    now = shares([greedy, *rest], problem.capacity, surplus)
    assert now[first.name].deserved["cpu"] >= before[first.name].deserved["cpu"]
    assert nobody_has_less({name: before[name] for name in before if name != first.name}, now)


@often
@given(of_one_resource, surpluses, st.integers(1, 12))
def test_who_is_guaranteed_more_of_the_only_resource_has_no_less(problem: Problem, surplus: Surplus, more: int) -> None:
    first, *rest = problem.claims
    before = shares(problem.claims, problem.capacity, surplus)[first.name].deserved["cpu"]
    safer = replace(first, reserved={"cpu": first.reserved.get("cpu", 0) + more})
    assert shares([safer, *rest], problem.capacity, surplus)[first.name].deserved["cpu"] >= before


@often
@given(of_one_resource, surpluses, weights)
def test_who_has_more_weight_has_no_less_of_the_only_resource(problem: Problem, surplus: Surplus, more: Amount) -> None:
    first, *rest = problem.claims
    before = shares(problem.claims, problem.capacity, surplus)[first.name].deserved["cpu"]
    heavier = replace(first, weight=first.weight + more)
    assert shares([heavier, *rest], problem.capacity, surplus)[first.name].deserved["cpu"] >= before
