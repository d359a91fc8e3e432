"""Leaving HTTP: which protocol a client and we both speak, and the answer that agrees on it.

A client offers names of protocols over SPDY/3.1 (`X-Stream-Protocol-Version`) or WebSocket (`Sec-WebSocket-Protocol`);
the first of its names that we know is it. Source: apimachinery `util/httpstream`, `util/httpstream/wsstream`,
golang.org/x/net/websocket (1.36).
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead.runtime.http.exchange import Scope
from fairlead.runtime.http.upgrading import UPGRADE, Upgrade
from fairlead.runtime.streaming.duplex import Connection

SPDY: Final = "SPDY/3.1"
_WEBSOCKET: Final = "websocket"
_STREAM_VERSION: Final = b"x-stream-protocol-version"
_WEBSOCKET_PROTOCOL: Final = b"sec-websocket-protocol"
_WEBSOCKET_KEY: Final = b"sec-websocket-key"
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class HandshakeError(Exception):
    """The client and we share no protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Spoken(msgspec.Struct, frozen=True):
    """The protocols that we speak over each of the two, by preference of nobody: the client's order counts."""

    over_spdy: Sequence[str]
    #: "": whoever offers none.
    over_websocket: Sequence[str]


class Agreement(msgspec.Struct, frozen=True):
    """What both will speak. Nothing has been answered yet."""

    is_websocket: bool
    protocol: str
    upgrade: Upgrade
    answer: bytes

    async def accept(self) -> Connection:
        """Answer, and take the connection."""
        connection = Connection(*self.upgrade.take())
        await connection.write(self.answer)
        return connection


def agree(scope: Scope, spoken: Spoken) -> Agreement:
    """What a request asks for. HandshakeError: nothing that we speak."""
    upgrade: Upgrade | None = scope.get(UPGRADE)
    headers: Mapping[bytes, bytes] = dict(reversed(scope["headers"]))
    if upgrade is not None and upgrade.speaks(_WEBSOCKET):
        return _over_websocket(upgrade, headers, spoken.over_websocket)
    if upgrade is None or not upgrade.speaks(SPDY):
        raise HandshakeError(400, "unable to upgrade: missing upgrade headers in request")
    offered = _names(scope, _STREAM_VERSION)
    protocol = next((name for name in offered if name in spoken.over_spdy), None)
    if not offered:
        raise HandshakeError(400, "unable to upgrade: X-Stream-Protocol-Version is required")
    if protocol is None:
        both = f"client supports {_list(offered)}, server accepts {_list(spoken.over_spdy)}"
        raise HandshakeError(403, f"unable to upgrade: unable to negotiate protocol: {both}")
    return Agreement(False, protocol, upgrade, _answer(SPDY, {"X-Stream-Protocol-Version": protocol}))


def _over_websocket(upgrade: Upgrade, headers: Mapping[bytes, bytes], spoken: Sequence[str]) -> Agreement:
    key = headers.get(_WEBSOCKET_KEY, b"")
    if headers.get(b"sec-websocket-version", b"") != b"13" or not key:
        raise HandshakeError(400, "unable to upgrade: missing or bad WebSocket-Version")
    offered = _split(headers.get(_WEBSOCKET_PROTOCOL, b"")) or [""]
    protocol = next((name for name in offered if name in spoken), None)
    if protocol is None:
        both = f"{_list(offered)}; supports {_list(spoken)}"
        raise HandshakeError(403, f"requested protocol(s) are not supported: {both}")
    accepted = {"Sec-WebSocket-Accept": b64encode(hashlib.sha1(key + _GUID).digest()).decode()}
    if protocol:
        accepted["Sec-WebSocket-Protocol"] = protocol
    return Agreement(True, protocol, upgrade, _answer(_WEBSOCKET, accepted))


def _answer(protocol: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"Connection: Upgrade\r\nUpgrade: {protocol}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    return f"HTTP/1.1 101 Switching Protocols\r\n{''.join(lines)}\r\n".encode()


def _list(names: Sequence[str]) -> str:
    """As Go prints one."""
    return f"[{' '.join(names)}]"


def _names(scope: Scope, header: bytes) -> list[str]:
    return [name for key, value in scope["headers"] if key == header for name in _split(value)]


def _split(value: bytes) -> list[str]:
    return [name.strip() for name in value.decode("latin-1").split(",") if name.strip()]
