"""The dashboard's listener: the page, its files, a stream of events, and answers to why.

It holds few connections at once, whoever opens them: what runs beside it in this process needs descriptors, too.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from fairlead.dashboard.guard import Guard
from fairlead.dashboard.rows import Batch
from fairlead.dashboard.source import Source, UnknownPod

MOST_CONNECTIONS: Final = 64
#: Of these, pages that are told of news; a browser opens six connections.
MOST_STREAMS: Final = 16
_STOP_SECONDS: Final = 1.0
#: The longest name of a pod with its namespace.
_LONGEST_KEY: Final = 253 + 1 + 63
_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@asynccontextmanager
async def dashboard(source: Source, sock: socket.socket) -> AsyncIterator[str]:
    """Serve on that socket of loopback while the block runs; yields the link that lets its reader in."""
    guard = Guard(sock.getsockname()[1])
    pages = _Pages(source)
    application = web.Application()
    guard.watch_over(application)
    application.add_routes(
        [
            web.get("/", pages.file, allow_head=True),
            web.get("/static/{name:[a-z/._-]+}", pages.file),
            web.get("/about", pages.about),
            web.get("/events", pages.events, allow_head=False),
            web.get("/why", pages.why),
        ]
    )
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_STOP_SECONDS)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(_bounded(runner.server), sock=sock)
    try:
        yield guard.link
    finally:
        server.close()
        pages.stop()
        await runner.cleanup()


def _bounded(server: web.Server) -> Callable[[], asyncio.Protocol]:
    """Connections as the server handles them, up to so many; more are closed at once."""

    def connection() -> asyncio.Protocol:
        return server() if len(server.connections) < MOST_CONNECTIONS else _Refused()

    return connection


class _Refused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class _Pages:
    """The handlers over a source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._files = {path.relative_to(_STATIC).as_posix(): path for path in _STATIC.rglob("*") if path.is_file()}
        self._streams: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        for stream in self._streams:
            stream.cancel()

    async def file(self, request: web.Request) -> web.Response:
        """One of those that are there; their names are looked up, never joined to a path."""
        path = self._files.get(request.match_info.get("name", "index.html"))
        if path is None or path.suffix not in _TYPES:
            raise web.HTTPNotFound(text="there is no such page\n")
        return web.Response(body=path.read_bytes(), content_type=_TYPES[path.suffix], charset="utf-8")

    async def about(self, _: web.Request) -> web.Response:
        return _json(self._source.about)

    async def why(self, request: web.Request) -> web.Response:
        key, variant = request.query.get("pod", ""), request.query.get("variant", "")
        if key.count("/") != 1 or len(key) > _LONGEST_KEY:
            raise web.HTTPBadRequest(text="pod= takes NAMESPACE/NAME\n")
        try:
            return _json(await self._source.why(key, variant))
        except UnknownPod as error:
            raise web.HTTPNotFound(text=str(error)) from None

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events: `batch` and `chart`. The first of a connection begins anew."""
        if len(self._streams) >= MOST_STREAMS:
            raise web.HTTPServiceUnavailable(text="as many pages as may be are open already\n")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        stream = asyncio.create_task(self._stream(response, request.query.get("variant", "")))
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)
        try:
            await asyncio.wait([stream])
        finally:
            stream.cancel()
        return response

    async def _stream(self, response: web.StreamResponse, variant: str) -> None:
        try:
            await response.write(b"event: begin\ndata: {}\n\n")
            async with aclosing(self._source.batches(variant)) as news:
                async for item in news:
                    await response.write(_event(item))
        except ConnectionError:
            pass  # the page is closed


def _event(item: object) -> bytes:
    if item is None:
        return b":\n\n"
    name = b"batch" if isinstance(item, Batch) else b"chart"
    return b"event: %b\ndata: %b\n\n" % (name, msgspec.json.encode(item))


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
