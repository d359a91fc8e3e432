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
from functools import partial
from itertools import chain
from typing import Final, TypeAlias, TypeGuard

from msgspec.structs import replace

from fairlead.api import field_selectors
from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import ApiError, BadRequest, Expired, ServerTimeout
from fairlead.api.objects import Obj
from fairlead.api.verbs import EventType, WatchQuery
from fairlead.runtime import rng
from fairlead.runtime.flag import Flag
from fairlead.runtime.http.exchange import Send, framing
from fairlead.runtime.http.pieces import PAUSE, PIECE_BYTES, Pace, pieces
from fairlead.runtime.http.protocol import TRANSPORT, WHEN_GONE
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
#: An empty queue takes 760 bytes, so all watches that have nothing to send share this one.
_NOTHING: Final[deque[_Pending]] = deque()

_HEADERS = [(b"cache-control", b"no-cache, private")]


class Stream:
    """One watch on one connection."""

    __slots__ = (
        "_backlog_bytes",
        "_draining",
        "_encode",
        "_has_columns",
        "_is_chunked",
        "_is_due",
        "_is_open",
        "_is_plain",
        "_is_protobuf",
        "_log_extra",
        "_loop",
        "_metrics",
        "_pace",
        "_pending",
        "_pending_bytes",
        "_show",
        "_sizes",
        "_transform",
        "_transport",
        "_version",
        "_writing",
        "ended",
    )

    def __init__(self, served: Served, version: ServedVersion, request: Request, metrics: WatchMetrics) -> None:
        self._version, self._metrics = version, metrics
        row = version.resource
        self._sizes = metrics.sizes(row.group, row.version, row.plural)
        self._show = Presenter(served, version, request)
        check_stream(self._show.form)
        self._transport: asyncio.Transport = request.scope[TRANSPORT]
        self._pace, self._log_extra = Pace(request.scope), request.log_extra
        self._is_chunked = _framing(request)[0] == b"transfer-encoding"
        self._is_protobuf = self._show.form.media_type == PROTOBUF
        self._is_plain = self._show.form.is_json_object and not version.from_stored
        self._transform = self._transformer(self._show.form)
        self._encode = self._encoder(version)
        self._loop = asyncio.get_running_loop()
        self._has_columns = False
        #: Unsent events of the cache, and lines of our own; and about how many bytes they are.
        self._pending = _NOTHING
        self._pending_bytes = 0
        self._backlog_bytes = 0  # what was left unsent by the last attempt
        self._is_due = False
        self._draining: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self._is_open = False
        self.ended = Flag()

    def headers(self, request: Request) -> list[tuple[bytes, bytes]]:
        """Those of the answer."""
        content_type = (b"content-type", self._show.form.stream_type.encode())
        return [content_type, *_HEADERS, *request.headers_out, _framing(request)]

    def notify(self, type_: EventType, change: CacheEvent) -> None:
        """The sink of the cache. Events are sent at the end of this turn of the loop."""
        self._wait((type_, change))
        self._pending_bytes += change.size
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn)

    def mark(self, revision: int) -> None:
        """Send a bookmark."""
        self.write(self.bookmark(revision))

    def write(self, line: bytes) -> None:
        """Send a line that is not an event of the cache."""
        self._wait(line)
        self._pending_bytes += len(line)
        if self._is_open:
            self._flush()

    def _wait(self, event: _Pending) -> None:
        if self._pending is _NOTHING:
            self._pending = deque()
        self._pending.append(event)

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
        """There will be no more events, or nobody who gets them."""
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
        if not self._pending:
            self._pending = _NOTHING
        elif self._draining is None or self._draining.done():
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
        log.exception("a watch of %s ends", self._version.resource.plural, extra=self._log_extra)
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
            stream.end()

    async def run(self, registry: Registry, served: Served, version: ServedVersion, request: Request) -> None:
        """Begin to answer a watch; its `rest` lasts until its time is over, the client goes, or the listener stops."""
        info, query = request.info, request.watch_query()
        if request.is_watch:
            check_watch(query, request.query.get("continue", ""))
        else:  # `/watch/…` alone: upstream judges the options as if they were those of a list
            check_list(request.list_query(), has_initial_events="sendInitialEvents" in request.query)
        if info.name:
            query = _of_one(query, info.name)
        out = Stream(served, version, request, self._metrics)
        self._open.add(out)
        request.scope[WHEN_GONE](out.end)
        try:
            attachment = await _begun(out, registry, served, version, query, request)
        except BaseException:
            self._open.discard(out)
            raise
        clock = None if attachment is None else _Clock(out, registry, query)
        request.rest = partial(self._rest, out, attachment, clock, request.send)

    async def _rest(self, out: Stream, attachment: Attachment | None, clock: _Clock | None, send: Send) -> None:
        """Until it is over; whatever an idle watch holds is held by thousands."""
        try:
            if attachment is not None and clock is not None:
                try:
                    clock.wind()
                    await out.ended.wait()
                finally:
                    clock.stop()
                    attachment.close()
            await out.finish()  # nothing is told any more, so nothing can follow the end of the answer
        finally:
            self._open.discard(out)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _begun(
    out: Stream,
    registry: Registry,
    served: Served,
    version: ServedVersion,
    query: WatchQuery,
    request: Request,
) -> Attachment | None:
    """Begin the answer; what is returned brings more. None: there is none."""
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
        await send({"type": "http.response.start", "status": 200, "headers": out.headers(request)})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await out.begin(beginning, _end_of_beginning(out, query, revision))
        request.on_begun()
    except BaseException:
        if attachment is not None:
            attachment.close()
        raise
    return attachment


def _end_of_beginning(out: Stream, query: WatchQuery, revision: int) -> Iterator[bytes]:
    """Made when its turn has come: the first line of a table tells its columns."""
    if query.send_initial_events and query.bookmarks:
        yield out.bookmark(revision, ends_initial_events=True)


class _Clock:
    """Ends a watch in time. Marks now and then how far it has come, and shortly before: the next begins there."""

    __slots__ = ("_left", "_out", "_registry", "_timer", "_wants_marks")

    def __init__(self, out: Stream, registry: Registry, query: WatchQuery) -> None:
        self._out, self._registry, self._wants_marks = out, registry, query.bookmarks
        self._left = query.timeout_seconds or MIN_TIMEOUT_SECONDS * (1 + rng.source().random())
        self._timer: asyncio.TimerHandle | None = None

    def wind(self) -> None:
        """Set the timer for what comes next."""
        loop, until_last = asyncio.get_running_loop(), self._left - LAST_BOOKMARK_SECONDS
        if self._wants_marks and until_last > 0:
            pause = min(BOOKMARK_SECONDS, until_last)
            self._left -= pause
            self._timer = loop.call_later(pause, self._mark)
        else:
            self._timer = loop.call_later(self._left, self._out.end)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _mark(self) -> None:
        self._out.mark(self._registry.revision)
        self.wind()


def _framing(request: Request) -> tuple[bytes, bytes]:
    return framing(None, request.scope["http_version"])


def _of_one(query: WatchQuery, name: str) -> WatchQuery:
    """`/watch/…/NAME`, and a watch on a single object's path."""
    selector = field_selectors.parse(query.fields)
    if selector.is_empty:
        return replace(query, fields=f"metadata.name={name}")
    if selector.exact("metadata.name") != name:
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return query
