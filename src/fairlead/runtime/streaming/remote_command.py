"""The client of a command in a container: its input, both outputs, its terminal's size, and how it is told the end.

The same object whatever the client speaks: one of the protocols of `command_protocols.py`, over WebSocket (a channel is
the first byte of each message) or over SPDY (a channel is a stream).
Source: apimachinery `pkg/util/remotecommand`, client-go `tools/remotecommand`, kubelet `cri-streaming` (1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import msgspec

from fairlead.api.objects import Obj
from fairlead.runtime.streaming.base64_channels import Base64Pieces, text_of
from fairlead.runtime.streaming.command_protocols import CommandProtocol
from fairlead.runtime.streaming.duplex import Connection, Inbox, Sink, linger, read_while_there
from fairlead.runtime.streaming.handshake import Agreement
from fairlead.runtime.streaming.spdy import SpdyConnection, SpdyStream
from fairlead.runtime.streaming.websocket import WebSocket
from fairlead.runtime.streaming.websocket_frames import Piece

#: How long a client may take to open its streams.
OPENING_SECONDS: Final = 30.0

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_MOST_SIZE_BYTES: Final = 1024


class Wanted(msgspec.Struct, frozen=True):
    """Which streams a client asks for."""

    stdin: bool
    stdout: bool
    stderr: bool
    is_terminal: bool


class Size(NamedTuple):
    """Of a terminal, in characters."""

    width: int
    height: int


class _TerminalSize(msgspec.Struct):
    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


class Sizes:
    """The sizes that a terminal gets. Of those that nobody has looked at, the last one counts."""

    def __init__(self) -> None:
        self._last: Size | None = None
        self._changed = asyncio.Event()

    def put(self, text: bytes) -> None:
        """What the client says; nonsense is ignored."""
        with contextlib.suppress(msgspec.DecodeError):
            size = msgspec.json.decode(text, type=_TerminalSize)
            if 0 < size.width < 1 << 16 and 0 < size.height < 1 << 16:
                self._last = Size(size.width, size.height)
                self._changed.set()

    async def next(self) -> Size:
        """The size, once it has changed."""
        while self._last is None:
            self._changed.clear()
            await self._changed.wait()
        size, self._last = self._last, None
        return size


class CommandClient(ABC):
    """Who has asked for a command. Streams that are not wanted are None."""

    stdin: Inbox | None
    stdout: Sink | None
    stderr: Sink | None

    def __init__(self, protocol: CommandProtocol, wanted: Wanted) -> None:
        self.protocol = protocol
        self.stdin = Inbox() if wanted.stdin else None
        self.stdout = self.stderr = None
        self.sizes = Sizes()
        #: Set when the client has gone.
        self.gone = asyncio.Event()

    @abstractmethod
    async def begin(self) -> None:
        """Wait for what the client has to open. TimeoutError: it does not."""

    async def run(self) -> None:
        """Read what the client sends, until it goes."""
        try:
            with contextlib.suppress(ConnectionError):
                await self.read()
        finally:
            self.gone.set()
            if self.stdin is not None:
                self.stdin.end()

    async def finish(self, status: Obj) -> None:
        """Tell the end: a Status. Input that nobody has read is forgotten."""
        if self.stdin is not None:
            self.stdin.discard()
        with contextlib.suppress(ConnectionError):
            await self.tell(self.protocol.end(status))

    @abstractmethod
    async def read(self) -> None:
        """Read until the client goes."""

    @abstractmethod
    async def tell(self, end: bytes) -> None:
        """Send what is said of the end, if anything is, and that nothing follows."""


@asynccontextmanager
async def commanding(agreement: Agreement, wanted: Wanted) -> AsyncIterator[CommandClient]:
    """The client, while the block runs; `finish` belongs at its end. TimeoutError: it does not open its streams."""
    connection, protocol = await agreement.accept(), CommandProtocol(agreement.protocol)
    kind = WebSocketClient if agreement.is_websocket else SpdyClient
    client: CommandClient = kind(connection, protocol, wanted)
    reading = asyncio.create_task(client.run())
    try:
        await client.begin()
        yield client
        await linger(reading)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await connection.close()


# --- over WebSocket -------------------------------------------------------------------------------------------------


class _Channel:
    def __init__(self, socket: WebSocket, channel: int, *, is_base64: bool) -> None:
        self._socket, self._channel, self._is_base64 = socket, channel, is_base64

    async def write(self, data: bytes) -> None:
        if self._is_base64:
            await self._socket.send_text(text_of(self._channel, data))
        else:
            await self._socket.send(bytes([self._channel]) + data)


class WebSocketClient(CommandClient):
    def __init__(self, connection: Connection, protocol: CommandProtocol, wanted: Wanted) -> None:
        super().__init__(protocol, wanted)
        self._socket = WebSocket(connection)
        self.stdout = self._sink(_STDOUT) if wanted.stdout else None
        self.stderr = self._sink(_STDERR) if wanted.stderr else None
        self._base64 = Base64Pieces() if protocol.is_base64 else None
        self._channel, self._short = -1, b""

    def _sink(self, channel: int) -> _Channel:
        return _Channel(self._socket, channel, is_base64=self.protocol.is_base64)

    async def begin(self) -> None:
        """The first channel that there is says that the command has a connection, by saying nothing."""
        await (self.stdout or self.stderr or self._sink(_ERROR)).write(b"")

    async def read(self) -> None:
        await read_while_there(self._read(), self._socket.ping)

    async def _read(self) -> None:
        async for piece in self._socket.pieces():
            await self._receive(piece if self._base64 is None else self._base64.decoded(piece))

    async def _receive(self, piece: Piece) -> None:
        data = piece.data
        if piece.begins:
            self._channel, self._short = -1, b""
        if self._channel < 0 and data:
            self._channel, data = data[0], data[1:]
        if self._channel == _STDIN and self.stdin is not None:
            await self.stdin.put(data)
        elif self._channel in (_RESIZE, _CLOSE):
            self._short = (self._short + data)[:_MOST_SIZE_BYTES]
            if piece.ends:
                self._take_order(self._channel, self._short)

    def _take_order(self, channel: int, text: bytes) -> None:
        if channel == _RESIZE:
            self.sizes.put(text)
        elif self.protocol.has_close and text == bytes([_STDIN]) and self.stdin is not None:
            self.stdin.end()

    async def tell(self, end: bytes) -> None:
        if end:
            await self._sink(_ERROR).write(end)
        await self._socket.say_goodbye()


# --- over SPDY ------------------------------------------------------------------------------------------------------


class SpdyClient(CommandClient):
    def __init__(self, connection: Connection, protocol: CommandProtocol, wanted: Wanted) -> None:
        super().__init__(protocol, wanted)
        self._spdy, self._wanted = SpdyConnection(connection), wanted
        self._streams: dict[str, SpdyStream] = {}
        self._resizing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        missing = set(_expected(self._wanted, has_sizes=self.protocol.has_sizes))
        async with asyncio.timeout(OPENING_SECONDS):
            while missing:
                stream = await self._spdy.accept()
                if stream is None:
                    raise TimeoutError
                kind = stream.headers.get("streamtype", "")
                if kind not in missing:
                    await stream.reset()
                    continue
                missing.discard(kind)
                self._streams[kind] = stream
        if self._wanted.stdin:
            self.stdin = self._streams["stdin"].inbox
        self.stdout, self.stderr = self._streams.get("stdout"), self._streams.get("stderr")
        if "resize" in self._streams:
            self._resizing = asyncio.create_task(self._follow_sizes(self._streams["resize"]))

    async def read(self) -> None:
        await self._spdy.run()

    async def _follow_sizes(self, stream: SpdyStream) -> None:
        """Until the stream ends, which it does with the connection. Each size is a line."""
        rest = b""
        while data := await stream.read():
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[-_MOST_SIZE_BYTES:]
            if lines:
                self.sizes.put(lines[-1])

    async def tell(self, end: bytes) -> None:
        for stream in (self._streams.get("stdout"), self._streams.get("stderr")):
            if stream is not None:
                await stream.end()
        error = self._streams["error"]
        if end:
            await error.write(end)
        await error.end()
        await self._spdy.go_away()


def _expected(wanted: Wanted, *, has_sizes: bool) -> Iterator[str]:
    yield "error"
    for kind in ("stdin", "stdout", "stderr"):
        if getattr(wanted, kind):
            yield kind
    if wanted.is_terminal and has_sizes:
        yield "resize"
