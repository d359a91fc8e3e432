"""Forwarded ports: streams over SPDY that find each other, those that do not, and channels of a WebSocket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairlead.runtime.http.upgrading import Upgrade
from fairlead.runtime.loops import run
from fairlead.runtime.streaming import port_forward
from fairlead.runtime.streaming.duplex import Connection
from fairlead.runtime.streaming.handshake import Agreement
from fairlead.runtime.streaming.port_forward import PORT_FORWARD, Pod, forward
from fairlead.runtime.streaming.spdy import SpdyConnection

ANSWER = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"


@asynccontextmanager
async def forwarding(port: int) -> AsyncIterator[tuple[SpdyConnection, asyncio.Task[None]]]:
    """A client of forwarded ports, all of which lead to this one."""
    ours, theirs = [await asyncio.open_connection(sock=end) for end in socket.socketpair()]

    async def connect(_: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    agreement = Agreement(False, PORT_FORWARD, Upgrade("SPDY/3.1", lambda: ours), ANSWER)
    serving = asyncio.create_task(forward(agreement, [], Pod("pod p", connect)))
    assert await theirs[0].readexactly(len(ANSWER)) == ANSWER
    client = SpdyConnection(Connection(*theirs), is_server=False)
    running = asyncio.create_task(client.run())
    try:
        async with asyncio.timeout(30):
            yield client, serving
    finally:
        await client.close()
        await asyncio.gather(running, serving)


def test_both_streams_of_a_connection_may_come_in_any_order() -> None:
    async def main() -> None:
        backend = await asyncio.start_server(_echo, "127.0.0.1", 0)
        async with forwarding(backend.sockets[0].getsockname()[1]) as (client, _):
            for number, order in enumerate((("error", "data"), ("data", "error"))):
                headers = {"port": "80", "requestID": str(number)}
                streams = {kind: await client.open(headers | {"streamType": kind}) for kind in order}
                await streams["data"].write(b"hello")
                assert await streams["data"].read() == b"hello"
                await streams["data"].end()
                assert await streams["data"].read() == b""
                assert await streams["error"].read() == b""
        backend.close()

    run(main())


def test_a_port_that_nobody_listens_on_is_told_and_others_go_on() -> None:
    async def main() -> None:
        backend = await asyncio.start_server(_echo, "127.0.0.1", 0)
        port = backend.sockets[0].getsockname()[1]
        async with forwarding(port) as (client, _):
            backend.close()
            await backend.wait_closed()
            for number in range(2):
                headers = {"port": "80", "requestID": str(number)}
                error = await client.open(headers | {"streamType": "error"})
                data = await client.open(headers | {"streamType": "data"})
                assert (await error.read()).startswith(b"error forwarding port 80 to pod p: ")
                assert await data.read() == b""

    run(main())


@pytest.mark.parametrize(
    "headers",
    [
        {"streamType": "data", "port": "0"},
        {"streamType": "data", "port": "65536"},
        {"streamType": "data", "port": "x"},
        {"streamType": "more", "port": "80"},
        {},
    ],
)
def test_streams_that_make_no_sense_are_reset(headers: dict[str, str]) -> None:
    async def main() -> None:
        async with forwarding(1) as (client, _):
            stream = await client.open(headers)
            await stream.is_cut.wait()

    run(main())


def test_a_stream_that_stays_alone_is_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with forwarding(1) as (client, _):
            stream = await client.open({"streamType": "data", "port": "80"})
            await stream.is_cut.wait()

    monkeypatch.setattr(port_forward, "PAIRING_SECONDS", 0.1)
    run(main())


def test_the_end_of_the_client_is_the_end_of_its_connections() -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert await reader.read() == b"last words"
            ended.set()
            writer.close()

        backend = await asyncio.start_server(wait, "127.0.0.1", 0)
        async with forwarding(backend.sockets[0].getsockname()[1]) as (client, serving):
            headers = {"port": "80", "requestID": "1"}
            await client.open(headers | {"streamType": "error"})
            data = await client.open(headers | {"streamType": "data"})
            await data.write(b"last words")
            await client.close()
            await ended.wait()
            await serving
        backend.close()

    run(main())


def test_a_connection_that_the_pod_ends_is_the_end_of_a_websocket() -> None:
    """Its channels cannot say that they end, and the clients of one port would wait for ever."""

    async def say_and_go(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"all there is")
        writer.close()

    async def main() -> None:
        backend = await asyncio.start_server(say_and_go, "127.0.0.1", 0)
        port = backend.sockets[0].getsockname()[1]
        ours, theirs = [await asyncio.open_connection(sock=end) for end in socket.socketpair()]
        agreement = Agreement(True, "v4.channel.k8s.io", Upgrade("websocket", lambda: ours), ANSWER)
        pod = Pod("pod p", lambda _: asyncio.open_connection("127.0.0.1", port))
        async with asyncio.timeout(30), backend:
            serving = asyncio.create_task(forward(agreement, [80], pod))
            assert await theirs[0].readexactly(len(ANSWER)) == ANSWER
            beginnings = [b"\x82\x03" + bytes([channel, 80, 0]) for channel in (0, 1)]
            said = b"".join([*beginnings, b"\x82\x0d\x00all there is", b"\x88\x02\x03\xe8"])
            assert await theirs[0].readexactly(len(said)) == said
            theirs[1].close()
            await serving

    run(main())


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()
