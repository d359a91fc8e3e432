"""Watch streams: one encoded line for all watchers, written straight to their connections.

Events of one turn of the event loop (one group commit) are gathered and written to each connection at once, as far as
it is writable: the rest waits as references to bytes that all watchers share. A client whose backlog grows too large is
disconnected, as by kube-apiserver; it lists again. The initial events have no such limit: they are made as the client
reads them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TypeAlias, TypeGuard

from fairlead.api import field_selectors
from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import ApiError, BadRequest, Expired, ServerTimeout
from fairlead.api.objects import Obj
from fairlead.api.verbs import EventType, WatchQuery
from fairlead.runtime import rng
from fairlead.runtime.http.exchange import Receive, framing
from fairlead.runtime.http.pieces import PAUSE, PIECE_BYTES, Pace, pieces
from fairlead.runtime.http.protocol import TRANSPORT
from fairlead.runtime.offload import offload
from fairlead.server.codec.protobuf_writer import object_message
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.http.messages import event_frame, event_writer
from fairlead.server.http.negotiate import PROTOBUF, TABLE, MediaTypeOptions, check_stream
from fairlead.server.http.request import Request
from fairlead.server.http.transforms import Presenter
from fairlead.server.metrics.watches import WatchMetrics
from fairlead.server.registry.registry import Registry
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.converted_events import Beginning
from fairlead.server.storage.entries import CacheEvent, event_line
from fairlead.server.storage.listing import check_list, check_watch, parse_revision, wait_for
from fairlead.server.storage.watching import Attachment, attach, bookmark

log = logging.getLogger(__name__)

#: A watch without timeoutSeconds ends after 30 to 60 minutes (kube-apiserver's --min-request-timeout).
MIN_TIMEOUT_SECONDS = 1800.0
BOOKMARK_SECONDS = 60.0
#: How long before its end a watch has its last bookmark (`nextBookmarkTime` of apiserver's storage/cacher).
LAST_BOOKMARK_SECONDS = 2.0
#: The largest backlog of a client that does not read. Clients share the bytes.
MAX_BACKLOG_BYTES = 8 << 20
#: From which size an object may hold the loop for too long while it is put into another form than it is kept in.
LONG_EVENT_BYTES = 64 << 10

_Pending: TypeAlias = "tuple[EventType, CacheEvent] | bytes"

_HEADERS = [(b"cache-control", b"no-cache, private")]


class Stream:
    """One watch on one connection."""

    def __init__(self, served: Served, version: ServedVersion, request: Request, metrics: WatchMetrics) -> None:
        self._version, self._metrics = version, metrics
        row = version.resource
        self._sizes = metrics.sizes(row.group, row.version, row.plural)
        self._show = Presenter(served, version, request)
        check_stream(self._show.form)
        self._transport: asyncio.Transport = request.scope[TRANSPORT]
        self._pace, self._request = Pace(request.scope), request
        framed = framing(None, request.scope["http_version"])
        content_type = (b"content-type", self._show.form.stream_type.encode())
        self.headers = [content_type, *_HEADERS, *request.headers_out, framed]
        self._is_chunked = framed[0] == b"transfer-encoding"
        self._is_protobuf = self._show.form.media_type == PROTOBUF
        self._is_plain = self._show.form.is_json_object and not version.from_stored
        self._transform = self._transformer(self._show.form)
        self._encode = self._encoder(version)
        self._loop = asyncio.get_running_loop()
        self._has_columns = False
        #: Unsent events of the cache, and lines of our own; and about how many bytes they are.
        self._pending: deque[_Pending] = deque()
        self._pending_bytes = 0
        self._backlog_bytes = 0  # what was left unsent by the last attempt
        self._is_due = False
        self._draining: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._is_open = False
        self.ended = asyncio.Event()

    def notify(self, type_: EventType, change: CacheEvent) -> None:
        """The sink of the cache. Events are sent at the end of this turn of the loop."""
        self._pending.append((type_, change))
        self._pending_bytes += change.size
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn)

    def mark(self, revision: int) -> None:
        """Send a bookmark."""
        self.write(self.bookmark(revision))

    def write(self, line: bytes) -> None:
        """Send a line that is not an event of the cache."""
        self._pending.append(line)
        self._pending_bytes += len(line)
        if self._is_open:
            self._flush()

    def bookmark(self, revision: int, *, ends_initial_events: bool = False) -> bytes:
        """The line of a bookmark, in the form in which objects are shown."""
        obj = bookmark(self._version.resource, revision, ends_initial_events=ends_initial_events)
        return self._event(EventType.BOOKMARK, self._transform(obj.obj()) if self._transform else obj.obj())

    def error(self, error: ApiError) -> None:
        """Send the refusal of a watch that has begun."""
        self.write(self._event(EventType.ERROR, error.status()))

    async def begin(self, beginning: Beginning, end: Iterable[bytes]) -> None:
        """Send the initial events and the lines after them, as fast as the client reads; later events wait."""
        try:
            lines = (self._measured(self._encode(*event)) if event else PAUSE for event in beginning)
            made = pieces(chain(lines, end))
            while (piece := await offload(lambda: next(made, None), is_long=not self._is_plain)) is not None:
                if piece:
                    self._send(piece)
                if not await self._pace.ready() or self.ended.is_set():
                    self._pending.clear()  # useless without the initial events
                    return
        except Exception:
            self._fail()
        self._is_open = True
        self._flush()

    def _measured(self, line: bytes) -> bytes:
        self._sizes.observe(len(line))
        return line

    def end(self) -> None:
        """The cache sends no more events."""
        self.ended.set()

    async def finish(self) -> None:
        """Wait until everything pending is sent, or the connection closes."""
        while self._pending and await self._pace.ready():
            await self._write_long()
            self._flush()

    async def _write_long(self) -> None:
        """Put the next event into its form apart from the loop, if that takes long."""
        async with self._writing:
            if not self._pending or not self._is_long(event := self._pending[0]):
                return
            try:
                line = await offload(lambda: self._encode(*event), is_long=True)
            except Exception:
                self._fail()
                return
            if self._pending and self._pending[0] is event:  # not cut off meanwhile
                self._pending[0] = line
                self._pending_bytes += len(line) - event[1].size

    def _is_long(self, event: _Pending) -> TypeGuard[tuple[EventType, CacheEvent]]:
        return not self._is_plain and not isinstance(event, bytes) and event[1].size > LONG_EVENT_BYTES

    def _turn(self) -> None:
        """The end of a turn of the loop in which events came."""
        self._is_due = False
        if self._backlog_bytes > MAX_BACKLOG_BYTES:
            row = self._version.resource
            self._metrics.terminated.add((row.group, row.plural))
            self._cut_off()
        elif self._is_open:
            self._flush()
        else:
            self._backlog_bytes = self._pending_bytes

    def _flush(self) -> None:
        """Hand over a piece of what waits, if the connection takes it; the rest follows at the client's pace."""
        try:
            if self._pending and self._pace.takes_more and not self._is_long(self._pending[0]):
                self._send(self._piece())
        except Exception:
            self._fail()
        self._backlog_bytes = self._pending_bytes
        if self._pending and (self._draining is None or self._draining.done()):
            self._draining = self._loop.create_task(self.finish())

    def _piece(self) -> bytes:
        """As much of what waits as is sent at once."""
        lines: list[bytes] = []
        size, pending = 0, self._pending
        while pending and size < PIECE_BYTES and not self._is_long(pending[0]):
            event = pending.popleft()
            if isinstance(event, bytes):
                line = event
                self._pending_bytes -= len(line)
            else:
                line = self._encode(*event)
                self._pending_bytes -= event[1].size
            self._sizes.observe(len(line))
            lines.append(line)
            size += len(line)
        return lines[0] if len(lines) == 1 else b"".join(lines)

    def _send(self, data: bytes) -> None:
        if self._transport.is_closing():
            self._cut_off()
        else:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    def _fail(self) -> None:
        """An object that cannot be shown ends the watch, and nothing else."""
        log.exception("a watch of %s ends", self._version.resource.plural, extra=self._request.log_extra)
        self._cut_off()

    def _cut_off(self) -> None:
        """The client would have to read its backlog to hear anything politer."""
        self._transport.abort()
        self._pending.clear()
        self._pending_bytes = self._backlog_bytes = 0
        self.ended.set()

    def _transformer(self, form: MediaTypeOptions) -> Callable[[Obj], Obj] | None:
        if form.transform == TABLE:
            return self._as_table
        return self._show.partial if form.transform else None

    def _encoder(self, version: ServedVersion) -> Callable[[EventType, CacheEvent], bytes]:
        transform, form = self._transform, self._show.form
        if form.transform == TABLE and transform:  # the first line tells the columns, so each watch has its own
            return lambda type_, change: event_line(type_, encode(transform(self._shown(type_, change).obj())))
        if self._is_plain:
            return lambda type_, change: change.line(type_)
        write = event_writer(version.resource, form)
        if version.from_stored:
            return lambda type_, change: write(type_, self._shown(type_, change))
        return lambda type_, change: change.written(type_, write)

    def _event(self, type_: EventType, obj: Obj) -> bytes:
        """An event that is not of the cache."""
        return event_frame(type_, object_message(obj)) if self._is_protobuf else event_line(type_, encode(obj))

    def _as_table(self, obj: Obj) -> Obj:
        table = self._show.row(obj, with_columns=not self._has_columns)
        self._has_columns = True
        return table

    def _shown(self, type_: EventType, change: CacheEvent) -> Encoded:
        return self._version.shown(change.carried(type_))


