"""Connections to ports of a pod, as clients ask for them: which port, the bytes both ways, and why it did not work.

kubectl speaks `portforward.k8s.io` over SPDY, two streams for each connection; since 1.31 inside a WebSocket. Python's
clients open one WebSocket, in which each port has two channels and one connection.
Source: kubelet `cri-streaming/pkg/streaming/portforward`, client-go `tools/portforward` (1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from fairlead.runtime.streaming.duplex import (
    LINGER_SECONDS,
    Connection,
    Duplex,
    EndingSink,
    Inbox,
    Sink,
    Source,
    copy,
    linger,
    read_while_there,
)
from fairlead.runtime.streaming.handshake import Agreement, Spoken
from fairlead.runtime.streaming.spdy import SpdyConnection, SpdyStream
from fairlead.runtime.streaming.websocket import Tunnel, WebSocket

PORT_FORWARD: Final = "portforward.k8s.io"
TUNNELLED: Final = f"SPDY/3.1+{PORT_FORWARD}"
_CHANNELS: Final = "v4.channel.k8s.io"
SPOKEN: Final = Spoken(over_spdy=(PORT_FORWARD,), over_websocket=(TUNNELLED, _CHANNELS, ""))
#: How long a client may take to open the second stream of a connection.
PAIRING_SECONDS: Final = 30.0
#: Each has two channels, and a channel is a byte.
MOST_PORTS: Final = 128
_DATA, _ERROR = "data", "error"


#: Opens a connection to a port of the pod. OSError: it cannot be.
Connect: TypeAlias = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Pod(msgspec.Struct, frozen=True):
    """Where the connections lead, and what errors call it."""

    description: str
    connect: Connect


class _Wanted(msgspec.Struct, frozen=True):
    """One connection that a client wants."""

    port: int
    incoming: Source
    outgoing: EndingSink
    errors: Sink
    #: Set when the client wants nothing more of it.
    gone: asyncio.Event
    #: Whether one way can end before the other. A WebSocket's channels cannot: a connection that the pod ends is over.
    half_closes: bool


async def forward(agreement: Agreement, ports: Sequence[int], pod: Pod) -> None:
    """Carry what the client wants, until it goes. `ports` are those of a WebSocket; SPDY names one each time."""
    connection = await agreement.accept()
    try:
        if not agreement.is_websocket:
            await _over_spdy(connection, pod)
        elif agreement.protocol == TUNNELLED:
            await _over_spdy(Tunnel(WebSocket(connection)), pod)
        else:
            await _over_websocket(WebSocket(connection), ports, pod)
    except ConnectionError:
        pass  # the client does not speak what it said, or is gone
    finally:
        await connection.close()


async def _carry(wanted: _Wanted, pod: Pod) -> None:
    """Open the connection and copy both ways until both have ended, or the client wants no more of it."""
    try:
        backend = Connection(*await pod.connect(wanted.port))
    except OSError as error:
        text = f"error forwarding port {wanted.port} to {pod.description}: {error}"
        await wanted.errors.write(text.encode())
        return
    up = asyncio.create_task(_copy_whole(wanted.incoming, backend))
    down = asyncio.create_task(_copy_whole(backend, wanted.outgoing))
    over = asyncio.create_task(_all_over(up, down) if wanted.half_closes else _all_over(down))
    gone = asyncio.create_task(_set(wanted.gone))
    try:
        await asyncio.wait([over, gone], return_when=asyncio.FIRST_COMPLETED)
        if wanted.gone.is_set():
            await asyncio.wait([up], timeout=LINGER_SECONDS)  # what the client had sent before it went
    finally:
        for task in (tasks := (up, down, over, gone)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await backend.close()


async def _all_over(*tasks: asyncio.Task[None]) -> None:
    await asyncio.wait(tasks)


async def _set(event: asyncio.Event) -> None:
    await event.wait()


async def _copy_whole(source: Source, sink: EndingSink) -> None:
    await copy(source, sink)
    with contextlib.suppress(ConnectionError):
        await sink.end()


# --- over SPDY ------------------------------------------------------------------------------------------------------


async def _over_spdy(duplex: Duplex, pod: Pod) -> None:
    spdy = SpdyConnection(duplex)
    reading = asyncio.create_task(spdy.run())
    pairs = _Pairs()
    try:
        async with asyncio.TaskGroup() as group:
            while (stream := await spdy.accept()) is not None:
                if (pair := await pairs.add(stream)) is not None:
                    group.create_task(_carry_pair(*pair, pod))
    finally:
        pairs.close()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


class _Pairs:
    """Streams that wait for the other of their connection."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[SpdyStream, asyncio.Task[None]]] = {}

    async def add(self, stream: SpdyStream) -> tuple[SpdyStream, SpdyStream] | None:
        """Data and errors of a connection, if this is the second of them. What makes no sense is reset."""
        headers = stream.headers
        kind, port = headers.get("streamtype", ""), headers.get("port", "")
        key = headers.get("requestid", port)
        if kind not in (_DATA, _ERROR) or not is_port(port):
            await stream.reset()
            return None
        other, expiring = self._waiting.get(key, (None, None))
        if other is None or expiring is None:
            self._waiting[key] = stream, asyncio.create_task(self._expire(key, stream))
            return None
        if other.headers["streamtype"] == kind:
            await stream.reset()
            return None
        del self._waiting[key]
        expiring.cancel()
        return (stream, other) if kind == _DATA else (other, stream)

    async def _expire(self, key: str, stream: SpdyStream) -> None:
        await asyncio.sleep(PAIRING_SECONDS)
        del self._waiting[key]
        with contextlib.suppress(ConnectionError):
            await stream.reset()

    def close(self) -> None:
        for _, expiring in self._waiting.values():
            expiring.cancel()


