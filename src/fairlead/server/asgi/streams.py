"""Watch streams: one encoded line for all watchers, written straight to their connections.

Events of one turn of the event loop (one group commit) are gathered and written to each connection at once. A client
that does not read is cut off when its backlog grows too large, as kube-apiserver does; it lists again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

from fairlead.api import field_selectors
from fairlead.api.encoded import encode
from fairlead.api.errors import BadRequest, Expired, ServerTimeout
from fairlead.api.objects import Obj
from fairlead.api.verbs import EventType, WatchQuery
from fairlead.runtime import chance
from fairlead.server.asgi.negotiate import TABLE, Form, check_stream
from fairlead.server.asgi.paths import Target
from fairlead.server.asgi.protocol import TRANSPORT
from fairlead.server.asgi.request import Request
from fairlead.server.asgi.transforms import Presenter
from fairlead.server.cache import Change, event_line
from fairlead.server.listing import check_list, check_watch, parse_revision, wait_for
from fairlead.server.registry import Registry
from fairlead.server.served import Served
from fairlead.server.versions import Version
from fairlead.server.watching import attach, bookmark

log = logging.getLogger(__name__)

#: A watch without timeoutSeconds ends after 30 to 60 minutes (kube-apiserver's --min-request-timeout).
MIN_TIMEOUT_SECONDS = 1800.0
BOOKMARK_SECONDS = 60.0
#: How long before its end a watch has its last bookmark (`nextBookmarkTime` of apiserver's storage/cacher).
LAST_BOOKMARK_SECONDS = 2.0
#: What may wait for a client that does not read, beyond what its watch began with.
MAX_BACKLOG_BYTES = 8 << 20

Send: TypeAlias = Callable[[Any], Awaitable[None]]
Receive: TypeAlias = Callable[[], Awaitable[Any]]

_HEADERS = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-cache, private"),
    (b"transfer-encoding", b"chunked"),
]


class Stream:
    """One watch on one connection."""

    def __init__(self, served: Served, version: Version, request: Request) -> None:
        self._version = version
        self._show = Presenter(served, version, request)
        check_stream(self._show.form)
        self._transport: asyncio.Transport = request.scope[TRANSPORT]
        self._transform = self._transformer(self._show.form)
        self._encode = self._encoder(version)
        self._gathered: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._has_columns = False
        self._allowed_bytes = 0  # set by the first write: the initial state may be large
        self.is_open = False
        self.ended = asyncio.Event()

    def tell(self, type_: EventType, change: Change) -> None:
        """The cache's sink. A watch that cannot show its object must not fail the write that it is told of."""
        try:
            line = self._encode(type_, change)
        except Exception:
            log.exception("a watch of %s ends", self._version.resource.plural)
            self.end()
            return
        self.write(line)

    def mark(self, revision: int, *, ends_initial_events: bool = False) -> None:
        """A bookmark, in the form in which objects are shown."""
        said = bookmark(self._version.resource, revision, ends_initial_events=ends_initial_events)
        raw = encode(self._transform(said.obj())) if self._transform else said.raw
        self.write(event_line(EventType.BOOKMARK, raw))

    def write(self, line: bytes) -> None:
        """Gather a line; it leaves at the end of this turn of the loop."""
        if not self._gathered and self.is_open:
            self._loop.call_soon(self.flush)
        self._gathered.append(line)

    def end(self) -> None:
        """Nothing more will come."""
        self.flush()
        self.ended.set()

    def flush(self) -> None:
        if not self._gathered or self.ended.is_set():
            return
        data = self._gathered[0] if len(self._gathered) == 1 else b"".join(self._gathered)
        self._gathered.clear()
        transport = self._transport
        self._allowed_bytes = self._allowed_bytes or MAX_BACKLOG_BYTES + len(data)
        if transport.is_closing() or transport.get_write_buffer_size() > self._allowed_bytes:
            transport.abort()  # it would have to read its backlog to hear anything politer
            self.ended.set()
            return
        transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _transformer(self, form: Form) -> Callable[[Obj], Obj] | None:
        if form.transform == TABLE:
            return self._as_table
        return self._show.partial if form.transform else None

    def _encoder(self, version: Version) -> Callable[[EventType, Change], bytes]:
        transform = self._transform
        if transform:
            return lambda type_, change: event_line(type_, encode(transform(self._obj(type_, change))))
        if version.from_stored:
            return lambda type_, change: event_line(type_, version.shown(change.carried(type_)).raw)
        return lambda type_, change: change.line(type_)

    def _as_table(self, obj: Obj) -> Obj:
        table = self._show.row(obj, with_columns=not self._has_columns)
        self._has_columns = True
        return table

    def _obj(self, type_: EventType, change: Change) -> Obj:
        return self._version.shown(change.carried(type_)).obj()


