"""Frames of SPDY/3.1: bytes to what they say, and back. No library that is still kept speaks it, and kubectl up to 1.30
does, as does everybody's port forwarding.

A control frame is read when it is whole, and may only be so long; the bytes of a data frame are passed on as they come.
Source: SPDY protocol draft 3.1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from fairlead.runtime.streaming.spdy_headers import HeaderPacker, HeaderUnpacker, SpdyError

MOST_CONTROL_BYTES: Final = 64 << 10
#: How much of a stream one data frame carries; smaller ones let streams take turns.
DATA_BYTES: Final = 32 << 10

_VERSION: Final = 3
_CONTROL: Final = 0x8000_0000
_STREAM_ID: Final = 0x7FFF_FFFF
_HEAD: Final = struct.Struct(">II")
_ONE: Final = struct.Struct(">I")
_TWO: Final = struct.Struct(">II")
_OPENING: Final = struct.Struct(">IIH")  # stream, associated stream, priority and slot

_FIN: Final = 1
_UNIDIRECTIONAL: Final = 2

#: Why a stream is reset (2.6.3).
PROTOCOL_ERROR: Final = 1
INVALID_STREAM: Final = 2
REFUSED_STREAM: Final = 3
CANCEL: Final = 5


class _Type(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class SynStream(msgspec.Struct, frozen=True):
    stream_id: int
    headers: Mapping[str, str]
    is_last: bool = False
    is_unidirectional: bool = False


class SynReply(msgspec.Struct, frozen=True):
    stream_id: int
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    is_last: bool = False


class Headers(msgspec.Struct, frozen=True):
    stream_id: int
    headers: Mapping[str, str]
    is_last: bool = False


class RstStream(msgspec.Struct, frozen=True):
    stream_id: int
    status: int


@dataclass(frozen=True, slots=True)
class Settings:
    """Whatever it says: nothing here depends on it."""


class Ping(msgspec.Struct, frozen=True):
    ping_id: int


class GoAway(msgspec.Struct, frozen=True):
    last_stream_id: int
    status: int = 0


class WindowUpdate(msgspec.Struct, frozen=True):
    stream_id: int
    size: int


class Data(msgspec.Struct, frozen=True):
    """A part of a data frame; `is_last` ends the stream."""

    stream_id: int
    data: bytes
    is_last: bool = False


Frame: TypeAlias = SynStream | SynReply | Headers | RstStream | Settings | Ping | GoAway | WindowUpdate | Data


class FrameWriter:
    """Makes the bytes of frames, in the order in which they are sent: headers build on each other."""

    def __init__(self) -> None:
        self._packer = HeaderPacker()

    def write(self, frame: Frame) -> bytes:
        match frame:
            case Data(stream_id, data, is_last):
                return _HEAD.pack(stream_id, (is_last and _FIN) << 24 | len(data)) + data
            case SynStream(stream_id, headers, is_last, is_unidirectional):
                flags = is_last * _FIN | is_unidirectional * _UNIDIRECTIONAL
                return _control(_Type.SYN_STREAM, _OPENING.pack(stream_id, 0, 0) + self._packer.pack(headers), flags)
            case SynReply(stream_id, headers, is_last):
                return _control(_Type.SYN_REPLY, _ONE.pack(stream_id) + self._packer.pack(headers), is_last * _FIN)
            case Headers(stream_id, headers, is_last):
                return _control(_Type.HEADERS, _ONE.pack(stream_id) + self._packer.pack(headers), is_last * _FIN)
            case RstStream(stream_id, status):
                return _control(_Type.RST_STREAM, _TWO.pack(stream_id, status))
            case Settings():
                return _control(_Type.SETTINGS, _ONE.pack(0))
            case Ping(ping_id):
                return _control(_Type.PING, _ONE.pack(ping_id))
            case GoAway(last_stream_id, status):
                return _control(_Type.GOAWAY, _TWO.pack(last_stream_id, status))
            case WindowUpdate(stream_id, size):
                return _control(_Type.WINDOW_UPDATE, _TWO.pack(stream_id, size))


def _control(type_: int, body: bytes, flags: int = 0) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION << 16 | type_, flags << 24 | len(body)) + body


class FrameReader:
    """Takes bytes as they come, and tells the frames in them. What is no SPDY/3.1 is a SpdyError."""

    def __init__(self) -> None:
        self._unpacker = HeaderUnpacker()
        self._buffer = bytearray()
        #: Of the data frame that is under way: its stream, how much is missing, and whether it ends the stream.
        self._stream_id, self._missing, self._is_last = 0, 0, False

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while (frame := self._data() if self._missing else self._next()) is not None:
            yield frame

    def _data(self) -> Data | None:
        if not self._buffer:
            return None
        data = bytes(self._buffer[: self._missing])
        del self._buffer[: len(data)]
        self._missing -= len(data)
        return Data(self._stream_id, data, self._is_last and not self._missing)

    def _next(self) -> Frame | None:
        if len(self._buffer) < _HEAD.size:
            return None
        first, second = _HEAD.unpack_from(self._buffer)
        flags, length = second >> 24, second & 0xFF_FFFF
        if not first & _CONTROL:
            del self._buffer[: _HEAD.size]
            self._stream_id, self._missing, self._is_last = first, length, bool(flags & _FIN)
            return self._data() if length else Data(first, b"", self._is_last)
        if first >> 16 & 0x7FFF != _VERSION:
            raise SpdyError("a frame of another version than 3")
        if length > MOST_CONTROL_BYTES:
            raise SpdyError("a control frame of too many bytes")
        if len(self._buffer) < _HEAD.size + length:
            return None
        body = bytes(self._buffer[_HEAD.size : _HEAD.size + length])
        del self._buffer[: _HEAD.size + length]
        return self._control(first & 0xFFFF, body, flags)

    def _control(self, type_: int, body: bytes, flags: int) -> Frame:
        is_last = bool(flags & _FIN)
        try:
            match type_:
                case _Type.SYN_STREAM:
                    stream_id = _OPENING.unpack_from(body)[0] & _STREAM_ID
                    headers = self._unpacker.unpack(body[_OPENING.size :])
                    return SynStream(stream_id, headers, is_last, bool(flags & _UNIDIRECTIONAL))
                case _Type.SYN_REPLY | _Type.HEADERS:
                    stream_id = _ONE.unpack_from(body)[0] & _STREAM_ID
                    headers = self._unpacker.unpack(body[_ONE.size :])
                    return (SynReply if type_ == _Type.SYN_REPLY else Headers)(stream_id, headers, is_last)
                case _Type.RST_STREAM:
                    stream_id, status = _TWO.unpack(body)
                    return RstStream(stream_id & _STREAM_ID, status)
                case _Type.SETTINGS:
                    return Settings()
                case _Type.PING:
                    return Ping(*_ONE.unpack(body))
                case _Type.GOAWAY:
                    stream_id, status = _TWO.unpack(body)
                    return GoAway(stream_id & _STREAM_ID, status)
                case _Type.WINDOW_UPDATE:
                    stream_id, size = _TWO.unpack(body)
                    return WindowUpdate(stream_id & _STREAM_ID, size & _STREAM_ID)
        except struct.error:
            raise SpdyError("a control frame that is too short or too long") from None
        raise SpdyError(f"a control frame of the unknown type {type_}")
