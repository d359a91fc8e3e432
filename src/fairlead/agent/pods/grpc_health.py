"""The question of a gRPC probe: `Check` of `grpc.health.v1.Health`, whose messages have one field each.

Whoever answers is a stranger: what it says is bounded, and whatever it says wrong is a failure with a text.
Source: pkg/probe/grpc.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from grpclib.client import Channel, Handler, UnaryUnaryMethod
from grpclib.const import Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from grpclib.protocol import H2Protocol

from fairlead.agent.grpc.client import apart
from fairlead.golang.durations import format_seconds
from fairlead.golang.quoting import go_quote

_CHECK: Final = "/grpc.health.v1.Health/Check"
_STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_SERVING: Final = 1
#: How soon a connection is tried again.
_AGAIN_SECONDS: Final = 1.0
#: Of a whole answer, headers and settings of the connection included.
_MOST_BYTES: Final = 1 << 16
_FIELD_ONE_BYTES, _FIELD_ONE_NUMBER = 0x0A, 0x08
_CONTINUED: Final = 0x80
#: What grpclib raises at answers that are none, and (the attribute) at a connection that ends while it begins.
_BROKEN: Final = (
    StreamTerminatedError,
    ProtocolError,
    AssertionError,
    AttributeError,
    NotImplementedError,
    ValueError,
    OSError,
)


async def check(connect: Callable[[], Awaitable[socket.socket]], address: str, service: str, seconds: float) -> str:
    """Why the service is not well; nothing if it is. A connection is tried for until the time is over."""
    deadline, within = asyncio.get_running_loop().time() + seconds, format_seconds(seconds)
    try:
        async with asyncio.timeout_at(deadline):
            sock = await _connected(connect)
    except TimeoutError:
        return f"timeout: failed to connect service {go_quote(address)} within {within}: context deadline exceeded"
    channel = _Channel(sock)
    try:
        async with asyncio.timeout_at(deadline):
            status = await apart(UnaryUnaryMethod[bytes, int](channel, _CHECK, bytes, int)(service.encode()))
    except TimeoutError:
        return f"timeout: health rpc did not complete within {within}"
    except GRPCError as error:
        return _refusal(error)
    except _BROKEN as error:
        return f"error: health rpc probe failed: {error or type(error).__name__}"
    finally:
        channel.close()
        sock.close()
    if status == _SERVING:
        return ""
    name = _STATUSES[status] if status < len(_STATUSES) else str(status)
    return f"service unhealthy (responded with {go_quote(name)})"


async def _connected(connect: Callable[[], Awaitable[socket.socket]]) -> socket.socket:
    while True:
        try:
            return await connect()
        except OSError:
            await asyncio.sleep(_AGAIN_SECONDS)


def _refusal(error: GRPCError) -> str:
    message = error.message or ""
    if error.status is Status.UNIMPLEMENTED:
        return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
    code = "".join(word.capitalize() for word in error.status.name.split("_"))
    return f"error: health rpc probe failed: rpc error: code = {code} desc = {message}"


class _Messages(CodecBase):
    """HealthCheckRequest: `service = 1`; HealthCheckResponse: `status = 1`."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes([_FIELD_ONE_BYTES, *_varint(len(message))]) + message if message else b""

    def decode(self, data: bytes, message_type: Any) -> int:
        """The only field there is; ValueError for anything else."""
        if not data:
            return 0
        if data[0] != _FIELD_ONE_NUMBER or not 2 <= len(data) <= 11 or data[-1] & _CONTINUED:
            raise ValueError("the answer is no HealthCheckResponse")
        return sum((byte & ~_CONTINUED) << 7 * place for place, byte in enumerate(data[1:]))


def _varint(number: int) -> list[int]:
    found = []
    while number >= _CONTINUED:
        found.append(number & ~_CONTINUED | _CONTINUED)
        number >>= 7
    return [*found, number]


class _Channel(Channel):
    """Over a connection that is there, which may be in another network."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(codec=_Messages())
        self._sock = sock

    async def _create_connection(self) -> H2Protocol:
        _, protocol = await self._loop.create_connection(
            lambda: _Bounded(Handler(), self._config, self._h2_config), sock=self._sock
        )
        return protocol


class _Bounded(H2Protocol):
    """Nobody answers at length."""

    _left = _MOST_BYTES

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self.connection.close()
            return
        super().data_received(data)
