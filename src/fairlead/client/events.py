"""Events are how a component tells people what it did; nothing may depend on one being written.

A recorder queues an event without waiting and a task of its own writes them in order, so that a slow or refusing
server never slows a decision down. What repeats is counted instead of written again, in one of two styles:

- `EventRecorder` writes as client-go's tools/record does: `count` grows in place, from the tenth similar event on they
  are combined, and a source that talks too much about one object is silenced for a while.
- `SeriesRecorder` writes as client-go's tools/events does (kube-scheduler): no count, but a `series`.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from fairlead.api import builtin
from fairlead.api.encoded import Encoded, encode
from fairlead.api.errors import AlreadyExists, ApiError, NotFound, is_namespace_terminating
from fairlead.api.meta import Object
from fairlead.api.names import SUBDOMAIN_MAX
from fairlead.api.objects import Obj
from fairlead.api.references import Reference, reference
from fairlead.api.verbs import Api, PatchType
from fairlead.caches import LruCache
from fairlead.runtime import clock, rng
from fairlead.runtime.token_bucket import TokenBucket
from fairlead.runtime.turns import in_turns

#: tools/record/event.go: what is waiting beyond this is dropped, and a server that is away is tried this often.
LONGEST_QUEUE = 10_000
TRIES = 12
RETRY_SECONDS = 10.0

#: tools/record/events_cache.go.
REMEMBERED = 4096
SIMILAR_EVENTS = 10
SIMILAR_SECONDS = 600.0
#: How the message of one begins that stands for several, in client-go.
COMBINED = "(combined from similar events): "
SPAM_BURST = 25.0
SPAM_REFILL_PER_SECOND = 1 / 300

#: tools/events/event_broadcaster.go.
SERIES_FINISH_SECONDS = 360.0
ROUNDS_PER_REFRESH = 5  # every half hour

log = logging.getLogger(__name__)

#: The reasons whose events are told; None: all are.
_told: ContextVar[frozenset[str] | None] = ContextVar("told reasons", default=None)


@contextmanager
def telling_only(reasons: Iterable[str]) -> Iterator[None]:
    """Recorders made while the block runs tell the events of these reasons alone.

    For a run whose other events nobody can read: they are half of all that is written about a pod.
    """
    token = _told.set(frozenset(reasons))
    try:
        yield
    finally:
        _told.reset(token)


class EventRecord(msgspec.Struct, frozen=True):
    """One thing to tell, as it was when it happened."""

    regarding: Reference
    type: str
    reason: str
    message: str
    action: str
    related: Reference | None
    at: float
    name: str
    component: str
    host: str
    annotations: dict[str, str] = {}

    @property
    def namespace(self) -> str:
        return self.regarding.namespace or "default"


class Recorder:
    """The queue that both styles share; `run` must be running for anything to be written."""

    def __init__(self, api: Api, component: str, *, host: str = "") -> None:
        self._api, self._component, self._host = api, component, host
        self._names = _Names(component)
        self._told = _told.get()
        self._queue: deque[EventRecord] = deque()
        self._dropped = 0
        self._ready = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def event(
        self,
        obj: Object | Reference,
        type_: str,
        reason: str,
        message: str,
        *,
        action: str = "",
        related: Object | Reference | None = None,
        component: str = "",
        host: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Queue an event about an object; never waits, never fails.

        `component` and `host` may speak in the recorder's place.
        """
        if self._told is not None and reason not in self._told:
            return
        regarding, about = _as_reference(obj), None if related is None else _as_reference(related)
        if self._is_counted(regarding, about, type_, reason, action):
            return
        if len(self._queue) >= LONGEST_QUEUE:
            if not self._dropped:  # once, however many: told again when there is room
                log.error("too many queued events, dropping %s and what follows", reason)
            self._dropped += 1
            return
        at = clock.now()
        name = self._names.next(regarding.name, at)
        who, annotated = (component or self._component, host or self._host), dict(annotations or {})
        self._queue.append(EventRecord(regarding, type_, reason, message, action, about, at, name, *who, annotated))
        self._idle.clear()
        self._ready.set()

    def _is_counted(
        self, regarding: Reference, related: Reference | None, type_: str, reason: str, action: str
    ) -> bool:
        """Whether an event that repeats another needs no record of its own."""
        return False

    async def flushed(self) -> None:
        """Return once everything said so far is written or given up."""
        await self._idle.wait()

    async def run(self) -> None:
        """Write what is queued; returns only by cancellation."""
        while True:
            while self._queue:
                await self._record(self._queue.popleft())
            self._idle.set()
            if self._dropped:
                log.error("dropped %d events", self._dropped)
                self._dropped = 0
            self._ready.clear()
            await self._ready.wait()

    async def _record(self, record: EventRecord) -> None:
        raise NotImplementedError

    async def _write(self, event: Obj, patch: Obj | None = None) -> None:
        """Create the event, or patch the one that is there; what the server refuses is lost."""
        for attempt in range(TRIES):
            try:
                await self._send(event, patch)
                return
            except ApiError as error:
                log.log(_refusal_level(error), "server rejected event %s: %s", event["metadata"]["name"], error)
                return
            except OSError as error:
                log.warning("unable to write event (may retry after sleeping): %s", error)
            await asyncio.sleep(RETRY_SECONDS * (rng.source().random() if attempt == 0 else 1.0))

    async def _send(self, event: Obj, patch: Obj | None) -> Encoded:
        meta, api = event["metadata"], self._api_of(event)
        if patch is not None:
            try:
                return await api.patch(builtin.EVENTS, meta["name"], meta["namespace"], patch, PatchType.STRATEGIC)
            except NotFound:
                log.debug("event %s is gone, creating it again", meta["name"])
        return await api.create(builtin.EVENTS, event, meta["namespace"])

    def _api_of(self, event: Obj) -> Api:
        """In whose name the event is written."""
        return self._api

    def _new(self, record: EventRecord) -> Obj:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": record.name, "namespace": record.namespace},
            "involvedObject": record.regarding.encode(),
            "reason": record.reason,
            "message": record.message,
            "type": record.type,
        }


