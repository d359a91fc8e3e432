"""Simulated nodes give way to a rush, and never stop."""

from __future__ import annotations

import asyncio
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from fairlead.runtime.loops import run_virtual
from fairlead.sim.pace import CROWD, LEAST, MOST, SAMPLE, Pace


def wrote(pace: Pace, others: int, times: int = SAMPLE, *, since: int = 0) -> int:
    """So many writes of the nodes, each after so many of others; the resource version afterwards."""
    revision = since
    for _ in range(times):
        revision += others + 1
        pace.wrote(revision)
    return revision


def test_they_stand_back_while_others_write_more_and_come_back_afterwards() -> None:
    pace = Pace()
    revision = wrote(pace, others=CROWD + 1, times=10 * SAMPLE)
    assert pace.window == LEAST
    wrote(pace, others=0, times=10 * SAMPLE, since=revision)
    assert pace.window == MOST


def test_a_few_who_write_one_after_the_other_are_no_rush() -> None:
    pace = Pace()
    revision = wrote(pace, others=CROWD + 1, times=10 * SAMPLE)
    for _ in range(10 * SAMPLE):  # as many as are under way report, while three others write once each
        revision += pace.window + 3
        for _ in range(pace.window):
            pace.wrote(revision)
    assert pace.window == MOST


def test_leases_are_not_taken_for_the_writes_of_others() -> None:
    pace, revision = Pace(), 0
    for _ in range(100):
        for _ in range(SAMPLE):
            pace.wrote_beside()
        revision += SAMPLE + 1
        pace.wrote(revision)
    assert pace.window == MOST


def test_a_rush_is_seen_however_many_writes_are_told_at_once() -> None:
    pace, revision = Pace(), 0
    for _ in range(10):  # group commits: many writes are answered at one resource version
        revision += pace.window + 2 * MOST
        for _ in range(pace.window):
            pace.wrote(revision)
    assert pace.window == LEAST


@given(st.lists(st.integers(0, 5), max_size=200))
def test_whatever_others_do_some_are_let_through_and_never_too_many(others: list[int]) -> None:
    pace = Pace()
    for revision in accumulate(count + 1 for count in others):
        pace.wrote(revision)
        assert LEAST <= pace.window <= MOST


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=300))
def test_all_work_is_done_and_no_more_at_once_than_the_window_allowed(work: list[tuple[int, int]]) -> None:
    pace, done, under_way = Pace(), [], set[int]()

    async def one(number: int, seconds: int, others: int) -> None:
        async with pace:
            under_way.add(number)
            assert len(under_way) <= MOST
            await asyncio.sleep(seconds)
            under_way.discard(number)
            wrote(pace, others)
            done.append(number)

    async def every() -> None:
        await asyncio.gather(*(one(number, *each) for number, each in enumerate(work)))

    run_virtual(every())  # would say Stalled if somebody were never woken
    assert sorted(done) == list(range(len(work)))


def test_in_a_rush_only_the_least_are_under_way() -> None:
    pace, most = Pace(), 0
    wrote(pace, others=9, times=10 * SAMPLE)

    async def one() -> None:
        nonlocal most
        async with pace:
            most = max(most, pace.under_way)
            await asyncio.sleep(1)

    async def every() -> None:
        await asyncio.gather(*(one() for _ in range(50)))

    run_virtual(every())
    assert most == LEAST
