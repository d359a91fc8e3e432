"""Whole numbers that add up, and whole tasks."""

from __future__ import annotations

from fractions import Fraction

import pytest
from gmpy2 import mpq
from hypothesis import given
from hypothesis import strategies as st

from fairlead.fairshare.claims import dominant
from fairlead.fairshare.rounding import Tasks, picks, rounded
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
def test_whole_numbers_have_the_sum_that_was_asked_for(problem: tuple[dict[str, Fraction], int]) -> None:
    parts, whole = problem
    assert sum(rounded(parts, whole).values()) == whole


@often
@given(sums())
def test_whole_numbers_are_less_than_one_away(problem: tuple[dict[str, Fraction], int]) -> None:
    parts, whole = problem
    assert all(abs(amount - parts[name]) < 1 for name, amount in rounded(parts, whole).items())


@often
@given(sums())
def test_larger_remainders_are_rounded_up_first_and_ties_go_by_name(problem: tuple[dict[str, Fraction], int]) -> None:
    parts, whole = problem
    found = rounded(parts, whole)
    up = [name for name in parts if found[name] > parts[name]]
    down = [name for name in parts if found[name] < parts[name]]
    for higher in up:
        for lower in down:
            assert (-(parts[higher] % 1), higher) < (-(parts[lower] % 1), lower)


@often
@given(sums(), st.data())
def test_whole_numbers_do_not_hang_on_the_order(problem: tuple[dict[str, Fraction], int], data: st.DataObject) -> None:
    parts, whole = problem
    shuffled = dict(data.draw(st.permutations(list(parts.items()))))
    assert rounded(shuffled, whole) == rounded(parts, whole)


@often
@given(sums(), st.integers(1, 5))
def test_a_sum_that_is_out_of_reach_is_refused(problem: tuple[dict[str, Fraction], int], away: int) -> None:
    parts, _ = problem
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
    used = {
        name: sum(given_.count(consumer.name) * consumer.size.get(name, 0) for consumer in consumers)
        for name in capacity
    }
    assert all(used[name] <= amount for name, amount in capacity.items())
    for consumer in consumers:
        had = given_.count(consumer.name)
        assert had <= consumer.count
        fits = all(used[name] + amount <= capacity[name] for name, amount in consumer.size.items())
        assert had == consumer.count or not fits


@often
@given(queues())
def test_a_task_is_picked_of_whoever_has_least_of_those_whose_task_fits(
    queue: tuple[list[Tasks], dict[str, int]],
) -> None:
    consumers, capacity = queue
    left = {name: mpq(amount) for name, amount in capacity.items()}
    had = {consumer.name: 0 for consumer in consumers}

    def level(consumer: Tasks) -> mpq:
        return dominant(consumer.size, capacity) * had[consumer.name] / consumer.weight

    for name in picks(consumers, capacity):
        fitting = [
            consumer
            for consumer in consumers
            if had[consumer.name] < consumer.count and all(amount <= left[key] for key, amount in consumer.size.items())
        ]
        first = min(fitting, key=level)
        assert name == first.name
        had[name] += 1
        left |= {key: left[key] - amount for key, amount in first.size.items()}
