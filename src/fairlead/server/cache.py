"""The watch cache: the committed state of one kind, its recent history, and everybody who watches it.

Reads and watches never touch the store. A change is turned into bytes once and handed to all watchers; what a
watcher with a selector sees of it (an object that begins to match is ADDED to it, one that ceases is DELETED) is
decided here. History is kept for a bounded number of events; who asks for older gets `Expired` and lists again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from fairlead.api.encoded import Encoded
from fairlead.api.objects import Obj
from fairlead.api.verbs import EventType

#: How much history a kind keeps. kube-apiserver's window is about as large for a busy kind.
HISTORY_EVENTS = 4096
HISTORY_BYTES = 8 << 20


class _Labels(msgspec.Struct):
    labels: dict[str, str] = {}


class _LabelView(msgspec.Struct):
    metadata: _Labels


_labels_of = msgspec.json.Decoder(_LabelView).decode


class Entry(Encoded):
    """One version of one object in the cache."""

    __slots__ = ("_fields", "_labels", "name", "namespace", "revision")

    def __init__(self, raw: bytes, namespace: str, name: str, revision: int) -> None:
        super().__init__(raw)
        self.namespace, self.name, self.revision = namespace, name, revision
        self._labels: dict[str, str] | None = None
        self._fields: dict[str, str] | None = None

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


class Change:
    """One event of a kind: what was there before (None: nothing) and after (None: nothing)."""

    __slots__ = ("_lines", "new", "old", "revision", "tombstone")

    def __init__(self, revision: int, old: Entry | None, new: Entry | None) -> None:
        self.revision, self.old, self.new = revision, old, new
        self.tombstone = None if new or not old else _tombstone(old, revision)
        self._lines: dict[EventType, bytes] = {}

    def line(self, type_: EventType) -> bytes:
        """The event as a line of a JSON watch stream, encoded once for all watchers."""
        line = self._lines.get(type_)
        if line is None:
            line = self._lines[type_] = event_line(type_, self.carried(type_).raw)
        return line

    def carried(self, type_: EventType) -> Entry:
        """The object that an event of this type carries: the last state, at the revision of the event."""
        if type_ is not EventType.DELETED:
            assert self.new is not None
            return self.new
        if self.tombstone is None:  # it still exists, but a selector no longer matches
            assert self.old is not None
            self.tombstone = _tombstone(self.old, self.revision)
        return self.tombstone


def _tombstone(last: Entry, revision: int) -> Entry:
    """The last state of an object under the revision of its deletion, as etcd's watch gives it."""
    raw = last.raw.replace(b'"resourceVersion":"%d"' % last.revision, b'"resourceVersion":"%d"' % revision, 1)
    return Entry(raw, last.namespace, last.name, revision)


def event_line(type_: EventType, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), raw)


Matches = Callable[[Entry], bool]
Sink = Callable[[EventType, Change], None]


class Watcher:
    """Somebody who is told about a kind. `sink` is called in order and must not block; `end` when that is all."""

    __slots__ = ("end", "matches", "namespace", "sink")

    def __init__(self, namespace: str, matches: Matches | None, sink: Sink, end: Callable[[], None]) -> None:
        self.namespace, self.matches, self.sink, self.end = namespace, matches, sink, end

    def tell(self, change: Change) -> None:
        entry = change.new or change.old
        if self.namespace and entry is not None and entry.namespace != self.namespace:
            return
        was, is_ = change.old is not None, change.new is not None
        if self.matches is not None:
            was = change.old is not None and self.matches(change.old)
            is_ = change.new is not None and self.matches(change.new)
        if is_:
            self.sink(EventType.MODIFIED if was else EventType.ADDED, change)
        elif was:
            self.sink(EventType.DELETED, change)


