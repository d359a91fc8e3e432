"""A WebSocket that a client has opened: messages in pieces, answers to pings, a polite end."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator

from fairlead.runtime.streaming.duplex import Duplex
from fairlead.runtime.streaming.websocket_frames import (
    NORMAL,
    Control,
    FrameReader,
    Opcode,
    Piece,
    WebSocketError,
    frame,
)


class WebSocket:
    """The server's end."""

    def __init__(self, duplex: Duplex) -> None:
        self._duplex, self._reader = duplex, FrameReader()
        self._is_closed = False

    async def pieces(self) -> AsyncIterator[Piece]:
        """The client's messages, until it closes or goes. WebSocketError: it does not speak WebSocket."""
        while data := await self._duplex.read():
            try:
                for event in self._reader.feed(data):
                    if isinstance(event, Piece):
                        yield event
                    elif await self._is_last(event):
                        return
            except WebSocketError as error:
                await self.say_goodbye(error.code)
                raise

    async def _is_last(self, control: Control) -> bool:
        if control.opcode is Opcode.PING:
            await self._duplex.write(frame(Opcode.PONG, control.data))
        elif control.opcode is Opcode.CLOSE:
            await self.say_goodbye(NORMAL)
            return True
        return False

    async def ping(self) -> None:
        """See whether the client is still there. ConnectionError: it is not."""
        await self._duplex.write(frame(Opcode.PING, b""))

    async def send(self, data: bytes) -> None:
        """Send a message."""
        await self._send(Opcode.BINARY, data)

    async def send_text(self, text: bytes) -> None:
        """Send a message of UTF-8."""
        await self._send(Opcode.TEXT, text)

    async def _send(self, kind: Opcode, data: bytes) -> None:
        if self._is_closed:
            raise BrokenPipeError("the WebSocket is closed")
        await self._duplex.write(frame(kind, data))

    async def say_goodbye(self, code: int = NORMAL) -> None:
        """Nothing more will be sent; what the client still sends is to be read until it goes."""
        if not self._is_closed:
            self._is_closed = True
            await self._duplex.write(frame(Opcode.CLOSE, struct.pack(">H", code)))

    async def close(self) -> None:
        await self._duplex.close()


class Tunnel:
    """A `Duplex` in the messages of a WebSocket, wherever they begin and end."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket, self._pieces = socket, socket.pieces()

    async def read(self) -> bytes:
        async for piece in self._pieces:
            if piece.data:
                return piece.data
        return b""

    async def write(self, data: bytes) -> None:
        await self._socket.send(data)

    async def close(self) -> None:
        await self._socket.say_goodbye()
        await self._socket.close()
