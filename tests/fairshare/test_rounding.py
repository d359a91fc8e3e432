"""Whole numbers that add up, and whole tasks."""

from __future__ import annotations

from fractions import Fraction

import pytest
from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st

from fairlead.fairshare.claims import dominant
from fairlead.fairshare.whole import Tasks, picks, rounded
from tests.fairshare.generated import NAMES, RESOURCES, often, weights

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
