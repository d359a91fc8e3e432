"""Bodies of requests whose sender nobody knows: each is bounded, and so are all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.runtime.http.exchange import Receive, Scope
from fairlead.runtime.http.protocol import TRANSPORT
from fairlead.runtime.http.replies import Failed


class _Arrival:
    """A body that is on its way, or there."""

    __slots__ = ("is_complete", "parts", "size", "transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.parts: list[bytes] = []
        self.size = 0
        self.is_complete = False


class Bodies:
    """Holds no more than `together` bytes, and of one request no more than `each`.

    Where more comes, the connection is ended whose body has been on its way for longest: an honest client's takes
    milliseconds.
    """

    def __init__(self, each: int, together: int) -> None:
        self._each, self._together = each, together
        self._held = 0
        self._arrivals: dict[_Arrival, None] = {}  # oldest first

    @asynccontextmanager
    async def whole(self, scope: Scope, receive: Receive) -> AsyncIterator[bytes]:
        """The body, which counts until the end of the block. Raises Failed for one that is too large or cut off."""
        arrival = _Arrival(scope[TRANSPORT])
        self._arrivals[arrival] = None
        try:
            await self._take(arrival, receive)
            arrival.is_complete = True
            body = b"".join(arrival.parts)
            arrival.parts.clear()
            yield body
        finally:
            self._forget(arrival)

    async def _take(self, arrival: _Arrival, receive: Receive) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect" or arrival not in self._arrivals:
                raise Failed(400, "the body is not complete")  # nobody is there to be told
            part, more = message["body"], message["more_body"]
            if arrival.size + len(part) > self._each:
                raise Failed(413, f"Request entity too large: limit is {self._each}")
            self._make_room(len(part), arrival)
            arrival.parts.append(part)
            arrival.size += len(part)
            self._held += len(part)

    def _make_room(self, size: int, wanted_by: _Arrival) -> None:
        while self._held + size > self._together:
            oldest = next(it for it in self._arrivals if not it.is_complete)
            if oldest is wanted_by:
                raise Failed(503, "too many requests are under way")
            oldest.transport.abort()
            oldest.parts.clear()
            self._forget(oldest)

    def _forget(self, arrival: _Arrival) -> None:
        if arrival in self._arrivals:
            del self._arrivals[arrival]
            self._held -= arrival.size
