"""Watches: from what is there, or from a version, and then every change as it is committed.

`attach` is the push form that the HTTP listener uses (one encoded line for a thousand watchers); `events` is the pull
form of the in-process `Api`. Both tell the same story in the same order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.errors import Expired
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import EventType, WatchEvent, WatchQuery
from fairlead.server.cache import Change, Matches, Sink, Watcher
from fairlead.server.listing import check_watch, parse_revision
from fairlead.server.normalise import zero_object
from fairlead.server.selection import matcher
from fairlead.server.served import Served
from fairlead.server.versions import Version

#: The annotation of the bookmark that ends the initial events (KEP-3157).
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def attach(
    served: Served, version: Version, namespace: str, query: WatchQuery, sink: Sink, end: Callable[[], None]
) -> Watcher:
    """Tell `sink` what the watch begins with, then everything that happens; undone by `served.cache.unwatch`.

    `end` is called should the kind cease to be served like this.
    Raises `Expired` if the version asked for is forgotten.
    """
    matches = matcher(served, version, query.labels, query.fields)
    watcher = Watcher(namespace, matches, sink, end)
    revision = parse_revision(query.resource_version)
    if query.send_initial_events or (query.send_initial_events is None and revision == 0):
        _tell_state(served, namespace, matches, sink)
    elif revision:
        missed = served.cache.since(revision)
        if missed is None:
            raise Expired(f"too old resource version: {revision} ({served.cache.forgotten})")
        for change in missed:
            watcher.tell(change)
    served.cache.watch(watcher)
    return watcher


def _tell_state(served: Served, namespace: str, matches: Matches | None, sink: Sink) -> None:
    for entry in served.cache.entries(namespace):
        if matches is None or matches(entry):
            sink(EventType.ADDED, Change(entry.revision, None, entry))


def bookmark(resource: Resource, revision: int, *, ends_initial_events: bool = False) -> Encoded:
    """An object that says nothing but a resourceVersion; what Go always writes of its kind is there, and empty."""
    meta: Obj = {"resourceVersion": str(revision)}
    if ends_initial_events:
        meta["annotations"] = {INITIAL_EVENTS_END: "true"}
    said: Obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
    empty = zero_object(resource.definition) if resource.definition else {}
    return encoded(said | {key: value for key, value in empty.items() if key not in said})


async def events(served: Served, version: Version, namespace: str, query: WatchQuery) -> AsyncIterator[WatchEvent]:
    """The watch as an iterator; it ends only if the kind is served differently, or no more."""
    check_watch(query)
    pending: deque[tuple[EventType, Change]] = deque()
    arrived, is_over = asyncio.Event(), False

    def sink(type_: EventType, change: Change) -> None:
        pending.append((type_, change))
        arrived.set()

    def end() -> None:
        nonlocal is_over
        is_over = True
        arrived.set()

    watcher = attach(served, version, namespace, query, sink, end)
    try:
        while True:
            while pending:
                type_, change = pending.popleft()
                yield WatchEvent(type_, version.shown(change.carried(type_)))
            if is_over:
                return
            arrived.clear()
            await arrived.wait()
    finally:
        served.cache.unwatch(watcher)
