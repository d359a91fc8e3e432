"""The work queue never loses a key and never gives one to two workers; its timing is client-go's."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st

from fairlead.client.worker import work_off
from fairlead.runtime.clock import monotonic, now
from fairlead.runtime.loops import run as real
from fairlead.runtime.loops import run_virtual
from fairlead.runtime.workqueue import WorkQueue
from tests.played import played


def run(test: Callable[[WorkQueue[str]], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(WorkQueue())

    run_virtual(main())


@played(run)
async def test_keys_come_in_the_order_in_which_they_were_added(queue: WorkQueue[str]) -> None:
    for key in "cab":
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["c", "a", "b"]


@played(run)
async def test_a_key_that_waits_already_is_not_added_twice(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("a")
    assert len(queue) == 1


@played(run)
async def test_a_key_added_during_work_is_worked_on_once_more_afterwards(queue: WorkQueue[str]) -> None:
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    assert not queue.is_idle
    queue.done(key)
    assert len(queue) == 1
    queue.done(await queue.get())
    assert queue.is_idle


@played(run)
async def test_of_several_timers_for_a_key_the_earliest_wins(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 5)
    queue.done(await queue.get())
    assert monotonic() == 3
    await asyncio.sleep(60)
    assert queue.is_idle


@played(run)
async def test_a_delay_that_is_over_adds_at_once(queue: WorkQueue[str]) -> None:
    queue.add_after("a", -1)
    assert len(queue) == 1


def test_a_moment_less_than_the_loop_can_tell_is_a_delay_like_any_other() -> None:
    """uvloop runs what is due within half a millisecond at once, with a handle that knows no time."""

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 0.0003)
        queue.add_after("a", 0.005)
        assert await queue.get() == "a"

    real(main())


@given(st.floats(0, 1e7))
def test_who_is_woken_a_rounding_too_early_is_not_woken_at_the_same_moment_for_ever(at: float) -> None:
    """The time of day is coarser than the loop's clock: a due time may be a step of it away when its timer fires."""
    looked = []

    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()

        async def look(key: str) -> None:
            looked.append(now())
            if now() < due and len(looked) < 10:
                queue.add_after(key, due - now())

        await asyncio.sleep(at)
        due = math.nextafter(now(), math.inf)
        working = asyncio.create_task(work_off(queue, "key", look))
        queue.add("a")
        await asyncio.sleep(1)
        working.cancel()
        assert len(looked) < 10

    looked.clear()
    run_virtual(main())


@played(run)
async def test_retries_back_off_until_the_key_succeeds(queue: WorkQueue[str]) -> None:
    waited = []
    for _ in range(20):
        began = monotonic()
        queue.retry("a")
        queue.done(await queue.get())
        waited.append(round(monotonic() - began, 6))
    assert waited[:4] == [0.005, 0.01, 0.02, 0.04]
    assert waited[-1] == 1000
    assert queue.failures("a") == 20
    queue.forget("a")
    began = monotonic()
    queue.retry("a")
    await queue.get()
    assert round(monotonic() - began, 6) == 0.005


@played(run)
async def test_a_worker_that_is_cancelled_while_it_waits_takes_no_key_with_it(queue: WorkQueue[str]) -> None:
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await asyncio.wait_for(queue.get(), 1) == "a"


@played(run)
async def test_a_key_whose_worker_is_cancelled_goes_to_another_that_waits(queue: WorkQueue[str]) -> None:
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"


_STEPS = st.lists(st.tuples(st.floats(0, 2), st.sampled_from("abc"), st.floats(-1, 3)), max_size=40)


@given(_STEPS)
def test_every_addition_is_worked_on_and_no_key_by_two_workers(steps: list[tuple[float, str, float]]) -> None:
    """Whatever the order of additions: after the last one of a key, that key is worked on again."""

    async def test(queue: WorkQueue[str]) -> None:
        working: set[str] = set()
        began: dict[str, float] = {}

        async def worker() -> None:
            while True:
                key = await queue.get()
                assert key not in working
                working.add(key)
                began[key] = monotonic()
                await asyncio.sleep(0.5)
                working.discard(key)
                queue.done(key)

        workers = [asyncio.create_task(worker()) for _ in range(3)]
        due: dict[str, float] = {}
        for pause, key, delay in steps:
            await asyncio.sleep(pause)
            queue.add_after(key, delay)
            due[key] = monotonic()
        await asyncio.sleep(100)
        assert queue.is_idle
        assert all(began[key] >= last for key, last in due.items())
        for task in workers:
            assert not task.done()
            task.cancel()

    run(test)
