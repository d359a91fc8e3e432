"""Watches: from what is there, or from a version, and then every change as it is committed.

`attach` is the push form that the HTTP listener uses (one encoded line for a thousand watchers); `events` is the pull
form of the in-process `Api`. Both tell the same story in the same order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeAlias

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.errors import Expired
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import EventType, WatchEvent, WatchQuery
from fairlead.server.codec.normalise import zero_object
from fairlead.server.codec.versions import Version
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.entries import Change, Entry
from fairlead.server.storage.listing import TURN_BYTES, check_watch, parse_revision, wait_for
from fairlead.server.storage.selection import select
from fairlead.server.storage.watchers import Selection, Sink, Watcher, seen
from fairlead.store.base import Store

#: The annotation of the bookmark that ends the initial events (KEP-3157).
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


#: What a watch begins with; None where others should have a turn, for what does not match costs time as well.
Beginning: TypeAlias = Iterator[tuple[EventType, Change] | None]


def attach(
    served: Served, version: Version, namespace: str, query: WatchQuery, sink: Sink, end: Callable[[], None]
) -> tuple[Watcher, Beginning]:
    """Tell `sink` everything that happens from now on; undone by `served.cache.unwatch`.

    What the watch begins with comes back, for the caller to tell before: it may be large, so it is made when it is
    taken. `end` is called should the kind cease to be served like this.
    Raises `Expired` if the version asked for is forgotten.
    """
    selection = select(served, version, namespace, query.labels, query.fields)
    watcher = Watcher(selection, sink, end)
    revision = parse_revision(query.resource_version)
    beginning: Beginning = iter(())
    if _begins_with_state(query):
        beginning = _state(list(served.cache.entries(namespace)), selection)
    elif revision:
        missed = served.cache.since(revision)
        if missed is None:
            raise Expired(f"too old resource version: {revision} ({served.cache.forgotten})")
        beginning = _seen(missed, selection)
    served.cache.watch(watcher)
    return watcher, beginning


def _begins_with_state(query: WatchQuery) -> bool:
    if query.send_initial_events is None:
        return parse_revision(query.resource_version) == 0
    return query.send_initial_events


def _state(entries: list[Entry], selection: Selection) -> Beginning:
    size = 0
    for entry in entries:
        if selection.includes(entry):
            yield EventType.ADDED, Change(entry.revision, None, entry)
        size += len(entry.raw)
        if size >= TURN_BYTES:
            size = 0
            yield None


def _seen(changes: list[Change], selection: Selection) -> Beginning:
    for change in changes:
        if (type_ := seen(change, selection)) is not None:
            yield type_, change


def bookmark(resource: Resource, revision: int, *, ends_initial_events: bool = False) -> Encoded:
    """An object that says nothing but a resourceVersion; what Go always writes of its kind is there, and empty."""
    meta: Obj = {"resourceVersion": str(revision)}
    if ends_initial_events:
        meta["annotations"] = {INITIAL_EVENTS_END: "true"}
    said: Obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    empty = zero_object(resource.definition) if resource.definition else {}
    return encoded(said | {key: value for key, value in empty.items() if key not in said})


async def events(
    served: Served, version: Version, namespace: str, query: WatchQuery, store: Store
) -> AsyncIterator[WatchEvent]:
    """The watch as an iterator; it ends when its time is over, or the kind is served differently, or no more."""
    check_watch(query)
    if query.send_initial_events:  # only the beginning has to be as new as it is asked for
        await wait_for(store, parse_revision(query.resource_version))
    pending: deque[tuple[EventType, Change]] = deque()
    arrived, is_over = asyncio.Event(), False

    def sink(type_: EventType, change: Change) -> None:
        pending.append((type_, change))
        arrived.set()

    def end() -> None:
        nonlocal is_over
        is_over = True
        arrived.set()

    watcher, beginning = attach(served, version, namespace, query, sink, end)
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
        served.cache.unwatch(watcher)
