"""The watch cache: the committed state of one kind, its recent history, and its watchers.

Reads and watches never touch the store. History is bounded; who asks for older events gets `Expired` and lists again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from typing import Final, NamedTuple

import msgspec

from fairlead.runtime.clock import monotonic
from fairlead.server.storage.entries import CacheEvent, Entry
from fairlead.server.storage.watchers import Watcher, Watchers
from fairlead.store.base import Record

#: How much history a kind keeps of what is young (apiserver, `storage/cacher`: 102,400 events): who lists before a
#: burst of writes and watches after it finds them all.
HISTORY_EVENTS = 100 * 1024
HISTORY_BYTES = 32 << 20
FRESH_SECONDS: Final = 75.0
#: And how much however old it is.
OLD_EVENTS: Final = 4096
OLD_BYTES: Final = 8 << 20
#: What an event takes beside what it replaces.
_EVENT_BYTES: Final = 160
#: What a burst has left is dropped bit by bit, with the changes that follow: nobody waits for all of it.
_DROPPED_AT_ONCE: Final = 1000


class _HistoryEntry(msgspec.Struct, frozen=True, gc=False):
    """An event without its encoded lines, which would double the memory of the history."""

    revision: int
    old: Entry | None
    new: Entry | None
    came_at: float


class PastObject(NamedTuple):
    """What an object was before it changed at that revision; None: it was not there."""

    revision: int
    namespace: str
    name: str
    replaced: Record | None


class CacheState(NamedTuple):
    """Entries in the order of their keys, and how many they are."""

    entries: Iterator[Entry]
    size: int


class Cache:
    """All objects of one kind, by namespace and name."""

    def __init__(self, qualified: str, clock: Callable[[], float] = monotonic) -> None:
        self.qualified = qualified
        self._clock = clock
        self.revision = 0  # of the newest change of this kind
        self.count = 0
        self._spaces: dict[str, dict[str, Entry]] = {}
        self._sorted: dict[str, list[str]] = {}  # names of a namespace, kept sorted once listed
        self._space_names: list[str] = []  # in the order of keys
        self._history: deque[_HistoryEntry] = deque()
        self._history_bytes = 0
        self.forgotten = 0  # history up to this revision is gone
        self._watchers = Watchers()
        #: How many changes there were since it was made.
        self.changes = 0

    # -- reading

    def get(self, namespace: str, name: str) -> Entry | None:
        space = self._spaces.get(namespace)
        return space.get(name) if space else None

    def entries(self, namespace: str = "", start: str = "") -> Iterator[Entry]:
        """In the order of their keys, as etcd's, from the first that is not before `start`; namespace `""` is all.

        The key is relative to what is asked for: `NAME` within a namespace, else `NAMESPACE/NAME`.
        """
        for space, first in self._places(namespace, start):
            found, names = self._spaces[space], self._names(space)
            for name in names[first:] if first else names:
                yield found[name]

    def state(self, namespace: str = "", start: str = "", at: int | None = None) -> CacheState | None:
        """The same with their number, now or as of an older revision; None if history does not reach back so far."""
        entries = self.entries(namespace, start)
        count = sum(len(self._spaces[space]) - first for space, first in self._places(namespace, start))
        if at is None:
            return CacheState(entries, count)
        if at < self.forgotten:
            return None
        before = self._undone(at, namespace, start)
        gone = sorted((old for key, old in before.items() if old and not self.get(*key)), key=_key)
        made = sum(old is None and self.get(*key) is not None for key, old in before.items())
        then = (old for old in (before.get((entry.namespace, entry.name), entry) for entry in entries) if old)
        return CacheState(merge(then, gone, key=_key) if gone else then, count + len(gone) - made)

    def _undone(self, revision: int, namespace: str, start: str) -> dict[tuple[str, str], Entry | None]:
        """The objects that have changed since that revision, as they were at it."""
        before: dict[tuple[str, str], Entry | None] = {}
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            entry = change.new or change.old
            assert entry is not None
            if namespace and entry.namespace != namespace:
                continue
            if (entry.name if namespace or not entry.namespace else _key(entry)) >= start:
                before[entry.namespace, entry.name] = change.old
        return before

    def _places(self, namespace: str, start: str) -> Iterator[tuple[str, int]]:
        """The namespaces in question, each with the index of its first name."""
        if namespace or "" in self._spaces:
            if namespace in self._spaces:
                yield namespace, bisect_left(self._names(namespace), start) if start else 0
            return
        names = self._space_names
        at = bisect_left(names, start, key=_prefix) if start else 0
        if at and start.startswith(before := _prefix(names[at - 1])):
            yield names[at - 1], bisect_left(self._names(names[at - 1]), start[len(before) :])
        for index in range(at, len(names)):
            yield names[index], 0

    def _names(self, space: str) -> list[str]:
        names = self._sorted.get(space)
        if names is None:
            names = self._sorted[space] = sorted(self._spaces[space])
        return names

    # -- watching

    def watch(self, watcher: Watcher) -> None:
        self._watchers.add(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def end_watches(self) -> None:
        """The kind is served differently now, or no more: its watchers have to begin again."""
        watchers, self._watchers = self._watchers, Watchers()
        for watcher in watchers:
            watcher.end()

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    def since(self, revision: int) -> list[CacheEvent] | None:
        """Every change after that revision, or None if some are forgotten."""
        if revision < self.forgotten:
            return None
        missed: list[CacheEvent] = []
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            missed.append(CacheEvent(change.revision, change.old, change.new))
        missed.reverse()
        return missed

    # -- changing

    def load(self, namespace: str, name: str, raw: bytes, revision: int) -> None:
        """An object that was there before the kind was served."""
        self._put(Entry(raw, namespace, name, revision))
        self.revision = max(self.revision, revision)

    def rewrite(self, entry: Entry, raw: bytes) -> None:
        """Replace the bytes of an entry, after a change of its kind; not if the object itself has changed meanwhile."""
        if raw is not entry.raw and self.get(entry.namespace, entry.name) is entry:
            self._put(Entry(raw, entry.namespace, entry.name, entry.revision))

    def recall(self, changes: Iterable[PastObject], compacted: int) -> None:
        """Take history from before the cache was filled: everything since the revision `compacted`, oldest first."""
        newest: dict[tuple[str, str], Entry | None] = {}
        now = self._clock()
        found: list[_HistoryEntry] = []
        for change in reversed(list(changes)):
            key = change.namespace, change.name
            new = newest[key] if key in newest else self.get(*key)
            replaced = change.replaced
            old = Entry(replaced.value, *key, replaced.revision) if replaced else None
            newest[key] = old
            if old or new:
                found.append(_HistoryEntry(change.revision, old, new, now))
        self._history.clear()
        self._history_bytes, self.forgotten = 0, compacted
        for entry in reversed(found):
            self._remember(entry)

    def forget_before(self, revision: int) -> None:
        """History begins after that revision."""
        self.forgotten = max(self.forgotten, revision)

    def apply(self, revision: int, namespace: str, name: str, raw: bytes | None) -> None:
        """Apply one committed change, and notify its watchers."""
        old = self.get(namespace, name)
        new = None if raw is None else Entry(raw, namespace, name, revision)
        if new is not None:
            self._put(new)
        elif old is not None:
            self._remove(old)
        else:
            return
        if old is not None:
            old.release()  # history has thousands of those
        self.revision = max(self.revision, revision)  # at start, changes come in the order of their keys
        self._remember(_HistoryEntry(revision, old, new, self._clock()))
        self.changes += 1
        if not self._watchers:
            return
        change = CacheEvent(revision, old, new)
        for watcher in self._watchers.interested(change):
            watcher.notify(change)

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

    def _remember(self, change: _HistoryEntry) -> None:
        self._history.append(change)
        self._history_bytes += _weight(change)
        fresh_since = change.came_at - FRESH_SECONDS
        for _ in range(_DROPPED_AT_ONCE):
            if not self._has_surplus(fresh_since):
                return
            oldest = self._history.popleft()
            self._history_bytes -= _weight(oldest)
            self.forgotten = max(self.forgotten, oldest.revision)

    def _has_surplus(self, fresh_since: float) -> bool:
        events, size = len(self._history), self._history_bytes
        if events > HISTORY_EVENTS or size > HISTORY_BYTES:
            return True
        if not events:
            return False
        oldest = self._history[0]
        is_much = events > OLD_EVENTS or size > OLD_BYTES
        return oldest.revision <= self.forgotten or (is_much and oldest.came_at < fresh_since)


def _prefix(namespace: str) -> str:
    """How the keys in a namespace begin: those in `a-b` come before those in `a`."""
    return f"{namespace}/"


def _key(entry: Entry) -> str:
    return f"{entry.namespace}/{entry.name}"


def _weight(change: _HistoryEntry) -> int:
    """The bytes that only the history holds: those of the replaced state, and its own."""
    return _EVENT_BYTES + (len(change.old.raw) if change.old else 0)
