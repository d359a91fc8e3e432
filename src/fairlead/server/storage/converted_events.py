"""Events of kinds that a webhook converts: between the cache, which cannot wait, and a watch, which wants a version.

What comes while a call is under way is converted by the next one, so order is kept. If nobody converts, the watch ends:
whoever watches lists again, and is told why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from fairlead.api.encoded import Encoded
from fairlead.api.errors import ApiError
from fairlead.api.verbs import EventType
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.storage.entries import CacheEvent, Entry
from fairlead.server.storage.watchers import Sink

log = logging.getLogger(__name__)

#: The initial events of a watch; None is a point at which to yield to other tasks, for filtering takes time too.
Beginning: TypeAlias = Iterator[tuple[EventType, CacheEvent] | None]
_Event: TypeAlias = tuple[EventType, CacheEvent]

#: How many events may wait for a webhook; a watch that has more ends.
MOST_WAITING: Final = 10_000


class ConvertedEvents:
    """The events of one watch on their way to its sink."""

    def __init__(self, version: ServedVersion, sink: Sink, end: Callable[[], None]) -> None:
        self._version, self._sink, self._end = version, sink, end
        self._waiting: list[_Event] = []
        self._is_ending = False
        self._task: asyncio.Task[None] | None = None

    async def beginning(self, events: Beginning) -> Beginning:
        """The initial events, converted before the watch begins. Raises the error of the webhook."""
        found = []
        for event in events:
            if event is None:
                await asyncio.sleep(0)
            else:
                found.append(event)
        return iter(await self._converted(found))

    def add(self, type_: EventType, change: CacheEvent) -> None:
        """The sink of the cache."""
        self._waiting.append((type_, change))
        if len(self._waiting) > MOST_WAITING:
            self.close()
            self._end()
        else:
            self._start()

    def end(self) -> None:
        """The cache sends no more events; what came before goes first."""
        self._is_ending = True
        self._start()

    def close(self) -> None:
        """Nobody watches any more."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                events, self._waiting = self._waiting, []
                for type_, change in await self._converted(events):
                    self._sink(type_, change)
        except ApiError as error:
            log.warning("a watch of %s ends: %s", self._version.resource.plural, error.message)
            self._is_ending = True
        if self._is_ending:
            self._end()

    async def _converted(self, events: Sequence[_Event]) -> list[_Event]:
        entries: list[Encoded] = [change.carried(type_) for type_, change in events]
        shown = await self._version.present_all(entries)
        return [(type_, _carrying(type_, change, obj.raw)) for (type_, change), obj in zip(events, shown, strict=True)]


def _carrying(type_: EventType, change: CacheEvent, raw: bytes) -> CacheEvent:
    """An event of that type with the object in another version."""
    entry = change.carried(type_)
    converted = Entry(raw, entry.namespace, entry.name, change.revision)
    is_gone = type_ is EventType.DELETED
    event = CacheEvent(change.revision, None, None if is_gone else converted)
    if is_gone:
        event.tombstone = converted
    event.size = len(raw)
    return event
