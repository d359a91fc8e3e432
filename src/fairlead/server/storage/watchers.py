"""Who is told of a change: watchers by what must be equal for them to care.

A watch of one node's pods, of one object or of one namespace asks for equality. Watchers that ask for the same fields
make an index, and a change is looked up in it by what the object was and by what it is, for it may leave a selection:
thousands of watchers of other nodes cost it nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from fairlead.api.verbs import EventType
from fairlead.server.storage.entries import Change, Entry

Matches: TypeAlias = Callable[[Entry], bool]
Sink: TypeAlias = Callable[[EventType, Change], None]


class Equal(NamedTuple):
    """A field that must have a value."""

    field: str
    read: Callable[[Entry], str]
    value: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind are asked for: those of a namespace (`""`: of all) that match."""

    namespace: str = ""
    matches: Matches | None = None  # None: all of them
    #: What `matches` demands to be equal.
    equal: tuple[Equal, ...] = ()

    def includes(self, entry: Entry) -> bool:
        if self.namespace and entry.namespace != self.namespace:
            return False
        return self.matches is None or self.matches(entry)

    def exact(self, field: str) -> str | None:
        """The value that the field must have, if one is demanded."""
        return next((one.value for one in self.equal if one.field == field), None)


EVERYTHING: Final = Selection()


class Watcher:
    """Somebody who is told about a kind. `sink` is called in order and must not block; `end` when that is all."""

    __slots__ = ("end", "selection", "sink")

    def __init__(self, selection: Selection, sink: Sink, end: Callable[[], None]) -> None:
        self.selection, self.sink, self.end = selection, sink, end

    def tell(self, change: Change) -> None:
        type_ = seen(change, self.selection)
        if type_ is not None:
            self.sink(type_, change)


def seen(change: Change, selection: Selection) -> EventType | None:
    """What a change is to somebody who sees a selection: what begins to match is ADDED, what ceases DELETED."""
    was = change.old is not None and selection.includes(change.old)
    if change.new is not None and selection.includes(change.new):
        return EventType.MODIFIED if was else EventType.ADDED
    return EventType.DELETED if was else None


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
        fields = tuple(one.field for one in equal)
        index = self._indexes.get(fields)
        if index is None:
            index = self._indexes[fields] = _Index(equal)
        index.add(watcher)
        self._count += 1

    def discard(self, watcher: Watcher) -> None:
        fields = tuple(one.field for one in watcher.selection.equal)
        index = self._indexes.get(fields)
        if index is not None and index.discard(watcher):
            self._count -= 1
            if not index:
                del self._indexes[fields]

    def interested(self, change: Change) -> list[Watcher]:
        """Everybody to whom the change may mean something."""
        found: list[Watcher] = []
        for index in self._indexes.values():
            index.collect(change, found)
        return found


class _Index:
    """The watchers that ask for the same fields, by namespace and the values of these."""

    def __init__(self, equal: tuple[Equal, ...]) -> None:
        self._reads = tuple(one.read for one in equal)
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

    def collect(self, change: Change, found: list[Watcher]) -> None:
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
    return selection.namespace, *(one.value for one in selection.equal)
