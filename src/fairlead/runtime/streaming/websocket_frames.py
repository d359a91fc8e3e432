"""Frames of WebSocket (RFC 6455) as a server reads and writes them. Messages are passed on in pieces as they come, so
that their length does not matter.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

_FIN: Final = 0x80
_RESERVED: Final = 0x70
_OPCODE: Final = 0x0F
_MASKED: Final = 0x80
_LENGTH: Final = 0x7F
_MOST_CONTROL_BYTES: Final = 125
_MASK_BYTES: Final = 4

NORMAL: Final = 1000
_PROTOCOL_ERROR: Final = 1002


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class WebSocketError(ConnectionError):
    """The other end does not speak WebSocket as it is written."""

    code = _PROTOCOL_ERROR


class Piece(msgspec.Struct, frozen=True):
    """A part of a message."""

    data: bytes
    begins: bool
    ends: bool


class Control(msgspec.Struct, frozen=True):
    """A close, ping or pong, with what it says."""

    opcode: Opcode
    data: bytes


Event: TypeAlias = Piece | Control


def frame(opcode: Opcode, data: bytes) -> bytes:
    """A whole message, as a server writes it."""
    if len(data) <= _MOST_CONTROL_BYTES:
        head = struct.pack(">BB", _FIN | opcode, len(data))
    elif len(data) < 1 << 16:
        head = struct.pack(">BBH", _FIN | opcode, 126, len(data))
    else:
        head = struct.pack(">BBQ", _FIN | opcode, 127, len(data))
    return head + data


def masked(data: bytes, mask: bytes, offset: int = 0) -> bytes:
    """The bytes behind a mask, and the other way round; `offset`: so many have come before them."""
    if not data:
        return data
    turned = mask[offset % _MASK_BYTES :] + mask[: offset % _MASK_BYTES]
    repeated = (turned * (len(data) // _MASK_BYTES + 1))[: len(data)]
    return (int.from_bytes(data) ^ int.from_bytes(repeated)).to_bytes(len(data))


class FrameReader:
    """Takes bytes of a client as they come, and tells what is in them."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        #: Of the frame that is under way: its mask, how much has come and is missing.
        self._mask = b""
        self._read, self._missing = 0, 0
        self._is_final, self._begins = True, False
        self._is_in_message = False

    def feed(self, data: bytes) -> Iterator[Event]:
        self._buffer += data
        while (event := self._data() if self._missing else self._next()) is not None:
            yield event

    def _data(self) -> Piece | None:
        if not self._buffer:
            return None
        data = bytes(self._buffer[: self._missing])
        del self._buffer[: len(data)]
        piece = masked(data, self._mask, self._read)
        self._read += len(data)
        self._missing -= len(data)
        return self._piece(piece)

    def _piece(self, data: bytes) -> Piece:
        begins, self._begins = self._begins, False
        ends = self._is_final and not self._missing
        if ends:
            self._is_in_message = False
        return Piece(data, begins, ends)

    def _next(self) -> Event | None:
        found = _head(self._buffer)
        if found is None:
            return None
        size, length = found
        first = self._buffer[0]
        if first & _RESERVED:
            raise WebSocketError("a frame with reserved bits")
        try:
            opcode = Opcode(first & _OPCODE)
        except ValueError:
            raise WebSocketError("a frame of an unknown kind") from None
        if opcode >= Opcode.CLOSE:
            return self._control(opcode, size, length)
        if (opcode is Opcode.CONTINUATION) != self._is_in_message:
            raise WebSocketError("a message within a message, or the rest of none")
        self._mask = bytes(self._buffer[size - _MASK_BYTES : size])
        del self._buffer[:size]
        self._read, self._missing = 0, length
        self._is_final, self._begins = bool(first & _FIN), opcode is not Opcode.CONTINUATION
        self._is_in_message = True
        return self._data() if length else self._piece(b"")

    def _control(self, opcode: Opcode, size: int, length: int) -> Control | None:
        if length > _MOST_CONTROL_BYTES or not self._buffer[0] & _FIN:
            raise WebSocketError("a control frame that is too long, or not whole")
        if len(self._buffer) < size + length:
            return None
        mask = bytes(self._buffer[size - _MASK_BYTES : size])
        data = masked(bytes(self._buffer[size : size + length]), mask)
        del self._buffer[: size + length]
        return Control(opcode, data)


def _head(buffer: bytearray) -> tuple[int, int] | None:
    """How long the head is that comes next, and what follows it; None: it is not all there."""
    if len(buffer) < 2:
        return None
    if not buffer[1] & _MASKED:
        raise WebSocketError("a client's frame without a mask")
    length, size = buffer[1] & _LENGTH, 2
    extended = {126: 2, 127: 8}.get(length, 0)
    size += extended
    if len(buffer) < size + _MASK_BYTES:
        return None
    if extended:
        length = int.from_bytes(buffer[2:size])
    if length >> 63:
        raise WebSocketError("a frame of a negative length")
    return size + _MASK_BYTES, length