class Streams:
    """All open watches of a listener, so that they can be ended when it stops."""

    def __init__(self, metrics: WatchMetrics) -> None:
        self._metrics = metrics
        self._open: set[Stream] = set()

    def close(self) -> None:
        """End every watch."""
        for stream in self._open:
            stream.ended.set()

    async def run(self, registry: Registry, served: Served, version: ServedVersion, request: Request) -> None:
        """Answer a watch request until its time is over, the client goes away or the listener stops."""
        info, query = request.info, request.watch_query()
        if request.is_watch:
            check_watch(query, request.query.get("continue", ""))
        else:  # `/watch/…` alone: upstream judges the options as if they were those of a list
            check_list(request.list_query(), has_initial_events="sendInitialEvents" in request.query)
        if info.name:
            query = _of_one(query, info.name)
        out = Stream(served, version, request, self._metrics)
        self._open.add(out)
        listening = asyncio.create_task(_disconnect(request.receive, out))
        try:
            await _stream(out, registry, served, version, query, request)
        finally:
            listening.cancel()
            self._open.discard(out)


async def _disconnect(receive: Receive, out: Stream) -> None:
    """Notice that the client has disconnected, even if there is nothing to write."""
    while (await receive())["type"] != "http.disconnect":
        pass
    out.ended.set()


