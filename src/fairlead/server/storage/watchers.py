"""Which watchers get an event: an index by the field values that their selectors require.

A watch of one node's pods, of one object or of one namespace requires a value of a field. Watchers of the same fields
share an index, in which an event is looked up by their old and new values (the object may leave a selection).
So thousands of watchers of other nodes cost an event nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

import msgspec

from fairlead.api.verbs import EventType
from fairlead.server.storage.entries import CacheEvent, Entry

Matches: TypeAlias = Callable[[Entry], bool]
Sink: TypeAlias = Callable[[EventType, CacheEvent], None]


class Equal(NamedTuple):
    """A field and the value that it must have."""

    field: str
    read: Callable[[Entry], str]
    value: str


class Selection(msgspec.Struct, frozen=True):
    """Which objects of a kind a watch or list wants: those of a namespace (`""`: of all) that match."""

    namespace: str = ""
    matches: Matches | None = None  # None: all of them
    #: The equalities among the conditions of `matches`.
    equal: tuple[Equal, ...] = ()
    #: What else must hold of them in the version that is asked for, where somebody else converts them to it.
    converted: Matches | None = None

    def includes(self, entry: Entry) -> bool:
        if self.namespace and entry.namespace != self.namespace:
            return False
        return self.matches is None or self.matches(entry)

    def exact(self, field: str) -> str | None:
        """The value that the field must have; None if any will do."""
        return next((term.value for term in self.equal if term.field == field), None)


EVERYTHING: Final = Selection()


class Watcher:
    """A watch of a kind. `sink` is called for each event in order, and must not block; `end` when there are no more."""

    __slots__ = ("end", "selection", "sink")

    def __init__(self, selection: Selection, sink: Sink, end: Callable[[], None]) -> None:
        self.selection, self.sink, self.end = selection, sink, end

    def notify(self, change: CacheEvent) -> None:
        type_ = event_type_for(change, self.selection)
        if type_ is not None:
            self.sink(type_, change)


def event_type_for(change: CacheEvent, selection: Selection) -> EventType | None:
    """The type of the event for a watcher: an object that begins to match is ADDED, one that ceases to is DELETED."""
    matched = change.old is not None and selection.includes(change.old)
    if change.new is not None and selection.includes(change.new):
        return EventType.MODIFIED if matched else EventType.ADDED
    return EventType.DELETED if matched else None


class Watchers:
    """All watchers of a kind."""

    def __init__(self) -> None:
        self._indexes: dict[tuple[str, ...], _Index] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Watcher]:
        for index in self._indexes.values():
            yield from index

    def add(self, watcher: Watcher) -> None:
        equal = watcher.selection.equal
        fields = tuple(term.field for term in equal)
        index = self._indexes.get(fields)
        if index is None:
            index = self._indexes[fields] = _Index(equal)
        index.add(watcher)
        self._count += 1

    def discard(self, watcher: Watcher) -> None:
        fields = tuple(term.field for term in watcher.selection.equal)
        index = self._indexes.get(fields)
        if index is not None and index.discard(watcher):
            self._count -= 1
            if not index:
                del self._indexes[fields]

    def interested(self, change: CacheEvent) -> list[Watcher]:
        """The watchers that may select the object, before or after."""
        found: list[Watcher] = []
        for index in self._indexes.values():
            index.collect(change, found)
        return found


class _Index:
    """The watchers of the same fields, by namespace and the values of these."""

    def __init__(self, equal: tuple[Equal, ...]) -> None:
        self._reads = tuple(term.read for term in equal)
        self._buckets: dict[tuple[str, ...], dict[Watcher, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._buckets)

    def __iter__(self) -> Iterator[Watcher]:
        for bucket in self._buckets.values():
            yield from bucket

    def add(self, watcher: Watcher) -> None:
        self._buckets.setdefault(_key(watcher), {})[watcher] = None

    def discard(self, watcher: Watcher) -> bool:
        """Whether it was there."""
        bucket = self._buckets.get(key := _key(watcher), {})
        was_there = bucket.pop(watcher, self) is None
        if was_there and not bucket:
            del self._buckets[key]
        return was_there

    def collect(self, change: CacheEvent, found: list[Watcher]) -> None:
        keys: dict[tuple[str, ...], None] = {}
        for entry in (change.old, change.new):
            if entry is not None:
                values = [read(entry) for read in self._reads]
                keys[entry.namespace, *values] = keys["", *values] = None
        for key in keys:
            if (bucket := self._buckets.get(key)) is not None:
                found += bucket


def _key(watcher: Watcher) -> tuple[str, ...]:
    selection = watcher.selection
    return selection.namespace, *(term.value for term in selection.equal)
