"""Who holds the event loop is told by name, and nobody else is."""

from __future__ import annotations

import asyncio
import os
import re
import time

import pytest

from fairlead.runtime.exposition import exposition
from fairlead.runtime.loops import run, run_virtual
from fairlead.runtime.process_metrics import process_families
from fairlead.runtime.watchdog import HOLDS, LONGEST_SECONDS, working_on


def hold(seconds: float) -> None:
    """Think, really."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(1000))


async def _turn(component: str, seconds: float) -> None:
    working_on(component, "default/web")
    hold(seconds)


def test_a_turn_that_holds_the_loop_is_logged_and_counted_by_name(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        while HOLDS.count.get("slow-controller", 0) < 2:  # on a busy machine a look may come too late for one of them
            await asyncio.create_task(_turn("slow-controller", 0.6))
            await asyncio.sleep(0.2)

    run(main())
    [message] = [
        record.getMessage() for record in caplog.records if "slow-controller" in record.getMessage()
    ]  # once a minute
    assert message.startswith("slow-controller default/web held the event loop for ")
    text = asyncio.run(exposition(process_families())).decode()
    assert 'fairlead_event_loop_holds_total{component="slow-controller"} 2\n' in text
    [held] = re.findall(r'fairlead_event_loop_held_seconds_total{component="slow-controller"} (\S+)', text)
    assert float(held) > 2 * LONGEST_SECONDS


def test_an_endless_turn_is_told_of_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def never_ends() -> None:
            working_on("endless-controller", "default/web")
            while not any("has been holding" in record.getMessage() for record in caplog.records):
                hold(0.01)

        await asyncio.wait_for(asyncio.create_task(never_ends()), 20)

    run(main())
    assert "endless-controller default/web has been holding the event loop" in caplog.text


def test_a_turn_that_holds_the_loop_behind_others_is_counted_alone() -> None:
    """What ran before it since the last beat makes it no shorter."""

    async def main() -> None:
        while not HOLDS.count.get("hidden-controller"):
            await asyncio.gather(_turn("brief-controller", 0.12), _turn("hidden-controller", 0.8))
            await asyncio.sleep(0.2)

    run(main())
    assert HOLDS.seconds["hidden-controller"] > LONGEST_SECONDS
    assert "brief-controller" not in HOLDS.count


def test_many_short_turns_in_a_row_are_nobodys_fault(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        await asyncio.gather(*(_turn("quick-controller", 0.02) for _ in range(30)))
        await asyncio.sleep(0.2)

    run(main())
    assert "quick-controller" not in caplog.text


def test_virtual_time_is_not_watched(caplog: pytest.LogCaptureFixture) -> None:
    run_virtual(_turn("virtual-controller", 0.5))
    assert "virtual-controller" not in HOLDS.count


def test_a_process_that_stood_still_was_held_by_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """As beside others on a busy machine: nothing runs, and no processor time is spent."""

    async def main() -> None:
        for _ in range(6):
            stop_and_go = f"kill -STOP {os.getpid()}; sleep 0.4; kill -CONT {os.getpid()}"
            process = await asyncio.create_subprocess_exec("/bin/sh", "-c", stop_and_go)
            await process.wait()

    run(main())
    assert "held the event loop" not in caplog.text
