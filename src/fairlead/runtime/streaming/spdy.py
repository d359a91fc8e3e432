"""A connection that speaks SPDY/3.1: streams in both directions over one duplex.

As with the library that Kubernetes uses (moby/spdystream) nobody waits for windows: it never opens one again. Instead
the whole connection waits for a stream whose reader is slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from fairlead.runtime.streaming import spdy_frames as frames
from fairlead.runtime.streaming.duplex import Duplex, Inbox, read_while_there
from fairlead.runtime.streaming.spdy_headers import SpdyError

#: Streams that are open at once; kubectl has five for a command, and two for each forwarded connection.
MOST_STREAMS: Final = 4096


class SpdyStream:
    """One stream: what comes in, and what goes out."""

    def __init__(self, connection: SpdyConnection, stream_id: int, headers: Mapping[str, str]) -> None:
        self._connection = connection
        self.stream_id, self.headers = stream_id, headers
        self.inbox = Inbox()
        self.is_incoming_over = self.is_outgoing_over = False
        #: Set when the stream was ended before its end, by whomever.
        self.is_cut = asyncio.Event()

    async def read(self) -> bytes:
        """Some bytes; b"" at the end."""
        return await self.inbox.read()

    async def write(self, data: bytes) -> None:
        """Send them. ConnectionError: the stream is over."""
        for start in range(0, len(data), frames.DATA_BYTES):
            if self.is_outgoing_over:
                raise BrokenPipeError("the stream is closed")
            piece = data[start : start + frames.DATA_BYTES]
            await self._connection.send(frames.Data(self.stream_id, piece))

    async def end(self) -> None:
        """Nothing more will be written; what comes in is still read."""
        if not self.is_outgoing_over:
            self.is_outgoing_over = True
            await self._connection.send(frames.Data(self.stream_id, b"", is_last=True))
            self._connection.forget_if_over(self)

    async def reset(self, status: int = frames.CANCEL) -> None:
        """End both directions at once."""
        self.cut()
        await self._connection.send(frames.RstStream(self.stream_id, status))

    def cut(self) -> None:
        """Both directions are over, whoever ended them."""
        self.is_cut.set()
        self.is_incoming_over = self.is_outgoing_over = True
        self.inbox.end()
        self._connection.forget_if_over(self)


class SpdyConnection:
    """The streams of one connection. `run` has to be running for anything to arrive."""

    def __init__(self, duplex: Duplex, *, is_server: bool = True) -> None:
        self._duplex = duplex
        self._writer, self._reader = frames.FrameWriter(), frames.FrameReader()
        self._streams: dict[int, SpdyStream] = {}
        self._next_id = 2 if is_server else 1
        self._last_id = 0
        self._opened: asyncio.Queue[SpdyStream | None] = asyncio.Queue()

    async def run(self) -> None:
        """Read until the other end has gone, or does not speak SPDY."""
        try:
            await read_while_there(self._read(), self._ping)
        finally:
            for stream in list(self._streams.values()):
                stream.cut()
            self._opened.put_nowait(None)

    async def accept(self) -> SpdyStream | None:
        """The next stream that the other end opens; None: it has gone."""
        stream = await self._opened.get()
        if stream is None:
            self._opened.put_nowait(None)
        return stream

    async def open(self, headers: Mapping[str, str]) -> SpdyStream:
        """Open a stream; data may follow at once."""
        stream = SpdyStream(self, self._next_id, headers)
        self._next_id += 2
        self._streams[stream.stream_id] = stream
        await self.send(frames.SynStream(stream.stream_id, headers))
        return stream

    async def send(self, frame: frames.Frame) -> None:
        await self._duplex.write(self._writer.write(frame))

    async def go_away(self) -> None:
        """Tell the other end that no stream will be taken any more."""
        await self.send(frames.GoAway(self._last_id))

    async def close(self) -> None:
        await self._duplex.close()

    def forget_if_over(self, stream: SpdyStream) -> None:
        if stream.is_incoming_over and stream.is_outgoing_over:
            self._streams.pop(stream.stream_id, None)

    async def _ping(self) -> None:
        await self.send(frames.Ping(self._next_id))

    # -- what arrives

    async def _read(self) -> None:
        while data := await self._duplex.read():
            for frame in self._reader.feed(data):
                await self._receive(frame)

    async def _receive(self, frame: frames.Frame) -> None:
        match frame:
            case frames.Data(stream_id, data, is_last):
                await self._receive_data(stream_id, data, is_last)
            case frames.SynStream():
                await self._receive_stream(frame)
            case frames.SynReply(stream_id, _, is_last) | frames.Headers(stream_id, _, is_last):
                if is_last and (stream := self._streams.get(stream_id)) is not None:
                    self._end_incoming(stream)
            case frames.RstStream(stream_id):
                if (stream := self._streams.get(stream_id)) is not None:
                    stream.cut()
            case frames.Ping(ping_id) if ping_id % 2 != self._next_id % 2:  # else it is the answer to ours
                await self.send(frame)
            case frames.GoAway() | frames.Settings() | frames.WindowUpdate() | frames.Ping():
                pass

    async def _receive_data(self, stream_id: int, data: bytes, is_last: bool) -> None:
        stream = self._streams.get(stream_id)
        if stream is None or stream.is_incoming_over:
            return  # it was on its way when the stream ended
        await stream.inbox.put(data)
        if is_last:
            self._end_incoming(stream)

    async def _receive_stream(self, frame: frames.SynStream) -> None:
        stream_id = frame.stream_id
        if stream_id <= self._last_id or stream_id % 2 == self._next_id % 2:
            raise SpdyError(f"a stream that cannot be: {stream_id}")
        self._last_id = stream_id
        if max(len(self._streams), self._opened.qsize()) >= MOST_STREAMS:
            await self.send(frames.RstStream(stream_id, frames.REFUSED_STREAM))
            return
        stream = SpdyStream(self, stream_id, frame.headers)
        self._streams[stream_id] = stream
        stream.is_outgoing_over = frame.is_unidirectional
        await self.send(frames.SynReply(stream_id))
        self._opened.put_nowait(stream)
        if frame.is_last:
            self._end_incoming(stream)

    def _end_incoming(self, stream: SpdyStream) -> None:
        stream.is_incoming_over = True
        stream.inbox.end()
        self.forget_if_over(stream)
