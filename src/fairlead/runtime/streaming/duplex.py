"""Bytes both ways, whatever carries them: a connection, a stream of SPDY, a WebSocket with SPDY inside.

Whoever is slower than the other end makes it wait: nothing here keeps more than `MOST_BYTES` for one reader.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol

#: What waits for one reader before whoever sends has to wait.
MOST_BYTES: Final = 64 << 10
#: How long the other end may take to go once everything is said.
LINGER_SECONDS: Final = 5.0
#: How often it is asked whether it is still there.
PING_SECONDS: Final = 5.0
_READ_BYTES: Final = 64 << 10


class Source(Protocol):
    """Where bytes come from."""

    async def read(self) -> bytes:
        """Some of them; b"" at the end."""
        ...


class Sink(Protocol):
    """Where bytes go."""

    async def write(self, data: bytes) -> None:
        """Send them, as fast as they are taken. ConnectionError: nobody takes them any more."""
        ...


class EndingSink(Sink, Protocol):
    """Where bytes go, and an end after them."""

    async def end(self) -> None:
        """Nothing more will be written."""


class Duplex(Source, Sink, Protocol):
    """Both directions of a connection."""

    async def close(self) -> None:
        """End it at once; what has been written may leave."""


class Connection:
    """A `Duplex` over the streams of asyncio."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_READ_BYTES)
        except OSError:  # TLS has errors of its own
            return b""

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise ConnectionError(str(error)) from error

    async def end(self) -> None:
        """Nothing more will be written; what comes in is still read."""
        with contextlib.suppress(OSError):
            if self._writer.can_write_eof():
                self._writer.write_eof()

    async def close(self) -> None:
        """What has been written may leave, if the other end takes it soon."""
        self._writer.close()
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await self._writer.wait_closed()
        except OSError:  # TimeoutError among them
            self._writer.transport.abort()


class Inbox:
    """Bytes that wait for a reader: bounded, in order, with an end."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_ended = False
        self._arrival, self._room = asyncio.Event(), asyncio.Event()
        self._room.set()

    async def put(self, data: bytes) -> None:
        """Keep them once there is room; nobody misses what comes after the end."""
        await self._room.wait()
        if data and not self._is_ended:
            self._pieces.append(data)
            self._size += len(data)
            self._arrival.set()
            if self._size >= MOST_BYTES:
                self._room.clear()

    def end(self) -> None:
        """Nothing more will come."""
        self._is_ended = True
        self._arrival.set()
        self._room.set()

    def discard(self) -> None:
        """Nobody will read: forget what is there, and what still comes."""
        self._pieces.clear()
        self._size = 0
        self.end()

    async def read(self) -> bytes:
        """What is there, once there is something; b"" at the end."""
        await self._arrival.wait()
        if not self._pieces:
            return b""
        data = self._pieces.popleft()
        self._size -= len(data)
        if not (self._pieces or self._is_ended):
            self._arrival.clear()
        if self._size < MOST_BYTES:
            self._room.set()
        return data


async def read_while_there(reading: Coroutine[Any, Any, None], ping: Callable[[], Awaitable[None]]) -> None:
    """Read until the other end goes, or says what it may not. Where nothing is read, because somebody is slow, only a
    ping that nobody takes shows that it has gone.
    """
    tasks = [asyncio.create_task(reading), asyncio.create_task(_ping(ping))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(error, Exception) and not isinstance(error, ConnectionError):
                raise error


async def _ping(ping: Callable[[], Awaitable[None]]) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            await asyncio.sleep(PING_SECONDS)
            await ping()


async def linger(reading: asyncio.Task[None]) -> None:
    """Wait a while until the other end, which has been told all, goes: closing before it has read may cut that off."""
    await asyncio.wait([reading], timeout=LINGER_SECONDS)


async def copy(source: Source, sink: Sink) -> None:
    """Everything, until one of the two ends."""
    with contextlib.suppress(ConnectionError):
        while data := await source.read():
            await sink.write(data)
