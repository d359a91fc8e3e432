"""A log over a WebSocket: each piece is a message, of bytes or of base64, as far as the log goes or while it grows.

Source: apiserver `pkg/endpoints/handlers/responsewriters` (`StreamObject`), apimachinery
`pkg/util/httpstream/wsstream/stream.go` (1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

from fairlead.runtime.streaming.duplex import LINGER_SECONDS, read_while_there
from fairlead.runtime.streaming.handshake import HandshakeError, Spoken, agree
from fairlead.runtime.streaming.websocket import WebSocket
from fairlead.server.http.answers import Answer
from fairlead.server.http.request import Request
from fairlead.server.http.tunnel import Tunnels

if TYPE_CHECKING:
    import aiohttp

_SWITCHED: Final = 101
_BASE64: Final = "base64.binary.k8s.io"
_SPOKEN: Final = Spoken(over_spdy=(), over_websocket=("", "binary.k8s.io", _BASE64))


async def answer(
    request: Request, tunnels: Tunnels, opening: AbstractAsyncContextManager[aiohttp.ClientResponse]
) -> Answer | None:
    """Send what is opened; a refusal if the client offers no protocol for that. aiohttp.ClientError: nobody answers."""
    try:
        agreement = agree(request.scope, _SPOKEN)
    except HandshakeError as error:
        return Answer.of_text(str(error), error.code)
    async with opening as response:
        request.is_streamed = True
        if request.audit is not None:
            request.audit.answers_code(_SWITCHED)
        connection = await agreement.accept()
        socket = WebSocket(connection)
        try:
            sending = _send(socket, response, is_base64=agreement.protocol == _BASE64)
            await tunnels.until_one_ends(_until_gone(socket), sending)
        finally:
            await connection.close()
    return None


async def _send(socket: WebSocket, response: aiohttp.ClientResponse, *, is_base64: bool) -> None:
    """All of it, after a message without anything: the log is there."""
    import aiohttp

    send = socket.send_text if is_base64 else socket.send
    with contextlib.suppress(ConnectionError, aiohttp.ClientError):
        await send(b"")
        async for piece in response.content.iter_any():
            await send(b64encode(piece) if is_base64 else piece)
        await socket.say_goodbye()
        await asyncio.sleep(LINGER_SECONDS)  # until the client has read it and goes


async def _until_gone(socket: WebSocket) -> None:
    """What the client says is nothing to us."""

    async def read() -> None:
        async for _ in socket.pieces():
            pass

    with contextlib.suppress(ConnectionError):
        await read_while_there(read(), socket.ping)
