"""Long computations run in a thread, so that the event loop goes on serving others.

Decoding a body of 3 MB takes a second. In a thread it shares the GIL with the loop, which gets its turn every few
milliseconds. The function must use only data that the loop does not change. In virtual time it is called directly.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar
from typing import Final, TypeVar

from fairlead.runtime.clock import running_loop
from fairlead.runtime.fair_threads import FairThreads
from fairlead.runtime.loops import VirtualLoop

T = TypeVar("T")

#: With two threads the loop keeps a third of the time, and one long task does not hold up all others; nor do many of
#: one user.
_THREADS: Final = FairThreads("offload", users=2, at_once=2)
#: For whom this task works.
_user: Final = ContextVar("user", default="")
#: How long a thread waits for the loop (`on_loop`); only one that has stopped takes so long.
_MOST_SECONDS: Final = 60.0


class _Here(threading.local):
    """For which loop this thread works."""

    loop: asyncio.AbstractEventLoop | None = None


_here: Final = _Here()


def works_for(user: str) -> None:
    """This task is of that user, and takes its turn with others."""
    _user.set(user)


async def offload(function: Callable[[], T], *, is_long: bool, threads: Executor | None = None) -> T:
    """The function's result; it is called in a thread if it may take long. `threads`: not in one that all share."""
    if not is_long:
        return function()
    loop = running_loop()
    if isinstance(loop, VirtualLoop):
        return function()
    return await loop.run_in_executor(threads or _THREADS.of(_user.get()), _with_time_of, loop, function)


def _with_time_of(loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> T:
    """`clock` asks the running loop for the time, so the thread gets the loop that asked."""
    asyncio._set_running_loop(loop)
    _here.loop = loop
    try:
        return function()
    finally:
        _here.loop = None
        asyncio._set_running_loop(None)


def on_loop(function: Callable[[], T]) -> T:
    """The function's result; from a thread of `offload` the loop is asked to call it, since it reads what changes."""
    if (loop := _here.loop) is None:
        return function()
    found: Future[T] = Future()
    loop.call_soon_threadsafe(_settle, found, function)
    try:
        return found.result(_MOST_SECONDS)
    finally:
        del found  # an error refers to this frame, and would be kept by it


def _settle(future: Future[T], function: Callable[[], T]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future  # as above
