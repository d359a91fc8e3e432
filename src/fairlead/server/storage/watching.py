"""Watches: the present state, or the events since a version, and then every event as it is committed.

`attach` is the push form that the HTTP listener uses (one encoded line for a thousand watchers); `events` is the pull
form of the in-process `Api`. Both give the same events in the same order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

import msgspec

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.errors import Expired
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import EventType, WatchEvent, WatchQuery
from fairlead.server.codec.normalise import zero_object
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.storage.cache import Cache
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.converted_events import Beginning, ConvertedEvents
from fairlead.server.storage.entries import CacheEvent, Entry
from fairlead.server.storage.listing import TURN_BYTES, check_watch, parse_revision, wait_for
from fairlead.server.storage.selection import select
from fairlead.server.storage.watchers import Selection, Sink, Watcher, event_type_for
from fairlead.store.base import Store

#: The annotation of the bookmark that ends the initial events (KEP-3157).
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


async def attach(
    served: Served, version: ServedVersion, namespace: str, query: WatchQuery, sink: Sink, end: Callable[[], None]
) -> tuple[Attachment, Beginning]:
    """Call `sink` for every event from now on, until the attachment is closed.

    Returns the initial events too, which the caller sends first; they are made lazily, as they may be many. `end` is
    called if the kind ceases to be served like this. Raises `Expired` if history no longer has the version asked for.
    """
    selection = select(served, version, namespace, query.labels, query.fields)
    conversion = None if version.converter is None else ConvertedEvents(version, selection.converted, sink, end)
    watcher = (
        Watcher(selection, sink, end) if conversion is None else Watcher(selection, conversion.add, conversion.end)
    )
    revision = parse_revision(query.resource_version)
    beginning: Beginning = iter(())
    if _begins_with_state(query):
        beginning = _initial_events(list(served.cache.entries(namespace)), selection)
    elif revision:
        missed = served.cache.since(revision)
        if missed is None:
            raise Expired(f"too old resource version: {revision} ({served.cache.forgotten})")
        beginning = _missed_events(missed, selection)
    served.cache.watch(watcher)
    attachment = Attachment(served.cache, watcher, conversion)
    if conversion is not None:
        try:
            beginning = await conversion.beginning(beginning)
        except BaseException:
            attachment.close()
            raise
    return attachment, beginning


class Attachment(msgspec.Struct, frozen=True):
    """A watch that has begun."""

    cache: Cache
    watcher: Watcher
    conversion: ConvertedEvents | None

    def close(self) -> None:
        self.cache.unwatch(self.watcher)
        if self.conversion is not None:
            self.conversion.close()


def _begins_with_state(query: WatchQuery) -> bool:
    if query.send_initial_events is None:
        return parse_revision(query.resource_version) == 0
    return query.send_initial_events


def _initial_events(entries: list[Entry], selection: Selection) -> Beginning:
    size = 0
    for entry in entries:
        if selection.includes(entry):
            yield EventType.ADDED, CacheEvent(entry.revision, None, entry)
        size += len(entry.raw)
        if size >= TURN_BYTES:
            size = 0
            yield None


def _missed_events(changes: list[CacheEvent], selection: Selection) -> Beginning:
    for change in changes:
        if (type_ := event_type_for(change, selection)) is not None:
            yield type_, change


def bookmark(resource: Resource, revision: int, *, ends_initial_events: bool = False) -> Encoded:
    """An object with nothing but a resourceVersion, and the fields that Go never omits, empty."""
    meta: Obj = {"resourceVersion": str(revision)}
    if ends_initial_events:
        meta["annotations"] = {INITIAL_EVENTS_END: "true"}
    obj: Obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    empty = zero_object(resource.definition) if resource.definition else {}
    return encoded(obj | {key: value for key, value in empty.items() if key not in obj})


async def events(
    served: Served, version: ServedVersion, namespace: str, query: WatchQuery, store: Store
) -> AsyncIterator[WatchEvent]:
    """The watch as an iterator; it ends at its timeout, or when the kind is served differently, or no more."""
    check_watch(query)
    if query.send_initial_events:  # the initial state must be at least as new
        await wait_for(store, parse_revision(query.resource_version))
    pending: deque[tuple[EventType, CacheEvent]] = deque()
    arrived, is_over = asyncio.Event(), False

    def sink(type_: EventType, change: CacheEvent) -> None:
        pending.append((type_, change))
        arrived.set()

    def end() -> None:
        nonlocal is_over
        is_over = True
        arrived.set()

    attachment, beginning = await attach(served, version, namespace, query, sink, end)
    revision, seconds = store.revision, query.timeout_seconds
    timer = asyncio.get_running_loop().call_later(seconds, end) if seconds else None
    try:
        for event in beginning:
            if event is None:
                await asyncio.sleep(0)
                continue
            type_, change = event
            yield WatchEvent(type_, version.shown(change.carried(type_)))
        if query.bookmarks and _begins_with_state(query):
            yield WatchEvent(EventType.BOOKMARK, bookmark(version.resource, revision, ends_initial_events=True))
        while True:
            while pending:
                type_, change = pending.popleft()
                yield WatchEvent(type_, version.shown(change.carried(type_)))
            if is_over:
                return
            arrived.clear()
            await arrived.wait()
    finally:
        if timer is not None:
            timer.cancel()
        attachment.close()
