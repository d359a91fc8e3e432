"""What a keeper tells in a pipe."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from fairlead.agent.runtimes.oci import keeper
from fairlead.agent.runtimes.oci.keeper import read_report
from tests.agent.machine import in_loop

OPENED, REPORTS = 4, 3000


@in_loop
async def test_reading_reports_closes_nobody_elses_files() -> None:
    """Threads open and close files meanwhile: a number that is closed twice may be theirs by then."""
    robbed: list[OSError] = []
    is_over = threading.Event()

    def open_and_close() -> None:
        while not is_over.is_set():
            try:
                for descriptor in [os.open(os.devnull, os.O_RDONLY) for _ in range(OPENED)]:
                    os.close(descriptor)
            except OSError as error:
                robbed.append(error)

    others = [threading.Thread(target=open_and_close) for _ in range(4)]
    for thread in others:
        thread.start()
    try:
        for number in range(REPORTS):
            reading, writing = os.pipe()
            os.write(writing, b"%d" % number)
            assert await read_report(reading) == b"%d" % number
            os.close(reading)
            os.close(writing)
            await asyncio.sleep(0)
    finally:
        is_over.set()
        for thread in others:
            thread.join()
    assert [error for error in robbed if error.errno == errno.EBADF] == []


@in_loop
async def test_a_keeper_that_says_nothing_has_reported_nothing() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    assert await read_report(reading) == b""
    os.close(reading)


@pytest.mark.parametrize("turns", range(4))
@in_loop
async def test_who_is_cancelled_as_the_report_comes_hears_that_he_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    begun, said = asyncio.Event(), asyncio.Event()

    async def report(descriptor: int) -> bytes:
        begun.set()
        await said.wait()
        return b"said"

    monkeypatch.setattr(keeper, "read_report", report)
    waiting = asyncio.create_task(keeper.reported(["true"], tmp_path / "problems"))
    await begun.wait()
    await asyncio.sleep(0)
    said.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    is_in_time = waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled() is is_in_time
