"""Channels of a WebSocket in texts, for clients that have no bytes: a digit for the channel, then base64."""

from __future__ import annotations

import binascii
from base64 import b64encode
from typing import Final

from fairlead.runtime.streaming.websocket_frames import Piece, WebSocketError

_QUANTUM: Final = 4
_ZERO: Final = ord("0")


def text_of(channel: int, data: bytes) -> bytes:
    """A message with what is said on that channel."""
    return bytes([_ZERO + channel]) + b64encode(data)


class Base64Pieces:
    """Makes pieces with bytes of those with texts. A message may be cut anywhere."""

    def __init__(self) -> None:
        self._rest, self._has_channel = b"", False

    def decoded(self, piece: Piece) -> Piece:
        """WebSocketError: it is no base64, or no channel."""
        if piece.begins:
            self._rest, self._has_channel = b"", False
        data, channel = self._rest + piece.data, b""
        if data and not self._has_channel:
            if not data[:1].isdigit():
                raise WebSocketError("no channel")
            channel, data, self._has_channel = bytes([data[0] - _ZERO]), data[1:], True
        whole = len(data) - len(data) % _QUANTUM
        self._rest = data[whole:]
        if piece.ends and self._rest:
            raise WebSocketError("illegal base64 data")
        try:
            decoded = binascii.a2b_base64(data[:whole], strict_mode=True) if whole else b""
        except binascii.Error:
            raise WebSocketError("illegal base64 data") from None
        return Piece(channel + decoded, piece.begins, piece.ends)