class EventRecorder(Recorder):
    """Counts repeats, combines what is similar, and silences what is too much (tools/record)."""

    def __init__(self, api: Api, component: str, *, host: str = "") -> None:
        super().__init__(api, component, host=host)
        self._similar: LruCache[Hashable, _Similar] = LruCache(REMEMBERED)
        self._seen: LruCache[Hashable, _Seen] = LruCache(REMEMBERED)
        self._limits: LruCache[Hashable, TokenBucket] = LruCache(REMEMBERED)

    async def _record(self, record: EventRecord) -> None:
        key, message = self._combined(record)
        seen = self._seen.get(key) or _Seen(record.name, record.at)
        self._seen.put(key, seen)
        seen.count += 1
        if not self._is_allowed(record):
            return
        event = self._counted(record, message, seen)
        again = {"count": seen.count, "lastTimestamp": event["lastTimestamp"], "message": message}
        await self._write(event, again if seen.count > 1 else None)

    def _combined(self, record: EventRecord) -> tuple[Hashable, str]:
        """The key under which to count, and the message; both general once there are many similar events."""
        group = (_identity(record.regarding), record.type, record.reason)
        similar = self._similar.get(group)
        if similar is None or record.at - similar.last > SIMILAR_SECONDS:
            similar = _Similar()
        self._similar.put(group, similar)
        similar.last = record.at
        similar.messages[record.message] = None
        if len(similar.messages) < SIMILAR_EVENTS:
            return (*group, record.regarding.field_path, record.message), record.message
        similar.messages.popitem(last=False)
        return group, COMBINED + record.message

    def _is_allowed(self, record: EventRecord) -> bool:
        who = (_identity(record.regarding), record.type)
        limit = self._limits.get(who) or TokenBucket(SPAM_REFILL_PER_SECOND, SPAM_BURST, record.at)
        self._limits.put(who, limit)
        return limit.take(record.at)

    def _counted(self, record: EventRecord, message: str, seen: _Seen) -> Obj:
        source = {"component": record.component} | ({"host": record.host} if record.host else {})
        return self._new(record) | {
            "metadata": _annotated({"name": seen.name, "namespace": record.namespace}, record),
            "message": message,
            "source": source,
            "firstTimestamp": clock.timestamp(seen.first),
            "lastTimestamp": clock.timestamp(record.at),
            "count": seen.count,
            "eventTime": None,
            "reportingComponent": record.component,
            "reportingInstance": record.host,
        }


