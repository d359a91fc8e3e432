"""A connection that leaves HTTP: what asked for another protocol gets the bytes in both directions, and nobody between.

The parser never sees what follows the request: it is kept until the request is answered, in this protocol or the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

#: The key of the scope under which an application finds the `Upgrade` that the client wishes, if it does.
UPGRADE: Final = "fairlead.upgrade"
#: The client is not read while so much waits to be taken (asyncio stops reading at twice the limit).
_LIMIT_BYTES: Final = 64 << 10

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Upgrade(msgspec.Struct, frozen=True):
    """What a client wishes to speak instead. Whoever takes the connection answers the request."""

    wished: str
    take: Callable[[], Streams]

    def speaks(self, protocol: str) -> bool:
        """Whether this is the protocol that is wished."""
        return self.wished.strip().lower() == protocol.lower()


def streams_over(transport: asyncio.Transport, early: bytes, lost: Callable[[Exception | None], None]) -> Streams:
    """Both directions of a connection that was something else before. `early` has arrived already."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(_LIMIT_BYTES, loop)
    protocol = _Taken(reader, lost, loop)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    if early:
        reader.feed_data(early)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class _Taken(asyncio.StreamReaderProtocol):
    def __init__(
        self,
        reader: asyncio.StreamReader,
        lost: Callable[[Exception | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(reader, loop=loop)
        self._lost = lost

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost(exc)
