"""What the watch cache holds: versions of objects, and the events between them.

An event is encoded once for all watchers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from fairlead.api.encoded import Encoded, restamped
from fairlead.api.objects import Obj
from fairlead.api.verbs import EventType


class _Labels(msgspec.Struct):
    labels: dict[str, str] = {}


class _LabelView(msgspec.Struct):
    metadata: _Labels


_labels_of = msgspec.json.Decoder(_LabelView).decode


class Entry(Encoded):
    """One version of one object in the cache."""

    namespace: str
    name: str
    revision: int
    _labels: dict[str, str] | None = None
    _fields: dict[str, str] | None = None

    @property
    def labels(self) -> dict[str, str]:
        if self._labels is None:
            self._labels = _labels_of(self.raw).metadata.labels
        return self._labels

    def field(self, name: str, read: Callable[[Obj], str]) -> str:
        """A selectable field, read off the object once however many watchers ask for it."""
        if self._fields is None:
            self._fields = {}
        found = self._fields.get(name)
        if found is None:
            found = self._fields[name] = read(self.obj())
        return found


#: Writes an event of a type with an object as a watch sends it.
EventWriter: TypeAlias = Callable[[EventType, Encoded], bytes]


def in_version(entry: Entry, shown: Encoded) -> Entry:
    """What an entry is shown as in another version, as an entry itself."""
    return shown if isinstance(shown, Entry) else Entry(shown.raw, entry.namespace, entry.name, entry.revision)


class CacheEvent:
    """A committed change of one object: its state before (None: created) and after (None: deleted)."""

    __slots__ = ("_lines", "_written", "new", "old", "revision", "size", "tombstone")

    def __init__(self, revision: int, old: Entry | None, new: Entry | None) -> None:
        self.revision, self.old, self.new = revision, old, new
        last = new or old
        self.size = len(last.raw) if last else 0  # of its line, about
        self.tombstone = None if new or not old else tombstone(old, revision)
        self._lines: dict[EventType, bytes] = {}
        self._written: dict[tuple[EventType, EventWriter], bytes] = {}

    def line(self, type_: EventType) -> bytes:
        """The event as a line of a JSON watch stream, encoded once for all watchers."""
        line = self._lines.get(type_)
        if line is None:
            line = self._lines[type_] = event_line(type_, self.carried(type_).raw)
        return line

    def written(self, type_: EventType, write: EventWriter) -> bytes:
        """The event in another form, written once for all watchers whose writer this is."""
        event = self._written.get((type_, write))
        if event is None:
            event = self._written[type_, write] = write(type_, self.carried(type_))
        return event

    def carried(self, type_: EventType) -> Entry:
        """The object that an event of this type carries: the last state, at the revision of the event."""
        if type_ is not EventType.DELETED:
            assert self.new is not None
            return self.new
        if self.tombstone is None:  # it still exists, but a selector no longer matches
            assert self.old is not None
            self.tombstone = tombstone(self.old, self.revision)
        return self.tombstone


def tombstone(last: Entry, revision: int) -> Entry:
    """The last state of an object under the revision of its deletion, as etcd's watch gives it."""
    return Entry(restamped(last.raw, last.revision, revision), last.namespace, last.name, revision)


def event_line(type_: EventType, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), raw)
