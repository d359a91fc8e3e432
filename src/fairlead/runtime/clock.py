"""Time belongs to the running event loop, so that virtual time needs no second code path.

`now()` is the time of day, for timestamps in objects. On a real loop it is the system clock, which may be set and jumps
when a laptop wakes up. `monotonic()` is the loop's own time, for durations. Under a `VirtualLoop` both are the virtual
seconds that have passed, and its epoch says when they began. Nothing else in Fairlead reads a clock.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from functools import lru_cache

import uvloop


def monotonic() -> float:
    """Seconds on the loop's clock; only differences mean anything."""
    return asyncio.get_running_loop().time()


def now() -> float:
    """Seconds since the Unix epoch. Not monotonic: the next reading may be smaller."""
    loop = asyncio.get_running_loop()
    if type(loop) is uvloop.Loop:
        return time.time()
    epoch: float | None = getattr(loop, "epoch", None)  # a VirtualLoop says when its second zero was
    return time.time() if epoch is None else loop.time() + epoch


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
