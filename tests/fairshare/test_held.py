"""What is kept for a consumer (`reservedPolicy: Hold`) is there for its own pods, whatever else those need."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from fairlead.fairshare.claims import Claim, Model, Surplus
from fairlead.fairshare.shares import shares
from tests.examples import examples
from tests.fairshare.generated import ROUNDING, Problem, demand_of, problems, surpluses, utility

CLUSTER = {"cpu": 10, "mem": 10}


@pytest.mark.parametrize("surplus", Surplus)
def test_pods_take_what_is_kept_for_them_before_they_take_what_is_left(surplus: Surplus) -> None:
    """Six of the ten processors are kept: of the four that are left they need but two, not all eight.

    It cannot begin with its guarantee: the memory that it needs is guaranteed to another, which in the end lends it.
    """
    claims = [
        Claim("holder", {"cpu": 8, "mem": 8}, reserved={"cpu": 6}, lends=False),
        Claim("lender", {"gpu": 1, "mem": 9}, reserved={"mem": 9}),
        Claim("rival", {"gpu": 1}, is_unlimited=True),
    ]
    found = shares(claims, CLUSTER | {"gpu": 1}, surplus)
    assert found["holder"].deserved == {"cpu": 8, "gpu": 0, "mem": 8}
    assert found["holder"].bottleneck == "demand"


@pytest.mark.parametrize("surplus", Surplus)
def test_pods_of_several_sizes_take_of_the_same_reserve(surplus: Surplus) -> None:
    """Whichever of them can still grow: there is no memory for the second part."""
    parts = [{"cpu": 8}, {"cpu": 8, "mem": 8}]
    holder = Claim("holder", {"cpu": 16, "mem": 8}, reserved={"cpu": 8}, lends=False, parts=parts)
    rivals = [Claim("other", {"mem": 10}, is_unlimited=True), Claim("rival", {"cpu": 16})]
    found = shares([holder, *rivals], CLUSTER, surplus)
    assert found["holder"].deserved == {"cpu": 8, "mem": 0}
    assert found["rival"].deserved == {"cpu": 2, "mem": 0}


@settings(max_examples=examples(100))
@given(problems(models=(Model.TOGETHER,), has_weightless=True, has_unlimited=True, has_holders=True), surpluses)
def test_nobody_is_stopped_by_a_resource_that_is_kept_for_it(problem: Problem, surplus: Surplus) -> None:
    found = shares(problem.claims, problem.capacity, surplus)
    for claim in problem.claims:
        share = found[claim.name]
        if share.bottleneck in problem.capacity:
            demand = demand_of(claim, problem.capacity)
            used = utility(demand, share.deserved) * demand[share.bottleneck]
            assert share.deserved[share.bottleneck] - used <= problem.capacity[share.bottleneck] * ROUNDING
