"""A connection that speaks SPDY/3.1, with ours at both ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.runtime.loops import run
from fairlead.runtime.streaming import spdy_frames as frames
from fairlead.runtime.streaming.duplex import MOST_BYTES, Connection
from fairlead.runtime.streaming.spdy import MOST_STREAMS, SpdyConnection
from fairlead.runtime.streaming.spdy_frames import FrameReader, FrameWriter
from tests.examples import examples


async def _ends() -> tuple[Connection, Connection]:
    ours, theirs = socket.socketpair()
    return Connection(*await asyncio.open_connection(sock=ours)), Connection(
        *await asyncio.open_connection(sock=theirs)
    )


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[SpdyConnection, SpdyConnection]]:
    """Server and client."""
    ours, theirs = await _ends()
    server, client = SpdyConnection(ours), SpdyConnection(theirs, is_server=False)
    tasks = [asyncio.create_task(server.run()), asyncio.create_task(client.run())]
    try:
        yield server, client
    finally:
        await client.close()
        await server.close()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_streams_carry_bytes_both_ways_and_end_one_way_at_a_time() -> None:
    async def main() -> None:
        async with connected() as (server, client):
            sent = await client.open({"streamType": "data", "port": "80"})
            await sent.write(b"x" * 100_000)
            await sent.end()
            got = await server.accept()
            assert got is not None and got.headers == {"streamtype": "data", "port": "80"}
            read = b""
            while data := await got.read():
                read += data
            assert read == b"x" * 100_000
            await got.write(b"answer")
            await got.end()
            assert await sent.read() == b"answer"
            assert await sent.read() == b""

    run(main())


def test_a_reset_ends_both_directions() -> None:
    async def main() -> None:
        async with connected() as (server, client):
            sent = await client.open({})
            got = await server.accept()
            assert got is not None
            await sent.reset()
            await got.is_cut.wait()
            assert await got.read() == b""
            try:
                await got.write(b"x")
            except ConnectionError:
                return
            raise AssertionError("written to a stream that is over")

    run(main())


def test_a_slow_reader_makes_the_sender_wait() -> None:
    async def main() -> None:
        async with connected() as (server, client):
            sent = await client.open({})
            writing = asyncio.create_task(sent.write(b"x" * (64 * MOST_BYTES)))
            got = await server.accept()
            assert got is not None
            size = len(await got.read())
            done, _ = await asyncio.wait([writing], timeout=0.2)
            assert not done
            while size < 64 * MOST_BYTES:
                size += len(await got.read())
            await writing

    run(main())


def test_the_end_of_the_connection_is_the_end_of_its_streams() -> None:
    async def main() -> None:
        async with connected() as (server, client):
            await client.open({})
            got = await server.accept()
            assert got is not None
            await client.close()
            assert await got.read() == b""
            assert await server.accept() is None

    run(main())


def test_pings_are_answered_and_other_frames_are_taken() -> None:
    async def main() -> None:
        ours, theirs = await _ends()
        server = SpdyConnection(ours)
        running = asyncio.create_task(server.run())
        writer, reader = FrameWriter(), FrameReader()
        for frame in (frames.Settings(), frames.WindowUpdate(1, 5), frames.GoAway(0), frames.Ping(1)):
            await theirs.write(writer.write(frame))
        assert list(reader.feed(await theirs.read())) == [frames.Ping(1)]
        await theirs.close()
        await running

    run(main())


def test_streams_beyond_the_limit_are_refused_and_the_others_go_on() -> None:
    async def main() -> None:
        async with connected() as (server, client):
            streams = [await client.open({"number": str(number)}) for number in range(MOST_STREAMS + 1)]
            await streams[-1].is_cut.wait()
            first = await server.accept()
            assert first is not None
            await first.write(b"x")
            assert await streams[0].read() == b"x"

    run(main())


@settings(max_examples=examples(30), deadline=None)
@given(st.binary(max_size=400))
def test_nonsense_ends_the_connection_and_nothing_else(data: bytes) -> None:
    async def main() -> None:
        ours, theirs = await _ends()
        server = SpdyConnection(ours)
        running = asyncio.create_task(server.run())
        await theirs.write(data)
        await theirs.close()
        await running
        while await server.accept() is not None:
            pass
        await ours.close()

    run(main())
