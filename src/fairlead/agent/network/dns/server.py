"""Answers questions at the address that pods are told, over UDP and TCP.

Everybody who reaches the address may ask, so all is bounded: the size of a question, how many wait for an answer, how
many connections there are and for how long they may say nothing.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Final, cast

from fairlead.agent.network.dns.answers import BadQuestion, Resolver

MOST_QUESTIONS: Final = 512
MOST_CONNECTIONS: Final = 128
IDLE_SECONDS: Final = 10.0
#: A name is 255 bytes at most; what is longer does not ask.
LARGEST_QUESTION: Final = 2048
RETRY_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class DnsServer:
    def __init__(self, resolver: Resolver, address: str, port: int = 53) -> None:
        self._resolver, self._address, self._port = resolver, address, port
        self._waiting: set[asyncio.Task[None]] = set()
        self._connections = 0

    async def run(self) -> None:
        trouble = ""
        while True:
            try:
                await self._serve()
            except OSError as error:  # somebody else listens there
                if str(error) != trouble:
                    log.warning("names are not resolved at %s: %s", self._address, error)
                trouble = str(error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        where = (self._address, self._port)
        transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), local_addr=where)
        try:
            async with await asyncio.start_server(self._connected, *where, limit=LARGEST_QUESTION) as server:
                await server.serve_forever()
        finally:
            transport.close()

    def asked(self, wire: bytes, transport: asyncio.DatagramTransport, client: Any) -> None:
        if len(wire) > LARGEST_QUESTION or len(self._waiting) >= MOST_QUESTIONS:
            return  # clients ask again
        task = asyncio.create_task(self._answer(wire, transport, client))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _answer(self, wire: bytes, transport: asyncio.DatagramTransport, client: Any) -> None:
        with suppress(BadQuestion):
            answer = await self._resolver.resolve(wire, over_tcp=False)
            if not transport.is_closing():
                transport.sendto(answer, client)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections >= MOST_CONNECTIONS:
            writer.close()
            return
        self._connections += 1
        try:
            while True:
                async with asyncio.timeout(IDLE_SECONDS):
                    size = int.from_bytes(await reader.readexactly(2), "big")
                    if size > LARGEST_QUESTION:
                        return
                    answer = await self._resolver.resolve(await reader.readexactly(size), over_tcp=True)
                    writer.write(len(answer).to_bytes(2, "big") + answer)
                    await writer.drain()
        except (BadQuestion, OSError, EOFError):  # TimeoutError is one of the second
            return
        finally:
            self._connections -= 1
            writer.close()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: DnsServer) -> None:
        self._server = server
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # asyncio's own is none by its class

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._server.asked(data, self._transport, addr)