async def _carry_pair(data: SpdyStream, errors: SpdyStream, pod: Pod) -> None:
    with contextlib.suppress(ConnectionError):
        await _carry(_Wanted(int(data.headers["port"]), data, data, errors, data.is_cut, half_closes=True), pod)
        await errors.end()
        await data.end()
        if not data.is_incoming_over:  # nobody will read what still comes
            await data.reset()


def is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 1 << 16


# --- over WebSocket -------------------------------------------------------------------------------------------------


class _Channel:
    """A channel of a WebSocket, and the end that it cannot tell."""

    def __init__(self, socket: WebSocket, number: int) -> None:
        self._socket, self._prefix = socket, bytes([number])

    async def write(self, data: bytes) -> None:
        await self._socket.send(self._prefix + data)

    async def end(self) -> None:
        pass


async def _over_websocket(socket: WebSocket, ports: Sequence[int], pod: Pod) -> None:
    inboxes, gone = [Inbox() for _ in ports], asyncio.Event()
    for channel, port in _channels(ports):
        await socket.send(bytes([channel]) + port.to_bytes(2, "little"))
    reading = asyncio.create_task(_read_channels(socket, inboxes, gone))
    try:
        async with asyncio.TaskGroup() as group:
            for number, (port, inbox) in enumerate(zip(ports, inboxes, strict=True)):
                data, errors = _Channel(socket, 2 * number), _Channel(socket, 2 * number + 1)
                wanted = _Wanted(port, inbox, data, errors, gone, half_closes=False)
                group.create_task(_carry_channel(wanted, inbox, pod))
        await socket.say_goodbye()
        await linger(reading)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _channels(ports: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each begins by telling of which port it is."""
    return ((2 * number + offset, port) for number, port in enumerate(ports) for offset in (0, 1))


async def _carry_channel(wanted: _Wanted, inbox: Inbox, pod: Pod) -> None:
    with contextlib.suppress(ConnectionError):
        await _carry(wanted, pod)
    inbox.discard()


async def _read_channels(socket: WebSocket, inboxes: Sequence[Inbox], gone: asyncio.Event) -> None:
    try:
        await read_while_there(_deliver(socket, inboxes), socket.ping)
    finally:
        gone.set()
        for inbox in inboxes:
            inbox.end()


async def _deliver(socket: WebSocket, inboxes: Sequence[Inbox]) -> None:
    channel = -1
    async for piece in socket.pieces():
        data, channel = piece.data, -1 if piece.begins else channel
        if channel < 0 and data:
            channel, data = data[0], data[1:]
        if channel % 2 == 0 and 0 <= channel < 2 * len(inboxes):
            await inboxes[channel // 2].put(data)
