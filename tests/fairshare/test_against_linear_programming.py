"""The shares against an independent solver, on whatever may be claimed, odd things included."""

from __future__ import annotations

from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.fairshare.claims import Claim, Model, Surplus
from fairlead.fairshare.shares import shares
from tests.examples import examples
from tests.fairshare.generated import LARGE, Problem, problems, surpluses
from tests.fairshare.linear import NoAnswerError, Programs, TooLittleError

#: Of the whole of a resource.
TOLERANCE = 1e-5

#: To find the smallest example takes minutes of linear programs.
WITHOUT_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
some = settings(max_examples=examples(25), phases=WITHOUT_SHRINKING)
more = settings(some, max_examples=examples(40))


def assert_as_fair(problem: Problem, surplus: Surplus = Surplus.TOTAL) -> None:
    programs = Programs(problem.claims, problem.capacity, surplus)
    try:
        expected = programs.deserved()
    except (TooLittleError, NoAnswerError):
        reject()
    found = shares(problem.claims, problem.capacity, surplus)
    for name, parts in expected.items():
        for resource, part in parts.items():
            assert abs(float(found[name].deserved[resource] / problem.capacity[resource]) - part) <= TOLERANCE, name
    # Of several guarantees and caps over several pod sizes, some of one may be out of reach for the sake of another.
    if all(problem.capacity.values()) and not any(claim.parts and claim.hard for claim in problem.claims):
        assert all(share.is_reserved_met for share in found.values()) is programs.are_guarantees_kept


@some
@given(problems(models=(Model.TOGETHER,), has_guarantees=False, has_caps=False, is_large=False))
def test_pods_that_need_everything_at_once_share_as_linear_programs_would(problem: Problem) -> None:
    assert_as_fair(problem)


@some
@given(problems(models=(Model.TOGETHER,), has_guarantees=False, most=7, is_large=True, smallest=LARGE >> 4))
def test_bytes_are_shared_as_linear_programs_would(problem: Problem) -> None:
    assert_as_fair(problem)


@some
@given(problems(resources=1, is_large=False, has_weightless=True, has_unlimited=True, has_holders=True), surpluses)
def test_guarantees_of_one_resource_are_floors_to_linear_programs(problem: Problem, surplus: Surplus) -> None:
    assert_as_fair(problem, surplus)


@some
@given(problems(models=(Model.APART,), is_large=False, has_weightless=True, has_unlimited=True), surpluses)
def test_resources_apart_are_shared_as_linear_programs_would(problem: Problem, surplus: Surplus) -> None:
    assert_as_fair(problem, surplus)


@more
@given(
    problems(
        is_large=False, most=4, has_weightless=True, has_unlimited=True, has_holders=True, has_parts=True, reserved=4
    ),
    surpluses,
)
def test_everything_at_once_is_shared_as_linear_programs_would(problem: Problem, surplus: Surplus) -> None:
    assert_as_fair(problem, surplus)


@st.composite
def odd(draw: st.DrawFn) -> Problem:
    """With resources of which there is nothing, resources that nobody knows, and bounds of nothing."""
    problem = draw(problems(is_large=False, most=4, has_weightless=True, has_parts=True, reserved=4))
    gone = draw(st.sampled_from(sorted(problem.capacity)))
    unknown = {"unknown": draw(st.integers(0, 5))}

    def odder(claim: Claim) -> Claim:
        what = draw(st.sampled_from(("demand", "reserved", "bound", "nothing")))
        if what == "demand":
            return replace(
                claim, demand={**claim.demand, **unknown}, parts=[{**part, **unknown} for part in claim.parts]
            )
        if what == "reserved":
            return replace(claim, reserved={**claim.reserved, **unknown})
        return replace(claim, hard={**claim.hard, gone: 0, **unknown}) if what == "bound" else claim

    capacity = problem.capacity | ({gone: 0} if draw(st.booleans()) else {})
    return Problem(tuple(odder(claim) for claim in problem.claims), capacity)


@more
@given(odd(), surpluses)
def test_odd_things_are_shared_as_linear_programs_would(problem: Problem, surplus: Surplus) -> None:
    assert_as_fair(problem, surplus)