class Streams:
    """All open watches of a listener, so that they can be ended when it stops."""

    def __init__(self) -> None:
        self._open: set[Stream] = set()

    def close(self) -> None:
        """End every watch."""
        for one in self._open:
            one.ended.set()

    async def run(
        self, registry: Registry, served: Served, version: Version, target: Target, request: Request, send: Send
    ) -> None:
        """Answer a watch request until its time is over, the client goes away or the listener stops."""
        query = request.watch_query()
        if request.is_watch:
            check_watch(query, request.query.get("continue", ""))
        else:  # `/watch/…` alone: upstream judges the options as if they were those of a list
            check_list(request.list_query(), has_initial_events="sendInitialEvents" in request.query)
        if target.name:
            query = _of_one(query, target.name)
        out = Stream(served, version, request)
        self._open.add(out)
        listening = asyncio.create_task(_disconnect(request.receive, out))
        try:
            await _stream(out, registry, served, version, target.namespace, query, send)
        finally:
            listening.cancel()
            self._open.discard(out)


async def _disconnect(receive: Receive, out: Stream) -> None:
    """Notice that the client has gone, even if nothing happens that would be written to it."""
    while (await receive())["type"] != "http.disconnect":
        pass
    out.ended.set()


async def _stream(
    out: Stream, registry: Registry, served: Served, version: Version, namespace: str, query: WatchQuery, send: Send
) -> None:
    watcher = None
    try:
        try:
            if query.send_initial_events:  # only the beginning has to be as new as it is asked for
                await wait_for(registry.store, parse_revision(query.resource_version))
            watcher = attach(served, version, namespace, query, out.tell, out.end)
            if query.send_initial_events and query.bookmarks:
                out.mark(registry.revision, ends_initial_events=True)
        except (Expired, ServerTimeout) as error:
            out.write(event_line(EventType.ERROR, encode(error.status())))
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        out.is_open = True
        out.flush()
        if watcher is not None:
            await _until_over(out, query, registry)
        out.flush()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        if watcher is not None:
            served.cache.unwatch(watcher)


async def _until_over(out: Stream, query: WatchQuery, registry: Registry) -> None:
    limit = query.timeout_seconds
    if not limit:
        limit = MIN_TIMEOUT_SECONDS * (1 + chance.source().random())
    try:
        async with asyncio.timeout(limit):
            for pause in _bookmark_pauses(limit) if query.bookmarks else ():
                try:
                    async with asyncio.timeout(pause):
                        await out.ended.wait()
                        return
                except TimeoutError:
                    out.mark(registry.revision)
            await out.ended.wait()
    except TimeoutError:
        return


def _bookmark_pauses(limit: float) -> Iterator[float]:
    """When bookmarks are due: now and then, and shortly before the end, so that the next watch begins there."""
    left = limit - LAST_BOOKMARK_SECONDS
    while left > 0:
        pause = min(BOOKMARK_SECONDS, left)
        yield pause
        left -= pause


def _of_one(query: WatchQuery, name: str) -> WatchQuery:
    """`/watch/…/NAME`, and a watch on a single object's path."""
    selector = field_selectors.parse(query.fields)
    if selector.is_empty:
        return replace(query, fields=f"metadata.name={name}")
    if selector.exact("metadata.name") != name:
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return query
