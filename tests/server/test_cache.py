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
from fairlead.server import cache as caches
from fairlead.server.cache import Cache, Change, Entry, Matches, Watcher

Key = tuple[str, str]


def raw(namespace: str, name: str, labels: dict[str, str], revision: int) -> bytes:
    meta = {"resourceVersion": str(revision), "name": name, "namespace": namespace, "labels": labels}
    return msgspec.json.encode({"kind": "Thing", "apiVersion": "v1", "metadata": meta})


#: (namespace, name, labels or None to delete)
_LABELS = st.one_of(st.none(), st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2))
_CHANGES = st.lists(st.tuples(st.sampled_from(["a", "a-b", "b"]), st.sampled_from("mn"), _LABELS), max_size=60)
Changes = list[tuple[str, str, dict[str, str] | None]]

SELECTORS: dict[str, Matches | None] = {
    "": None,
    "x=1": lambda entry: entry.labels.get("x") == "1",
    "y!=2": lambda entry: entry.labels.get("y") != "2",
    "metadata.name=m": lambda entry: entry.name == "m",
}
_SELECTED = st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(sorted(SELECTORS)))


def applied(cache: Cache, changes: Changes, first: int = 1) -> None:
    for revision, (namespace, name, labels) in enumerate(changes, first):
        cache.apply(revision, namespace, name, None if labels is None else raw(namespace, name, labels, revision))


def selected(cache: Cache, namespace: str, matches: Matches | None) -> dict[Key, bytes]:
    return {(one.namespace, one.name): one.raw for one in cache.entries(namespace) if not matches or matches(one)}


class Replay:
    """A watcher that keeps what a client would keep, and refuses a story that makes no sense."""

    def __init__(self, known: dict[Key, bytes] | None = None) -> None:
        self.known = dict(known or {})
        self.revision = 0

    def sink(self, type_: EventType, change: Change) -> None:
        entry = change.carried(type_)
        key = (entry.namespace, entry.name)
        told: Obj = msgspec.json.decode(change.line(type_))
        assert told == {"type": type_, "object": entry.obj()}
        assert told["object"]["metadata"]["resourceVersion"] == str(change.revision)
        assert change.revision > self.revision
        assert (key in self.known) is (type_ is not EventType.ADDED)
        self.revision = change.revision
        if type_ is EventType.DELETED:
            del self.known[key]
        else:
            self.known[key] = entry.raw


def watching(cache: Cache, namespace: str, matches: Matches | None, replay: Replay) -> Watcher:
    watcher = Watcher(namespace, matches, replay.sink, lambda: None)
    cache.watch(watcher)
    return watcher


@given(_CHANGES, _CHANGES, _SELECTED)
def test_a_watcher_that_replays_its_events_knows_exactly_what_there_is(
    before: Changes, after: Changes, selected_by: tuple[str, str]
) -> None:
    """X-04: for any changes and any selector; an object that begins to match is ADDED, one that ceases DELETED."""
    namespace, matches = selected_by[0], SELECTORS[selected_by[1]]
    cache = Cache("things")
    applied(cache, before)
    replay = Replay(selected(cache, namespace, matches))
    watching(cache, namespace, matches, replay)
    applied(cache, after, len(before) + 1)
    assert replay.known == selected(cache, namespace, matches)


@given(_CHANGES, _SELECTED, st.integers(0, 60))
def test_a_watch_that_begins_in_the_past_catches_up(changes: Changes, selected_by: tuple[str, str], start: int) -> None:
    namespace, matches = selected_by[0], SELECTORS[selected_by[1]]
    cache = Cache("things")
    applied(cache, changes[:start])
    replay = Replay(selected(cache, namespace, matches))
    applied(cache, changes[start:], min(start, len(changes)) + 1)
    watcher = Watcher(namespace, matches, replay.sink, lambda: None)
    missed = cache.since(min(start, len(changes)))
    assert missed is not None
    for change in missed:
        watcher.tell(change)
    assert replay.known == selected(cache, namespace, matches)


@given(_CHANGES, st.sampled_from(["", "a"]), st.integers(0, 60))
def test_the_state_as_of_a_version_is_what_was_there_then(changes: Changes, namespace: str, at: int) -> None:
    then = Cache("things")
    applied(then, changes[:at])
    now = Cache("things")
    applied(now, changes)
    found = now.entries_at(at, namespace)
    assert found is not None
    assert [one.raw for one in found] == [one.raw for one in then.entries(namespace)]


