"""The bytes of an object say what the object says, whatever its keys and texts look like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from fairlead.api.encoded import (
    NULL_BYTES,
    Encoded,
    beginning,
    encode,
    is_same,
    key_bytes,
    key_start_bytes,
    restamped,
    stamp,
    storable,
    text_bytes,
    unstamped,
    with_beginning,
    without_marker,
)
from fairlead.api.objects import Obj

#: What JSON escapes, what takes several bytes, and what looks like the layout that the module relies on.
NASTY = [
    *('"', "\\", "\t", "\n", "\x00", "\x7f", "é", "\u2028", "😀", "<&>", "null", "true", "ephemeral"),
    *('"resourceVersion":""', '"resourceVersion":"",', '"resourceVersion":"7"', '{"kind":"', '"ephemeral":'),
    *("resourceVersion", "kind", "apiVersion", "metadata", '\\"', '":"'),
]
TEXTS = st.lists(st.sampled_from(NASTY) | st.text(max_size=3), max_size=4).map("".join)
SCALARS = TEXTS | st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
OBJECTS = st.builds(
    lambda name, meta, rest: rest | {"metadata": meta | {"name": name}},
    TEXTS,
    st.dictionaries(TEXTS, VALUES, max_size=3),
    st.dictionaries(TEXTS, VALUES, max_size=4),
)
REVISIONS = st.integers(1, 2**63 - 1) | st.sampled_from([7, 77])
#: A kind is an identifier and an apiVersion a group and a version: the API lets nobody have others.
KINDS = st.from_regex(r"[A-Z][A-Za-z0-9-]{0,20}", fullmatch=True)
API_VERSIONS = st.from_regex(r"([a-z0-9]{1,8}\.[a-z]{1,4}/)?v1(beta[1-9])?", fullmatch=True)


def stored(obj: Obj) -> bytes:
    return storable(obj, "Pod", "v1")


def at(obj: Obj, revision: int, kind: str = "Pod", api_version: str = "v1") -> Obj:
    """What an object says at a revision."""
    meta = obj["metadata"] | {"resourceVersion": str(revision)}
    return obj | {"kind": kind, "apiVersion": api_version, "metadata": meta}


@given(OBJECTS, REVISIONS, KINDS, API_VERSIONS)
@example({"metadata": {"name": "p", "resourceVersion": "6"}, "kind": "Other"}, 7, "Pod", "v1")
def test_a_stored_object_says_what_was_given_and_its_revision(obj: Obj, revision: int, kind: str, version: str) -> None:
    assert Encoded(stamp(storable(obj, kind, version), revision)).obj() == at(obj, revision, kind, version)


@given(OBJECTS, REVISIONS)
@example({"metadata": {"name": '"resourceVersion":"7"', "a": {"resourceVersion": "7"}}}, 7)
@example({"metadata": {"name": "p"}, "spec": {"resourceVersion": ""}}, 7)
def test_a_stamp_can_be_taken_off_again(obj: Obj, revision: int) -> None:
    assert unstamped(stamp(stored(obj), revision), revision) == stored(obj)


@given(OBJECTS, REVISIONS, REVISIONS)
@example({"metadata": {"name": "e"}, "involvedObject": {"resourceVersion": "7"}}, 7, 8)
def test_a_tombstone_is_the_last_state_under_the_revision_of_the_deletion(obj: Obj, last: int, deletion: int) -> None:
    tombstone = restamped(stamp(stored(obj), last), last, deletion)
    assert Encoded(tombstone).obj() == at(obj, deletion)
    assert tombstone == stamp(stored(obj), deletion)


@given(OBJECTS)
def test_what_is_not_stored_has_no_revision(obj: Obj) -> None:
    shown = at(obj, 0)
    del shown["metadata"]["resourceVersion"]
    assert Encoded(without_marker(stored(obj))).obj() == shown


@given(OBJECTS, REVISIONS, KINDS, API_VERSIONS)
def test_an_object_begins_as_its_kind_does_and_can_do_without(obj: Obj, revision: int, kind: str, version: str) -> None:
    raw, start = stamp(storable(obj, kind, version), revision), beginning(kind, version)
    assert raw.startswith(start)
    item = b"{" + raw[len(start) :]
    assert Encoded(item).obj() == {
        key: value for key, value in Encoded(raw).obj().items() if key not in ("kind", "apiVersion")
    }
    assert with_beginning(item, start) == with_beginning(b" \n" + item, start) == raw


@given(OBJECTS, REVISIONS, st.randoms())
def test_the_order_of_keys_makes_no_difference_to_what_is_said(obj: Obj, revision: int, random: Any) -> None:
    assert is_same(encode(obj), encode(shuffled(obj, random)))


@given(OBJECTS, OBJECTS)
@example({"metadata": {"a": 1, "b": True}}, {"metadata": {"a": True, "b": 1}})
@example({"metadata": {"a": 0.0}}, {"metadata": {"a": -0}})
def test_objects_that_differ_are_not_the_same(first: Obj, second: Obj) -> None:
    assume(encode(first) != encode(second))
    assert is_same(encode(first), encode(second)) == (sorted_lines(first) == sorted_lines(second))


@given(VALUES)
@example({"x": {'"ephemeral": ': ['\\ephemeral"']}})
def test_a_search_finds_every_key_text_and_null_that_is_there(value: Any) -> None:
    raw = encode(value)
    for key, member in members(value):
        assert key_bytes(key) in raw
        assert all(key_start_bytes(key[:end]) in raw for end in range(len(key) + 1))
        assert member is not None or NULL_BYTES in raw
    for text in texts(value):
        assert all(text_bytes(text[start:]) in raw for start in range(len(text) + 1))


@given(VALUES, st.sampled_from(["ephemeral", "deletionTimestamp"]))
def test_a_text_is_not_taken_for_a_key(value: Any, key: str) -> None:
    """What looks like a key in a text has its quotes escaped."""
    assert key_bytes(key) not in encode(list(texts(value)))


def shuffled(value: Any, random: Any) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        random.shuffle(keys)
        return {key: shuffled(value[key], random) for key in keys}
    return [shuffled(item, random) for item in value] if isinstance(value, list) else value


def sorted_lines(value: Any, path: tuple[object, ...] = ()) -> list[str]:
    """Every scalar and every empty container of a value with its path and its type, in order."""
    if isinstance(value, dict | list) and value:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        return sorted(line for key, member in inner for line in sorted_lines(member, (*path, key)))
    return [f"{path!r} {value!r}"]


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key of every object in a value, with what is under it."""
    if isinstance(value, dict):
        yield from value.items()
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from members(inner)


def texts(value: Any) -> Iterator[str]:
    """Every string in a value."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(inner)
