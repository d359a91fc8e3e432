"""What is long leaves in pieces, at the pace of who reads it.

A client that does not read costs what lies in the buffers of its connection: a piece or two. What has not left yet are
references to bytes that all clients share. One that takes nothing for long is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fairlead.server.http.protocol import TRANSPORT, WRITABLE

#: How much is handed to a connection at once; beyond that only what cannot be divided.
PIECE_BYTES: Final = 256 << 10
#: A part that says no more than that making the next ones takes time.
PAUSE: Final = b""
#: How long a connection may take nothing of what waits for it.
STALL_SECONDS = 60.0


def pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, a piece at a time; what there is so far, be it nothing, at each `PAUSE`."""
    gathered: list[bytes] = []
    size = 0
    for part in parts:
        gathered.append(part)
        size += len(part)
        if size >= PIECE_BYTES or part is PAUSE:
            yield b"".join(gathered)
            gathered.clear()
            size = 0
    if gathered:
        yield b"".join(gathered)


class Pace:
    """How fast one connection takes what is written to it."""

    __slots__ = ("_transport", "_writable")

    def __init__(self, scope: Any) -> None:
        self._transport: asyncio.Transport = scope[TRANSPORT]
        self._writable: asyncio.Event = scope[WRITABLE]

    @property
    def takes_more(self) -> bool:
        return self._writable.is_set()

    async def ready(self) -> bool:
        """Give way to others, and return once the connection takes more; False if it never will."""
        await asyncio.sleep(0)
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(STALL_SECONDS):
                    await self._writable.wait()
            except TimeoutError:
                self._transport.abort()
        return not self._transport.is_closing()
