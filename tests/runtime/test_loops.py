"""Virtual time: what sleeps wakes in order and at once, and what waits for nothing is told so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.runtime import clock
from fairlead.runtime.loops import DEFAULT_EPOCH, Stalled, VirtualLoop, run, run_virtual


def test_a_year_of_sleep_takes_no_time() -> None:
    """X-13."""

    async def main() -> float:
        await asyncio.sleep(365 * 86_400)
        return clock.monotonic()

    began = perf_counter()
    assert run_virtual(main()) == pytest.approx(365 * 86_400)
    assert perf_counter() - began < 5


@given(st.lists(st.integers(0, 10**12).map(lambda micros: micros / 1e6), max_size=30))
def test_sleepers_wake_in_the_order_of_their_times_each_at_its_time(delays: list[float]) -> None:
    woken: list[tuple[float, float]] = []

    async def sleeper(delay: float) -> None:
        await asyncio.sleep(delay)
        woken.append((delay, clock.monotonic()))

    async def main() -> None:
        await asyncio.gather(*(sleeper(delay) for delay in delays))

    run_virtual(main())
    assert [delay for delay, _ in woken] == sorted(delays)
    assert all(at == pytest.approx(delay, abs=1e-6) for delay, at in woken)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_of_sleepers_until_one_moment_the_first_is_first_whoever_else_sleeps(sleeps: list[tuple[int, bool]]) -> None:
    def woken(chosen: list[tuple[int, int]]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []

        async def sleeper(delay: int, number: int) -> None:
            await asyncio.sleep(1 + delay)
            found.append((delay, number))

        async def main() -> None:
            await asyncio.gather(*(sleeper(*one) for one in chosen))

        run_virtual(main())
        return found

    everybody = [(delay, number) for number, (delay, _) in enumerate(sleeps)]
    some = [one for one, (_, is_there) in zip(everybody, sleeps, strict=True) if is_there]
    assert woken(everybody) == sorted(everybody)
    assert woken(some) == sorted(some)


def test_waiting_for_what_nobody_will_bring_is_an_error_not_a_hang() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stalled):
        run_virtual(main())


def test_a_stalled_world_still_cleans_up() -> None:
    cleaned = []

    async def main() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    with pytest.raises(Stalled):
        run_virtual(main())
    assert cleaned


def test_time_stands_still_while_there_is_work() -> None:
    async def main() -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return clock.monotonic()

    assert run_virtual(main()) == 0


def test_what_is_done_at_once_is_done_when_a_loop_has_settled() -> None:
    """And the clock has not moved: a timer that is due a moment later is not."""
    done = []

    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)

        async def chain() -> None:
            for number in range(1000):
                await asyncio.sleep(0)
                done.append(number)

        tasks = [asyncio.create_task(chain()), asyncio.create_task(asyncio.sleep(0.01))]
        await asyncio.gather(loop.settled(), loop.settled())
        assert [task.done() for task in tasks] == [True, False]
        return loop.time()

    assert (run_virtual(main()), len(done)) == (0, 1000)


def test_virtual_time_may_pass_within_real_time() -> None:
    """In the cell of a notebook, where a loop runs already."""

    async def nap() -> float:
        await asyncio.sleep(3600)
        return clock.monotonic()

    async def cell() -> float:
        return run_virtual(nap())

    assert asyncio.run(cell()) == pytest.approx(3600)


def test_the_epoch_is_the_callers() -> None:
    async def main() -> tuple[str, str]:
        await asyncio.sleep(90.25)
        return clock.timestamp(), clock.micro_timestamp()

    assert run_virtual(main(), epoch=0) == ("1970-01-01T00:01:30Z", "1970-01-01T00:01:30.250000Z")
    assert run_virtual(main())[0] == "2026-01-01T00:01:30Z"


def test_real_time_is_the_time_of_day() -> None:
    async def main() -> float:
        return clock.now()

    assert run(main()) == pytest.approx(datetime.now(UTC).timestamp(), abs=5)


@pytest.mark.parametrize("runner", [run, asyncio.run])
def test_the_time_of_day_may_be_set_and_durations_do_not_notice(
    runner: Callable[[Coroutine[Any, Any, float]], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop wakes up, or somebody corrects its clock."""

    async def main() -> float:
        began = clock.monotonic()
        monkeypatch.setattr(time, "time", lambda: 90.0)
        assert (clock.now(), clock.timestamp()) == (90.0, "1970-01-01T00:01:30Z")
        return clock.monotonic() - began

    assert 0 <= runner(main()) < 60


@given(st.integers(0, 4_000_000_000))
def test_a_timestamp_is_read_back_as_it_was_written(at: int) -> None:
    async def main() -> str:
        return clock.timestamp(at)

    assert clock.parse_timestamp(run_virtual(main(), DEFAULT_EPOCH)) == at


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.000000Z"])
def test_all_spellings_of_a_moment_are_that_moment(text: str) -> None:
    assert clock.parse_timestamp(text) == DEFAULT_EPOCH


def test_what_is_no_timestamp_is_refused() -> None:
    with pytest.raises(ValueError, match="yesterday"):
        clock.parse_timestamp("yesterday")
