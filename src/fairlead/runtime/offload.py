"""Long computations run in a thread, so that the event loop goes on serving others.

Decoding a body of 3 MB takes a second. In a thread it shares the GIL with the loop, which gets its turn every few
milliseconds. The function must use only data that the loop does not change. In virtual time it is called directly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from fairlead.runtime.clock import running_loop
from fairlead.runtime.loops import VirtualLoop

T = TypeVar("T")

#: With two threads the loop keeps a third of the time, and one long task does not hold up all others.
_THREADS: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="offload")


async def offload(function: Callable[[], T], *, is_long: bool) -> T:
    """The function's result; it is called in a thread if it may take long."""
    if not is_long:
        return function()
    loop = running_loop()
    if isinstance(loop, VirtualLoop):
        return function()
    return await loop.run_in_executor(_THREADS, _with_time_of, loop, function)


def _with_time_of(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> T:
    """`clock` asks the running loop for the time, so the thread gets the loop that asked."""
    asyncio._set_running_loop(loop)
    try:
        return function()
    finally:
        asyncio._set_running_loop(None)
