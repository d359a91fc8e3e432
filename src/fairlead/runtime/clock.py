"""Time belongs to the running event loop, so that virtual time needs no second code path.

`now()` is wall-clock time derived from the loop's clock: under a real loop it is the time of day, under a
`VirtualLoop` it is the loop's epoch plus the virtual seconds that have passed. Nothing else in Fairlead
reads a clock.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import lru_cache

import uvloop

_wall_offset = time.time() - time.monotonic()


def monotonic() -> float:
    """Seconds on the loop's clock; only differences mean anything."""
    return asyncio.get_running_loop().time()


def now() -> float:
    """Seconds since the Unix epoch, on the loop's clock."""
    loop = asyncio.get_running_loop()
    if type(loop) is uvloop.Loop:
        return loop.time() + _wall_offset
    return loop.time() + getattr(loop, "epoch", _wall_offset)  # a VirtualLoop says when its second zero was


def timestamp(at: float | None = None) -> str:
    """A `metav1.Time`: RFC 3339 in UTC, whole seconds. Without an argument: now."""
    return _second(int(now() if at is None else at))


@lru_cache(maxsize=16)
def _second(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def micro_timestamp(at: float | None = None) -> str:
    """A `metav1.MicroTime`: RFC 3339 in UTC with six decimals."""
    moment = datetime.fromtimestamp(now() if at is None else at, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 text; ValueError if it is none."""
    return datetime.fromisoformat(text).timestamp()
