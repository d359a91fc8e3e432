"""`ReservedUnsatisfiable` is said of a cluster that has too little, not of a consumer that bounds itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from fairlead.fairshare.claims import Claim, Surplus
from fairlead.fairshare.shares import shares
from tests.examples import examples
from tests.fairshare.generated import Problem, problems, surpluses, wanted

CLUSTER = {"cpu": 10, "gpu": 10, "mem": 10}
#: Its cap leaves processors for half of its pods, and it is guaranteed those for both sizes.
PARTS = [{"cpu": 4, "gpu": 4}, {"cpu": 4}]
ALL = {"cpu": 8, "gpu": 4}


@pytest.mark.parametrize("surplus", Surplus)
def test_who_is_stopped_by_its_own_cap_lacks_nothing(surplus: Surplus) -> None:
    claim = Claim("one", ALL, reserved={"cpu": 4, "gpu": 4}, hard={"cpu": 4}, parts=PARTS)
    found = shares([claim], CLUSTER, surplus)["one"]
    assert found.deserved["cpu"] == 4
    assert found.deserved["gpu"] < 4
    assert found.bottleneck == "hard"
    assert found.is_reserved_met


@pytest.mark.parametrize("surplus", Surplus)
def test_within_its_cap_those_pods_come_first_that_it_is_guaranteed(surplus: Surplus) -> None:
    claim = Claim("one", ALL, reserved={"gpu": 4}, hard={"cpu": 4}, parts=PARTS)
    found = shares([claim], CLUSTER, surplus)["one"]
    assert found.deserved == {"cpu": 4, "gpu": 4, "mem": 0}


@pytest.mark.parametrize("surplus", Surplus)
def test_it_does_not_matter_what_stops_pods_that_take_no_part_in_the_guarantee(surplus: Surplus) -> None:
    """Memory is used up, but it is the cap on processors that keeps it from the rest of its guarantee."""
    claim = Claim("one", ALL | {"mem": 4}, reserved={"cpu": 4, "gpu": 4}, hard={"cpu": 4}, parts=[*PARTS, {"mem": 4}])
    found = shares([claim, Claim("greedy", {"mem": 10}, is_unlimited=True)], CLUSTER, surplus)["one"]
    assert found.deserved["cpu"] == 4
    assert found.deserved["gpu"] < 4
    assert found.bottleneck == "mem"
    assert found.is_reserved_met


@pytest.mark.parametrize("surplus", Surplus)
def test_a_cap_that_guarantees_use_up_stops_before_the_cluster_does(surplus: Surplus) -> None:
    """When its turn comes to have more, there are no processors left, but it may not have any either."""
    parts = [{"gpu": 2}, {"cpu": 8, "gpu": 8}]
    claim = Claim("one", {"cpu": 8, "gpu": 10}, 0, reserved={"gpu": 10}, hard={"cpu": 4}, parts=parts)
    found = shares([claim, Claim("greedy", {"cpu": 10})], CLUSTER, surplus)["one"]
    assert found.deserved == {"cpu": 4, "gpu": 6, "mem": 0}
    assert found.bottleneck == "hard"
    assert found.is_reserved_met


@pytest.mark.parametrize("surplus", Surplus)
def test_it_is_said_if_the_cluster_lacks_what_is_guaranteed(surplus: Surplus) -> None:
    claim = Claim("one", ALL, reserved={"gpu": 4}, hard={"cpu": 6}, parts=PARTS)
    found = shares([claim, Claim("greedy", {"gpu": 9}, is_unlimited=True)], CLUSTER, surplus)["one"]
    assert found.bottleneck == "gpu"
    assert not found.is_reserved_met


@pytest.mark.parametrize("surplus", Surplus)
def test_what_is_held_is_kept_whole_or_it_is_said(surplus: Surplus) -> None:
    """Even what is idle: who does not lend is guaranteed all of it."""
    idle = Claim("idle", {}, reserved={"cpu": 8}, lends=False)
    busy = Claim("busy", {"cpu": 10}, reserved={"cpu": 8})
    found = shares([idle, busy], CLUSTER, surplus)
    assert {name: share.deserved["cpu"] for name, share in found.items()} == {"idle": 5, "busy": 5}
    assert not any(share.is_reserved_met for share in found.values())
    assert all(share.is_reserved_met for share in shares([idle, Claim("other", {"cpu": 10})], CLUSTER).values())


@settings(max_examples=examples(100))
@given(problems(has_parts=True, has_weightless=True, has_holders=True, has_unlimited=True), surpluses)
def test_who_has_its_guarantee_is_never_said_to_lack_it(problem: Problem, surplus: Surplus) -> None:
    found = shares(problem.claims, problem.capacity, surplus)
    for claim in problem.claims:
        share = found[claim.name]
        if all(amount >= wanted(claim, name) for name, amount in share.deserved.items()):
            assert share.is_reserved_met


@settings(max_examples=examples(100))
@given(problems(has_parts=True, has_weightless=True, has_holders=True), surpluses)
def test_in_a_cluster_with_room_for_everybody_nobody_lacks_its_guarantee(problem: Problem, surplus: Surplus) -> None:
    plenty = {
        name: 1 + sum(int(max(claim.demand.get(name, 0), claim.reserved.get(name, 0))) for claim in problem.claims)
        for name in problem.capacity
    }
    assert all(share.is_reserved_met for share in shares(problem.claims, plenty, surplus).values())