@given(_CHANGES)
def test_entries_come_in_the_order_of_their_keys_and_are_counted(changes: Changes) -> None:
    cache, model = Cache("things"), dict[Key, bytes]()
    for revision, (namespace, name, labels) in enumerate(changes, 1):
        list(cache.entries())  # sorted once, then kept sorted
        applied(cache, [(namespace, name, labels)], revision)
        if labels is None:
            model.pop((namespace, name), None)
        else:
            model[(namespace, name)] = raw(namespace, name, labels, revision)
    assert [(one.namespace, one.name) for one in cache.entries()] == sorted(model, key="/".join)
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
    cache = Cache("things")
    applied(cache, [("a", "m", {"x": "1"})] * 50)
    known = [revision for revision in range(51) if cache.since(revision) is not None]
    assert known == list(range(known[0], 51))
    assert 35 < known[0] <= 49
    assert len(cache.since(known[0]) or ()) == 50 - known[0]
    assert cache.entries_at(known[0] - 1) is None
    assert cache.entries_at(known[0]) is not None


def test_nothing_before_the_start_of_the_server_can_be_had() -> None:
    cache = Cache("things")
    applied(cache, [("b", "m", {}), ("a", "m", {})])
    cache.forget_before(7)
    assert cache.since(6) is None
    assert cache.since(7) == []
    applied(cache, [("a", "n", {})], 8)
    assert [change.revision for change in cache.since(7) or ()] == [8]


def test_loading_out_of_order_still_knows_the_newest_version() -> None:
    """A store delivers what it holds sorted by key."""
    cache = Cache("things")
    cache.apply(9, "a", "m", raw("a", "m", {}, 9))
    cache.apply(3, "b", "m", raw("b", "m", {}, 3))
    assert cache.revision == 9


def test_the_deletion_of_something_unknown_is_no_event() -> None:
    cache, replay = Cache("things"), Replay()
    watching(cache, "", None, replay)
    cache.apply(5, "a", "m", None)
    assert replay.revision == 0
    assert cache.since(0) == []


def test_a_deletion_carries_the_last_state_at_the_version_of_the_deletion() -> None:
    cache, told = Cache("things"), list[tuple[EventType, Entry]]()
    cache.apply(1, "a", "m", raw("a", "m", {"x": "1"}, 1))
    cache.watch(Watcher("", None, lambda type_, change: told.append((type_, change.carried(type_))), lambda: None))
    cache.apply(2, "a", "m", None)
    [(type_, entry)] = told
    assert type_ is EventType.DELETED
    assert entry.raw == raw("a", "m", {"x": "1"}, 2)


def test_all_watchers_share_one_encoding_of_an_event() -> None:
    cache, lines = Cache("things"), list[bytes]()
    for _ in range(3):
        cache.watch(Watcher("", None, lambda type_, change: lines.append(change.line(type_)), lambda: None))
    cache.apply(1, "a", "m", raw("a", "m", {}, 1))
    assert lines[0] is lines[1] is lines[2]


def test_a_watcher_may_leave_while_it_is_told() -> None:
    cache, told = Cache("things"), list[str]()
    watchers: list[Watcher] = []

    def leaves(number: int) -> Callable[[EventType, Change], None]:
        def sink(type_: EventType, change: Change) -> None:
            told.append(str(number))
            cache.unwatch(watchers[number])

        return sink

    for number in range(3):
        watchers.append(Watcher("", None, leaves(number), lambda: None))
        cache.watch(watchers[number])
    applied(cache, [("a", "m", {}), ("a", "m", {"x": "1"})])
    assert told == ["0", "1", "2"]
    assert cache.watchers == 0


def test_every_watch_ends_when_the_kind_is_served_no_more() -> None:
    cache, ended, told = Cache("things"), list[int](), list[EventType]()
    for number in range(3):
        cache.watch(Watcher("", None, lambda type_, _: told.append(type_), partial(ended.append, number)))
    cache.end_watches()
    applied(cache, [("a", "m", {})])
    assert (ended, told, cache.watchers) == ([0, 1, 2], [], 0)
