"""Events of kinds that a webhook converts: between the cache, which cannot wait, and a watch, which wants a version.

What comes while a call is under way is converted by the next one, so order is kept. If nobody converts, the watch ends:
whoever watches lists again, and is told why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from fairlead.api.errors import ApiError
from fairlead.api.verbs import EventType
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.storage.entries import CacheEvent, Entry, in_version, tombstone
from fairlead.server.storage.watchers import Matches, Sink

log = logging.getLogger(__name__)

#: The initial events of a watch; None is a point at which to yield to other tasks, for filtering takes time too.
Beginning: TypeAlias = Iterator[tuple[EventType, CacheEvent] | None]
_Event: TypeAlias = tuple[EventType, CacheEvent]

#: How many events may wait for a webhook; a watch that has more ends.
MOST_WAITING: Final = 10_000


class ConvertedEvents:
    """The events of one watch on their way to its sink."""

    def __init__(self, version: ServedVersion, matches: Matches | None, sink: Sink, end: Callable[[], None]) -> None:
        """`matches` selects what was converted; None: all of it."""
        self._version, self._matches, self._sink, self._end = version, matches, sink, end
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
        shown = await self._shown([change.carried(type_) for type_, change in events])
        if self._matches is not None:
            return await self._selected(events, shown, self._matches)
        return [_carrying(type_, change, entry) for (type_, change), entry in zip(events, shown, strict=True)]

    async def _selected(self, events: Sequence[_Event], shown: Sequence[Entry], matches: Matches) -> list[_Event]:
        """As `event_type_for`, of the events that the cache has selected by what nobody converts."""
        changed = [change.old for type_, change in events if type_ is EventType.MODIFIED and change.old is not None]
        before, found = iter(await self._shown(changed)), []
        for (type_, change), entry in zip(events, shown, strict=True):
            old = next(before) if type_ is EventType.MODIFIED else None
            was_there = old is not None and matches(old)
            if matches(entry):
                is_new = old is not None and not was_there
                found.append(_carrying(EventType.ADDED if is_new else type_, change, entry))
            elif old is not None and was_there:
                found.append(_carrying(EventType.DELETED, change, tombstone(old, change.revision)))
        return found

    async def _shown(self, entries: Sequence[Entry]) -> list[Entry]:
        shown = await self._version.present_all(list(entries))
        return [in_version(entry, found) for entry, found in zip(entries, shown, strict=True)]


def _carrying(type_: EventType, change: CacheEvent, converted: Entry) -> _Event:
    """An event of that type with the object in another version."""
    is_gone = type_ is EventType.DELETED
    event = CacheEvent(change.revision, None, None if is_gone else converted)
    if is_gone:
        event.tombstone = converted
    event.size = len(converted.raw)
    return type_, event
