"""Work that takes long is done beside the event loop, which everybody shares.

To understand a body of 3 MB takes a second. So that others need not wait as long, such work is done in one of two
threads: Python lets the loop have its turn every few milliseconds. It must be a function of what its caller alone has:
what the loop changes is not looked at from a thread. In virtual time everything is done where it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from fairlead.runtime.loops import VirtualLoop

T = TypeVar("T")

#: More would take turns from the loop: with two it has a third of the time, and one long task does not stop all others.
_THREADS: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="apart")


async def apart(function: Callable[[], T], *, is_long: bool) -> T:
    """The answer of the function, which is called in a thread if it may take long."""
    if not is_long:
        return function()
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        return function()
    return await loop.run_in_executor(_THREADS, _with_time_of, loop, function)


def _with_time_of(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> T:
    """Time belongs to the running loop (`clock`): to this thread it is the one that asked."""
    asyncio._set_running_loop(loop)
    try:
        return function()
    finally:
        asyncio._set_running_loop(None)
