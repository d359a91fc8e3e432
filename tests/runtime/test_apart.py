"""Long work is done beside the event loop, and in virtual time where it is asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from fairlead.runtime import clock
from fairlead.runtime.loops import run, run_virtual
from fairlead.runtime.offload import offload, works_for


def test_the_loop_goes_on_while_something_takes_long() -> None:
    async def main() -> bool:
        going_on = threading.Event()
        asyncio.get_running_loop().call_later(0.01, going_on.set)
        return await offload(lambda: going_on.wait(60), is_long=True)

    assert run(main())


def test_what_takes_long_knows_the_time_and_tells_what_went_wrong() -> None:
    async def main() -> None:
        began = clock.monotonic()
        assert await offload(clock.monotonic, is_long=True) >= began
        with pytest.raises(ZeroDivisionError):
            await offload(lambda: 1 // 0, is_long=True)

    run(main())


def test_what_is_short_and_all_in_virtual_time_is_done_at_once() -> None:
    async def main(*, is_long: bool) -> int:
        return await offload(threading.get_ident, is_long=is_long)

    here = threading.get_ident()
    assert run(main(is_long=False)) == here
    assert run(main(is_long=True)) != here
    assert run_virtual(main(is_long=True)) == here


def test_whoever_has_much_to_do_waits_for_himself() -> None:
    """Nobody waits for the second of many pieces of another user."""

    async def work_of(user: str, *pieces: Callable[[], object]) -> None:
        works_for(user)
        await asyncio.gather(*(offload(piece, is_long=True) for piece in pieces))

    async def main() -> None:
        begun, may_end = threading.Event(), threading.Event()

        def long() -> None:
            begun.set()
            may_end.wait(60)

        greedy = asyncio.create_task(work_of("greedy", *[long] * 20))
        assert await asyncio.to_thread(begun.wait, 60)
        async with asyncio.timeout(60):
            await work_of("modest", int)
            await work_of("", int)  # nor does what is nobody's
        assert not greedy.done()
        may_end.set()
        await greedy

    run(main())
