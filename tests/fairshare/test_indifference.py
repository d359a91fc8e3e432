"""What shares do not hang on: orders, names, units, and the scale of weights."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.fairshare.claims import Amount, Model, Surplus
from fairlead.fairshare.shares import shares
from tests.fairshare.generated import RESOURCES, ROUNDING, Problem, anything, often, problems, surpluses


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
    renamed = shares([replace(claim, name=names[claim.name]) for claim in problem.claims], problem.capacity, surplus)
    assert all(renamed[names[name]].deserved == share.deserved for name, share in found.items())


@often
@given(problems(has_unlimited=True, has_weightless=True, has_parts=True, is_large=False), surpluses)
def test_names_of_resources_do_not_matter(problem: Problem, surplus: Surplus) -> None:
    names = dict(zip(RESOURCES, reversed(RESOURCES), strict=True))

    def other(amounts: Mapping[str, Amount]) -> dict[str, Amount]:
        return {names[name]: amount for name, amount in amounts.items()}

    claims = [
        replace(
            claim,
            demand=other(claim.demand),
            reserved=other(claim.reserved),
            hard=other(claim.hard),
            parts=[other(part) for part in claim.parts],
        )
        for claim in problem.claims
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
    heavier = [replace(claim, weight=claim.weight * factor) for claim in problem.claims]
    for name, share in shares(heavier, problem.capacity, surplus).items():
        dominant_share = found[name].dominant_share / factor
        assert share == replace(found[name], dominant_share=dominant_share)


@often
@given(problems(is_large=True, has_weightless=True), surpluses, st.integers(1, 1000))
def test_proportions_of_weights_matter_for_bytes_as_well(problem: Problem, surplus: Surplus, factor: int) -> None:
    found = shares(problem.claims, problem.capacity, surplus)
    heavier = [replace(claim, weight=claim.weight * factor) for claim in problem.claims]
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
        replace(claim, demand=in_bytes(claim.demand), reserved=in_bytes(claim.reserved), hard=in_bytes(claim.hard))
        for claim in problem.claims
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
    claims = [replace(claim, parts=[claim.demand]) for claim in problem.claims]
    found = shares(problem.claims, problem.capacity, surplus)
    for name, share in shares(claims, problem.capacity, surplus).items():
        assert share.deserved == found[name].deserved


@often
@given(problems(models=(Model.APART,), has_weightless=True, is_large=False), surpluses)
def test_parts_of_one_resource_each_are_resources_apart(problem: Problem, surplus: Surplus) -> None:
    claims = [
        replace(claim, parts=[{name: amount} for name, amount in claim.demand.items()], model=Model.TOGETHER)
        for claim in problem.claims
    ]
    found = shares(problem.claims, problem.capacity, surplus)
    for name, share in shares(claims, problem.capacity, surplus).items():
        assert share.deserved == found[name].deserved