class SeriesRecorder(Recorder):
    """Makes a series of what repeats (tools/events), written through core/v1, where the same fields exist.

    `host` is where the component runs: `reportingInstance` names it.
    """

    def __init__(self, api: Api, component: str, *, host: str) -> None:
        super().__init__(api, component, host=host)
        self._seen: dict[Hashable, _Series] = {}
        self._began = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name=f"events of {self._component}")
            group.create_task(self._tend(), name=f"event series of {self._component}")

    def _is_counted(
        self, regarding: Reference, related: Reference | None, type_: str, reason: str, action: str
    ) -> bool:
        """`_tend` will write the repeats of a series: of thousands that wait there are many."""
        series = self._seen.get((regarding, related, type_, reason, action))
        if series is None or series.count < 2:
            return False
        series.count += 1
        series.last = clock.now()
        return True

    async def _record(self, record: EventRecord) -> None:
        key = (record.regarding, record.related, record.type, record.reason, record.action)
        series = self._seen.get(key)
        if series is None:
            event = self._first(record)
            self._seen[key] = _Series(encode(event), record.at)
            self._began.set()
            await self._write(event)
            return
        series.count += 1
        series.last = max(series.last, record.at)
        if series.count == 2:  # later ones are written by `_tend`
            await self._write_series(series)

    async def _tend(self) -> None:
        """Write the counts of running series now and then, and forget those that have ended."""
        began, round_ = clock.monotonic(), 0
        while True:
            while not self._seen:  # rounds in which nothing was said are left out, but counted
                self._began.clear()
                await self._began.wait()
            round_ = max(round_, int((clock.monotonic() - began) // SERIES_FINISH_SECONDS)) + 1
            await asyncio.sleep(began + round_ * SERIES_FINISH_SECONDS - clock.monotonic())
            now = clock.now()
            is_refresh = round_ % ROUNDS_PER_REFRESH == 0
            async for key, series in in_turns(list(self._seen.items())):
                is_over = series.last < now - SERIES_FINISH_SECONDS
                if is_over:
                    del self._seen[key]
                if series.count > 1 and (is_over or is_refresh):
                    await self._write_series(series)

    async def _write_series(self, series: _Series) -> None:
        series_fields = {"count": series.count, "lastObservedTime": clock.micro_timestamp(series.last)}
        await self._write(Encoded(series.event).obj() | {"series": series_fields}, {"series": series_fields})

    def _first(self, record: EventRecord) -> Obj:
        event = self._new(record) | {
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": clock.micro_timestamp(record.at),
            "action": record.action,
            "reportingComponent": record.component,
            "reportingInstance": f"{record.component}-{self._host}",
        }
        if record.related is not None:
            event["related"] = record.related.encode()
        return event


class _Similar(msgspec.Struct):
    last: float = 0.0
    messages: OrderedDict[str, None] = msgspec.field(default_factory=OrderedDict)


class _Seen(msgspec.Struct):
    name: str
    first: float
    count: int = 0


class _Series(msgspec.Struct, gc=False):
    event: bytes  # its first, encoded: thousands may never be told again
    last: float
    count: int = 1


def _annotated(metadata: Obj, record: EventRecord) -> Obj:
    return metadata | {"annotations": record.annotations} if record.annotations else metadata


def _as_reference(obj: Object | Reference) -> Reference:
    return obj if isinstance(obj, Reference) else reference(obj)


def _identity(about: Reference) -> Hashable:
    """What stays the same while an object changes."""
    return about.kind, about.api_version, about.namespace, about.name, about.uid


class _Names:
    """`<object>.<nanoseconds in hex>`, never the same twice even where time stands still.

    The digits that a clock does not have differ between components, which may speak about one object at once.
    """

    def __init__(self, component: str) -> None:
        self._offset = zlib.crc32(component.encode()) % 1000
        self._last = 0

    def next(self, about: str, at: float) -> str:
        self._last = max(int(at * 1e6) * 1000 + self._offset, self._last + 1)
        made = f"{about}.{self._last:x}"
        return made if len(made) <= SUBDOMAIN_MAX else rng.uid()


def _refusal_level(error: ApiError) -> int:
    """A namespace that goes, or is gone, refuses events as a matter of course."""
    is_gone = isinstance(error, NotFound) and error.details["kind"] == builtin.NAMESPACES.plural
    expected = isinstance(error, AlreadyExists) or is_gone or is_namespace_terminating(error)
    return logging.DEBUG if expected else logging.WARNING
