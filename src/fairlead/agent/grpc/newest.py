"""Who tells something anew again and again is listened to, but only what he said last is looked at, now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from fairlead.agent.grpc.client import following
from fairlead.runtime.clock import monotonic

#: How much is read between two looks; then whoever tells it has to wait. Each message counts as so much at least.
_MOST_BYTES: Final = 1 << 20
_LEAST_BYTES: Final = 1 << 10


async def newest(told: AsyncIterator[bytes], pause_seconds: float) -> AsyncGenerator[bytes, None]:
    """What is told, one thing in so many seconds at most: of what comes meanwhile the last."""
    coming = asyncio.ensure_future(following(told))
    found: bytes | None = None
    due, left = monotonic(), _MOST_BYTES
    try:
        while True:
            remaining = max(due - monotonic(), 0.0)
            if left > 0:
                await asyncio.wait([coming], timeout=None if found is None else remaining)
            else:
                await asyncio.sleep(remaining)
            if left > 0 and coming.done():
                if (found := coming.result()) is None:
                    return
                left -= max(len(found), _LEAST_BYTES)
                coming = asyncio.ensure_future(following(told))
            if found is not None and monotonic() >= due:
                yield found
                found, due, left = None, monotonic() + pause_seconds, _MOST_BYTES
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