class Cache:
    """All objects of one kind, by namespace and name."""

    def __init__(self, qualified: str) -> None:
        self.qualified = qualified
        self.revision = 0  # of the newest change of this kind
        self.count = 0
        self._spaces: dict[str, dict[str, Entry]] = {}
        self._sorted: dict[str, list[str]] = {}  # names of a namespace, kept sorted once listed
        self._space_names: list[str] = []  # in the order of keys
        self._history: deque[Change] = deque()
        self._history_bytes = 0
        self.forgotten = 0  # history up to this revision is gone
        self._watchers: dict[Watcher, None] = {}

    # -- reading

    def get(self, namespace: str, name: str) -> Entry | None:
        space = self._spaces.get(namespace)
        return space.get(name) if space else None

    def entries(self, namespace: str = "") -> Iterator[Entry]:
        """In the order of their keys, as etcd's; namespace `""` is all."""
        for space in [namespace] if namespace else self._space_names:
            found = self._spaces.get(space)
            if found:
                for name in self._names(space):
                    yield found[name]

    def entries_at(self, revision: int, namespace: str = "") -> list[Entry] | None:
        """The state as of an older revision, or None if that is forgotten."""
        if revision < self.forgotten:
            return None
        state = {(entry.namespace, entry.name): entry for entry in self.entries(namespace)}
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            entry = change.new or change.old
            assert entry is not None
            if namespace and entry.namespace != namespace:
                continue
            if change.old is None:
                state.pop((entry.namespace, entry.name), None)
            else:
                state[(entry.namespace, entry.name)] = change.old
        return [state[key] for key in sorted(state, key="/".join)]

    def _names(self, space: str) -> list[str]:
        names = self._sorted.get(space)
        if names is None:
            names = self._sorted[space] = sorted(self._spaces[space])
        return names

    # -- watching

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def end_watches(self) -> None:
        """The kind is served differently now, or no more: whoever watches it has to ask again."""
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher.end()

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    def since(self, revision: int) -> list[Change] | None:
        """Every change after that revision, or None if some are forgotten."""
        if revision < self.forgotten:
            return None
        missed: list[Change] = []
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            missed.append(change)
        missed.reverse()
        return missed

    # -- changing

    def load(self, namespace: str, name: str, raw: bytes, revision: int) -> None:
        """An object that was there before the kind was served."""
        self._put(Entry(raw, namespace, name, revision))
        self.revision = max(self.revision, revision)

    def forget_before(self, revision: int) -> None:
        """No history up to and including that revision can be had."""
        self.forgotten = max(self.forgotten, revision)

    def apply(self, revision: int, namespace: str, name: str, raw: bytes | None) -> None:
        """One committed change: remember it and tell every watcher."""
        old = self.get(namespace, name)
        new = None if raw is None else Entry(raw, namespace, name, revision)
        if new is not None:
            self._put(new)
        elif old is not None:
            self._remove(old)
        else:
            return
        self.revision = max(self.revision, revision)  # at start, changes come in the order of their keys
        change = Change(revision, old, new)
        self._remember(change)
        for watcher in list(self._watchers):
            watcher.tell(change)

    def _put(self, entry: Entry) -> None:
        space = self._spaces.get(entry.namespace)
        if space is None:
            space = self._spaces[entry.namespace] = {}
            insort(self._space_names, entry.namespace, key=_prefix)
        if entry.name not in space:
            self.count += 1
            if names := self._sorted.get(entry.namespace):
                insort(names, entry.name)
        space[entry.name] = entry

    def _remove(self, entry: Entry) -> None:
        space = self._spaces[entry.namespace]
        del space[entry.name]
        self.count -= 1
        if names := self._sorted.get(entry.namespace):
            del names[bisect_left(names, entry.name)]
        if not space:
            del self._spaces[entry.namespace]
            self._sorted.pop(entry.namespace, None)
            del self._space_names[bisect_left(self._space_names, _prefix(entry.namespace), key=_prefix)]

    def _remember(self, change: Change) -> None:
        self._history.append(change)
        self._history_bytes += _weight(change)
        while len(self._history) > HISTORY_EVENTS or self._history_bytes > HISTORY_BYTES:
            oldest = self._history.popleft()
            self._history_bytes -= _weight(oldest)
            self.forgotten = oldest.revision


def _prefix(namespace: str) -> str:
    """How the keys in a namespace begin: those in `a-b` come before those in `a`."""
    return f"{namespace}/"


def _weight(change: Change) -> int:
    """The bytes that only history keeps alive: the replaced state."""
    return len(change.old.raw) if change.old else 64
