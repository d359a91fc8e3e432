"""The algebra of field sets and their stored form (KEP-555; structured-merge-diff fieldpath)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.server.apply.elements import MalformedFields, order
from fairlead.server.apply.fieldsets import (
    FieldPath,
    Fields,
    contains,
    difference,
    intersection,
    of_paths,
    paths,
    read,
    spelled,
    union,
    without,
)

ELEMENTS = ["f:a", "f:b", 'k:{"name":"x"}', 'k:{"name":"y"}', "v:1", "i:0"]
PATHS = st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=4).map(tuple)
MEMBERS = st.frozensets(PATHS, max_size=12)


def members(fields: Fields) -> frozenset[FieldPath]:
    found = list(paths(fields))
    assert len(found) == len(set(found))
    return frozenset(found)


@given(MEMBERS)
def test_a_set_holds_what_it_was_made_of_and_nothing_more(some: frozenset[FieldPath]) -> None:
    fields = of_paths(*some)
    assert members(fields) == some
    assert all(contains(fields, path) for path in some)


@given(MEMBERS, MEMBERS)
def test_the_operations_are_those_of_sets_of_paths(some: frozenset[FieldPath], more: frozenset[FieldPath]) -> None:
    a, b = of_paths(*some), of_paths(*more)
    assert members(union(a, b)) == some | more
    assert members(intersection(a, b)) == some & more
    assert members(difference(a, b)) == some - more


@given(MEMBERS, MEMBERS)
def test_without_also_drops_what_lies_below(some: frozenset[FieldPath], more: frozenset[FieldPath]) -> None:
    def lies_below(path: FieldPath) -> bool:
        return any(path[: len(prefix)] == prefix for prefix in more)

    left = without(of_paths(*some), of_paths(*more))
    assert members(left) == {path for path in some if not lies_below(path)}


@given(MEMBERS, MEMBERS)
def test_equal_sets_have_one_form(some: frozenset[FieldPath], more: frozenset[FieldPath]) -> None:
    a, b = of_paths(*some), of_paths(*more)
    assert union(a, b) == union(b, a) == of_paths(*some, *more)
    assert difference(union(a, b), b) == difference(a, b)
    assert union(difference(a, b), intersection(a, b)) == a


@given(MEMBERS, MEMBERS)
def test_an_operation_that_changes_nothing_makes_no_new_set(
    some: frozenset[FieldPath], more: frozenset[FieldPath]
) -> None:
    a, b = of_paths(*some), of_paths(*more)
    untouched = difference(b, a)
    assert difference(untouched, a) is untouched
    both = union(a, b)
    assert union(both, b) is both or not both


@given(MEMBERS)
def test_what_is_read_back_is_what_was_stored(some: frozenset[FieldPath]) -> None:
    assert read(of_paths(*some)) == of_paths(*some)


@given(MEMBERS)
def test_a_level_is_told_in_order(some: frozenset[FieldPath]) -> None:
    top = [order(path[0]) for path in paths(of_paths(*some)) if len(path) == 1]
    assert all(element < next_ for element, next_ in pairwise(top))


def test_numbers_in_keys_are_ordered_as_numbers() -> None:
    ports = [f'k:{{"containerPort":{port},"protocol":"TCP"}}' for port in (80, 443, 8080)]
    assert [path[0] for path in paths(of_paths(*((port,) for port in reversed(ports))))] == ports


def test_a_clients_spelling_of_a_key_becomes_ours() -> None:
    assert read({'k:{"protocol":"TCP", "port":80}': {".": {}, "f:port": {}}}) == {
        'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}
    }


def test_steps_of_a_kind_that_nobody_knows_are_dropped() -> None:
    assert read({"x:new": {}, "f:a": {}}) == {"f:a": {}}


@pytest.mark.parametrize("raw", [{"f": {}}, {"fa": {}}, {"i:x": {}}, {"v:{": {}}, {"k:1": {}}, {"f:a": 1}, []])
def test_what_is_no_set_is_refused(raw: object) -> None:
    with pytest.raises(MalformedFields):
        read(raw)


def test_a_path_is_told_as_error_texts_have_it() -> None:
    path = ("f:spec", 'k:{"containerPort":80,"name":"a\\"b"}', 'v:"example.com/a"', "v:true", "i:3")
    assert spelled(path) == '.spec[containerPort=80,name="a\\"b"][="example.com/a"][=true][3]'
