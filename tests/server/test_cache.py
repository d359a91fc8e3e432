"""The watch cache: whatever happens, a watcher that replays what it is told knows exactly what there is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.objects import Obj
from fairlead.api.verbs import EventType
from fairlead.server.storage import cache as caches
from fairlead.server.storage.cache import Cache
from fairlead.server.storage.entries import CacheEvent, Entry
from fairlead.server.storage.watchers import EVERYTHING, Equal, Matches, Selection, Watcher

Key = tuple[str, str]


def raw(namespace: str, name: str, labels: dict[str, str], revision: int) -> bytes:
    meta = {"resourceVersion": str(revision), "name": name, "namespace": namespace, "labels": labels}
    return msgspec.json.encode({"kind": "Thing", "apiVersion": "v1", "metadata": meta})


#: (namespace, name, labels or None to delete)
_LABELS = st.one_of(st.none(), st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2))
_CHANGES = st.lists(st.tuples(st.sampled_from(["a", "a-b", "b"]), st.sampled_from("mn"), _LABELS), max_size=60)
Changes = list[tuple[str, str, dict[str, str] | None]]


def read_x(entry: Entry) -> str:
    return entry.labels.get("x", "")


def read_name(entry: Entry) -> str:
    return entry.name


def still_cache() -> Cache:
    """A cache for which no time passes."""
    return Cache("things", lambda: 0.0)


def demanding(*equal: Equal) -> tuple[Matches, tuple[Equal, ...]]:
    return lambda entry: all(read(entry) == value for _, read, value in equal), equal


#: Predicates, and what they demand to be equal.
SELECTORS: dict[str, tuple[Matches | None, tuple[Equal, ...]]] = {
    "": (None, ()),
    "y!=2": (lambda entry: entry.labels.get("y") != "2", ()),
    "x=1": demanding(Equal("x", read_x, "1")),
    "x=2": demanding(Equal("x", read_x, "2")),
    "x=": demanding(Equal("x", read_x, "")),
    "name=m": demanding(Equal("name", read_name, "m")),
    "name=m,x=1": demanding(Equal("name", read_name, "m"), Equal("x", read_x, "1")),
}
SELECTIONS = [Selection(namespace, *found) for namespace in ("", "a", "b") for found in SELECTORS.values()]
_SELECTED = st.sampled_from(SELECTIONS)


def applied(cache: Cache, changes: Changes, first: int = 1) -> None:
    for revision, (namespace, name, labels) in enumerate(changes, first):
        cache.apply(revision, namespace, name, None if labels is None else raw(namespace, name, labels, revision))


def selected(cache: Cache, selection: Selection) -> dict[Key, bytes]:
    return {(entry.namespace, entry.name): entry.raw for entry in cache.entries() if selection.includes(entry)}


class Replay:
    """A watcher that keeps what a client would keep, and refuses a story that makes no sense."""

    def __init__(self, known: dict[Key, bytes] | None = None) -> None:
        self.known = dict(known or {})
        self.revision = 0

    def sink(self, type_: EventType, change: CacheEvent) -> None:
        entry = change.carried(type_)
        key = (entry.namespace, entry.name)
        event: Obj = msgspec.json.decode(change.line(type_))
        assert event == {"type": type_, "object": entry.obj()}
        assert event["object"]["metadata"]["resourceVersion"] == str(change.revision)
        assert change.revision > self.revision
        assert (key in self.known) is (type_ is not EventType.ADDED)
        self.revision = change.revision
        if type_ is EventType.DELETED:
            del self.known[key]
        else:
            self.known[key] = entry.raw


def watching(cache: Cache, selection: Selection, replay: Replay) -> Watcher:
    watcher = Watcher(selection, replay.sink, lambda: None)
    cache.watch(watcher)
    return watcher


@given(_CHANGES, _CHANGES)
def test_watchers_that_replay_their_events_know_exactly_what_there_is(before: Changes, after: Changes) -> None:
    """X-04: for any changes, all selections at once; what begins to match is ADDED, what ceases DELETED."""
    cache = still_cache()
    applied(cache, before)
    replays = [Replay(selected(cache, selection)) for selection in SELECTIONS]
    for selection, replay in zip(SELECTIONS, replays, strict=True):
        watching(cache, selection, replay)
    applied(cache, after, len(before) + 1)
    assert [replay.known for replay in replays] == [selected(cache, selection) for selection in SELECTIONS]


def test_a_change_is_not_shown_to_who_watches_something_else() -> None:
    """What it costs is what those cost whom it may concern: that it was theirs counts as well."""
    cache, asked = still_cache(), list[str]()

    def asking(value: str) -> Matches:
        def matches(entry: Entry) -> bool:
            asked.append(value)
            return read_x(entry) == value

        return matches

    for number in range(1000):
        value = str(number)
        watching(cache, Selection("a", asking(value), (Equal("x", read_x, value),)), Replay())
        watching(cache, Selection(f"a{number}", asking("in another namespace")), Replay())
    applied(cache, [("a", "m", {"x": "7"}), ("a", "m", {"x": "8"})])
    assert set(asked) == {"7", "8"}


@given(_CHANGES, _SELECTED, st.integers(0, 60))
def test_a_watch_that_begins_in_the_past_catches_up(changes: Changes, selection: Selection, start: int) -> None:
    cache = still_cache()
    applied(cache, changes[:start])
    replay = Replay(selected(cache, selection))
    applied(cache, changes[start:], min(start, len(changes)) + 1)
    watcher = Watcher(selection, replay.sink, lambda: None)
    missed = cache.since(min(start, len(changes)))
    assert missed is not None
    for change in missed:
        watcher.notify(change)
    assert replay.known == selected(cache, selection)


#: Keys at which a page may begin, be there anything or not.
_STARTS = st.sampled_from(["", "a", "a/", "a/m\0", "a-b/m", "m", "n\0", "b/n", "zzz"])


@given(_CHANGES, st.sampled_from(["", "a"]), _STARTS, st.integers(0, 60))
def test_the_state_as_of_a_version_is_what_was_there_then(
    changes: Changes, namespace: str, start: str, at: int
) -> None:
    then = still_cache()
    applied(then, changes[:at])
    now = still_cache()
    applied(now, changes)
    expected = [entry for entry in then.entries(namespace) if (entry.name if namespace else key_of(entry)) >= start]
    for cache, revision in ((then, None), (now, at)):
        found = cache.state(namespace, start, revision)
        assert found is not None
        assert found.size == len(expected)
        assert [entry.raw for entry in found.entries] == [entry.raw for entry in expected]


def key_of(entry: Entry) -> str:
    return f"{entry.namespace}/{entry.name}"


@given(_CHANGES)
def test_entries_come_in_the_order_of_their_keys_and_are_counted(changes: Changes) -> None:
    cache, model = still_cache(), dict[Key, bytes]()
    for revision, (namespace, name, labels) in enumerate(changes, 1):
        list(cache.entries())  # sorted once, then kept sorted
        applied(cache, [(namespace, name, labels)], revision)
        if labels is None:
            model.pop((namespace, name), None)
        else:
            model[(namespace, name)] = raw(namespace, name, labels, revision)
    assert [(entry.namespace, entry.name) for entry in cache.entries()] == sorted(model, key="/".join)
    assert cache.count == len(model)
    assert all((entry := cache.get(*key)) and entry.raw == value for key, value in model.items())
    assert cache.get("a", "never") is None
    assert list(cache.entries("never")) == []


@pytest.mark.parametrize(
    ("limit", "bytes_limit"), [(5, 1 << 20), (10_000, 1_000)], ids=["number of events", "bytes that they hold"]
)
def test_history_is_bounded_and_says_so_when_asked_for_more(
    monkeypatch: pytest.MonkeyPatch, limit: int, bytes_limit: int
) -> None:
    monkeypatch.setattr(caches, "HISTORY_EVENTS", limit)
    monkeypatch.setattr(caches, "HISTORY_BYTES", bytes_limit)
    cache = still_cache()
    applied(cache, [("a", "m", {"x": "1"})] * 50)
    known = [revision for revision in range(51) if cache.since(revision) is not None]
    assert known == list(range(known[0], 51))
    assert 35 < known[0] <= 49
    assert len(cache.since(known[0]) or ()) == 50 - known[0]
    assert cache.state(at=known[0] - 1) is None
    assert cache.state(at=known[0]) is not None


def test_what_is_young_is_kept_beyond_what_is_kept_for_ever() -> None:
    """Who lists before a burst of writes can watch from there after it; a minute later it is history."""
    seconds = 0.0
    cache = Cache("things", lambda: seconds)
    burst, further = 3 * caches.OLD_EVENTS, 10
    applied(cache, [("a", "m", {})] * burst)
    assert len(cache.since(0) or ()) == burst
    seconds = caches.FRESH_SECONDS + 1
    applied(cache, [("a", "m", {})] * further, burst + 1)
    kept_since = burst + further - caches.OLD_EVENTS
    assert cache.since(kept_since - 1) is None
    assert len(cache.since(kept_since) or ()) == caches.OLD_EVENTS


def test_nothing_before_the_start_of_the_server_can_be_had() -> None:
    cache = still_cache()
    applied(cache, [("b", "m", {}), ("a", "m", {})])
    cache.forget_before(7)
    assert cache.since(6) is None
    assert cache.since(7) == []
    applied(cache, [("a", "n", {})], 8)
    assert [change.revision for change in cache.since(7) or ()] == [8]


def test_loading_out_of_order_still_knows_the_newest_version() -> None:
    """A store delivers what it holds sorted by key."""
    cache = still_cache()
    cache.apply(9, "a", "m", raw("a", "m", {}, 9))
    cache.apply(3, "b", "m", raw("b", "m", {}, 3))
    assert cache.revision == 9


def test_the_deletion_of_something_unknown_is_no_event() -> None:
    cache, replay = still_cache(), Replay()
    watching(cache, EVERYTHING, replay)
    cache.apply(5, "a", "m", None)
    assert replay.revision == 0
    assert cache.since(0) == []


def test_a_deletion_carries_the_last_state_at_the_version_of_the_deletion() -> None:
    cache, received = still_cache(), list[tuple[EventType, Entry]]()
    cache.apply(1, "a", "m", raw("a", "m", {"x": "1"}, 1))
    cache.watch(
        Watcher(EVERYTHING, lambda type_, change: received.append((type_, change.carried(type_))), lambda: None)
    )
    cache.apply(2, "a", "m", None)
    [(type_, entry)] = received
    assert type_ is EventType.DELETED
    assert entry.raw == raw("a", "m", {"x": "1"}, 2)


def test_all_watchers_share_one_encoding_of_an_event() -> None:
    cache, lines = still_cache(), list[bytes]()
    for _ in range(3):
        cache.watch(Watcher(EVERYTHING, lambda type_, change: lines.append(change.line(type_)), lambda: None))
    cache.apply(1, "a", "m", raw("a", "m", {}, 1))
    assert lines[0] is lines[1] is lines[2]


def test_a_watcher_may_leave_while_it_is_told() -> None:
    cache, received = still_cache(), list[str]()
    watchers: list[Watcher] = []

    def leaves(number: int) -> Callable[[EventType, CacheEvent], None]:
        def sink(type_: EventType, change: CacheEvent) -> None:
            received.append(str(number))
            cache.unwatch(watchers[number])

        return sink

    for number in range(3):
        watchers.append(Watcher(EVERYTHING, leaves(number), lambda: None))
        cache.watch(watchers[number])
    applied(cache, [("a", "m", {}), ("a", "m", {"x": "1"})])
    assert received == ["0", "1", "2"]
    assert cache.watchers == 0


def test_every_watch_ends_when_the_kind_is_served_no_more() -> None:
    cache, ended, received = still_cache(), list[int](), list[EventType]()
    for number in range(3):
        cache.watch(Watcher(EVERYTHING, lambda type_, _: received.append(type_), partial(ended.append, number)))
    cache.end_watches()
    applied(cache, [("a", "m", {})])
    assert (ended, received, cache.watchers) == ([0, 1, 2], [], 0)