async def _stream(
    out: Stream,
    registry: Registry,
    served: Served,
    version: ServedVersion,
    query: WatchQuery,
    request: Request,
) -> None:
    send, namespace = request.send, request.info.namespace
    attachment: Attachment | None = None
    beginning: Beginning = iter(())
    try:
        try:
            if query.send_initial_events:  # only the beginning has to be as new as it is asked for
                await wait_for(registry.store, parse_revision(query.resource_version))
            attachment, beginning = await attach(served, version, namespace, query, out.notify, out.end)
        except (Expired, ServerTimeout) as error:
            out.error(error)
        revision = registry.revision
        request.is_streamed = True
        await send({"type": "http.response.start", "status": 200, "headers": out.headers})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await out.begin(beginning, _end_of_beginning(out, query, revision))
        request.on_begun()
        if attachment is not None:
            await _until_over(out, query, registry)
    finally:
        if attachment is not None:
            attachment.close()
    await out.finish()  # nothing is told any more, so nothing can follow the end of the answer
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _end_of_beginning(out: Stream, query: WatchQuery, revision: int) -> Iterator[bytes]:
    """Made when its turn has come: the first line of a table tells its columns."""
    if query.send_initial_events and query.bookmarks:
        yield out.bookmark(revision, ends_initial_events=True)


async def _until_over(out: Stream, query: WatchQuery, registry: Registry) -> None:
    limit = query.timeout_seconds
    if not limit:
        limit = MIN_TIMEOUT_SECONDS * (1 + rng.source().random())
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
    remaining = limit - LAST_BOOKMARK_SECONDS
    while remaining > 0:
        pause = min(BOOKMARK_SECONDS, remaining)
        yield pause
        remaining -= pause


def _of_one(query: WatchQuery, name: str) -> WatchQuery:
    """`/watch/…/NAME`, and a watch on a single object's path."""
    selector = field_selectors.parse(query.fields)
    if selector.is_empty:
        return replace(query, fields=f"metadata.name={name}")
    if selector.exact("metadata.name") != name:
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return query
