"""Connections that leave HTTP: whoever takes one has all of its bytes, and nobody else reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.runtime.http.exchange import Receive, Scope, Send
from fairlead.runtime.http.listener import LOOPBACK_ADDRESS, bind, serving
from fairlead.runtime.http.upgrading import UPGRADE, Streams, Upgrade
from fairlead.runtime.loops import run

ASKED = b"POST /exec HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\ncontent-length: 0\r\n\r\n"
ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"


class Echoing:
    """Sends back what it gets where SPDY is wished, and answers everything else."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        upgrade: Upgrade | None = scope.get(UPGRADE)
        if upgrade is None or not upgrade.speaks("spdy/3.1"):
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"no"})
            return
        reader, writer = upgrade.take()
        writer.write(ACCEPTED)
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        self.ended.set()

    def close(self) -> None:
        pass

    def note_failed_handshake(self) -> None:
        pass


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Streams, Echoing]]:
    application, sock = Echoing(), bind(0)
    async with serving(application, sock):
        reader, writer = await asyncio.open_connection(LOOPBACK_ADDRESS, sock.getsockname()[1])
        yield (reader, writer), application
        writer.close()


def test_what_follows_an_accepted_upgrade_is_of_the_other_protocol() -> None:
    async def main() -> None:
        async with connected() as ((reader, writer), application):
            writer.write(ASKED + b"early")  # with the request, before there is an answer
            assert await reader.readexactly(len(ACCEPTED) + 5) == ACCEPTED + b"early"
            large = bytes(range(256)) * 4096
            writer.write(large)
            assert await reader.readexactly(len(large)) == large
            writer.write(b"GET / HTTP/1.1\r\n\r\n")  # which is no request any more
            assert await reader.readexactly(18) == b"GET / HTTP/1.1\r\n\r\n"
            writer.close()
            await application.ended.wait()

    run(main())


def test_what_follows_a_refused_upgrade_is_the_next_request() -> None:
    async def main() -> None:
        async with connected() as ((reader, writer), _):
            writer.write(ASKED.replace(b"SPDY/3.1", b"websocket") + b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            for _ in range(2):
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200 OK\r\n")
                assert await reader.readexactly(2) == b"no"

    run(main())


def test_the_end_of_who_took_the_connection_is_its_end() -> None:
    class Leaving(Echoing):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            _, writer = scope[UPGRADE].take()
            writer.write(ACCEPTED + b"bye")

    async def main() -> None:
        sock = bind(0)
        async with serving(Leaving(), sock):
            reader, writer = await asyncio.open_connection(LOOPBACK_ADDRESS, sock.getsockname()[1])
            writer.write(ASKED)
            assert await reader.read() == ACCEPTED + b"bye"
            writer.close()

    run(main())
