"""Time belongs to the running event loop, so that virtual time needs no second code path.

`now()` is the time of day, for timestamps in objects. On a real loop it is the system clock, which may be set and jumps
when a laptop wakes up. `monotonic()` is the loop's own time, for durations. Under a `VirtualLoop` both are the virtual
seconds that have passed, and its epoch says when they began. Nothing else in Fairlead reads a clock.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Final, Protocol


class VirtualTime(Protocol):
    """A loop that says when its second zero was, in seconds since the Unix epoch."""

    epoch: float

    def time(self) -> float: ...


class _Here(threading.local):
    """What runs in this thread, as far as it has said so."""

    loop: asyncio.AbstractEventLoop | None = None
    #: The same if it runs in virtual time.
    virtual: VirtualTime | None = None


#: A loop that is held up is behind by less.
_LEAST_STEP_SECONDS: Final = 2.0

#: asyncio asks the kernel for its process whenever somebody asks it for the loop. Time is asked for very often, and a
#: sandbox takes a microsecond each time.
_here: Final = _Here()


@contextmanager
def ticking(loop: asyncio.AbstractEventLoop, virtual: VirtualTime | None = None) -> Iterator[None]:
    """That loop is the one that runs in this thread meanwhile; `virtual`: the same, if it runs in virtual time."""
    before = _here.loop, _here.virtual
    _here.loop, _here.virtual = loop, virtual
    try:
        yield
    finally:
        _here.loop, _here.virtual = before


def running_loop() -> asyncio.AbstractEventLoop:
    """The loop that runs in this thread; RuntimeError if there is none."""
    return _here.loop or asyncio.get_running_loop()


def monotonic() -> float:
    """Seconds on the loop's clock; only differences mean anything."""
    return running_loop().time()


def now() -> float:
    """Seconds since the Unix epoch. Not monotonic: the next reading may be smaller."""
    virtual = _here.virtual
    return time.time() if virtual is None else virtual.time() + virtual.epoch


class ClockSteps:
    """By how much somebody has set the clock since it was asked the last time, or the machine has slept."""

    def __init__(self) -> None:
        self._ahead = now() - monotonic()

    def since_last(self) -> float:
        """In seconds; 0 for what is so little that it may be the clock's own correction."""
        ahead = now() - monotonic()
        by = ahead - self._ahead
        if abs(by) < _LEAST_STEP_SECONDS:
            return 0.0
        self._ahead = ahead
        return by


def timestamp(at: float | None = None) -> str:
    """A `metav1.Time`: RFC 3339 in UTC, whole seconds. Without an argument: now."""
    return _second(int(now() if at is None else at))


@lru_cache(maxsize=16)
def _second(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def micro_timestamp(at: float | None = None) -> str:
    """A `metav1.MicroTime`: RFC 3339 in UTC with six decimals."""
    seconds, micros = divmod(round((now() if at is None else at) * 1e6), 1_000_000)
    return f"{_second(seconds)[:-1]}.{micros:06d}Z"


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 text; ValueError if it is none."""
    return datetime.fromisoformat(text).timestamp()


#: For how long work has really taken, however time passes for the loop. It is shown, and decides nothing.
stopwatch = time.perf_counter
