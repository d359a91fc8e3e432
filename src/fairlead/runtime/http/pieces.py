"""Long answers are sent in pieces, as fast as the client reads.

A client that does not read costs the write buffer of its connection: a piece or two. The rest are references to bytes
that all clients share. A client that reads nothing for too long is disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final

from fairlead.runtime.flag import Flag
from fairlead.runtime.http.protocol import TRANSPORT, WRITABLE

#: How much is written to a connection at once; more only of what cannot be divided.
PIECE_BYTES: Final = 256 << 10
#: A part without bytes: making the next ones takes time.
PAUSE: Final = b""
#: How long a client may read nothing while data waits for it.
STALL_SECONDS = 60.0


def pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, a piece at a time; at each `PAUSE` what has been gathered, which may be nothing."""
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
    """The flow control of one connection."""

    __slots__ = ("_transport", "_writable")

    def __init__(self, scope: Any) -> None:
        self._transport: asyncio.Transport = scope[TRANSPORT]
        self._writable: Flag = scope[WRITABLE]

    @property
    def takes_more(self) -> bool:
        return self._writable.is_set()

    async def ready(self) -> bool:
        """Yield to other tasks, then wait until the connection is writable; False if it is closing."""
        await asyncio.sleep(0)
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(STALL_SECONDS):
                    await self._writable.wait()
            except TimeoutError:
                self._transport.abort()
        return not self._transport.is_closing()
