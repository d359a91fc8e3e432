"""JSON merge patch (X-05)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.errors import BadRequest
from fairlead.api.patches import apply_merge_patch, decode_merge_patch

NO_MAP = "json: cannot unmarshal array into Go value of type map[string]interface {}"


@pytest.mark.parametrize(
    ("original", "patch", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}}, {"a": {"c": 2, "d": 3}}),
        ({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": None}}, {"a": {}}),
        ({}, {"a": [{"b": None}, None]}, {"a": [{}, None]}),
        ({"a": {}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
        ({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_merge(original: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert apply_merge_patch(original, patch) == expected


@pytest.mark.parametrize(
    ("body", "lenient", "message"),
    [
        (b"[1, 2]", False, f"error decoding patch: {NO_MAP}"),
        (b"{", False, "error decoding patch: unexpected end of JSON input"),
        (b"{", True, "Invalid JSON Patch"),
        (b"null", False, "Invalid JSON Patch"),
    ],
)
def test_body_that_is_no_object_is_a_bad_request(body: bytes, lenient: bool, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode_merge_patch(body, lenient=lenient)
    assert refused.value.message == message


scalars = st.booleans() | st.integers(-9, 9) | st.text(max_size=2)
values = st.recursive(
    st.none() | scalars | st.lists(scalars, max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@given(objects, objects)
def test_merging_twice_changes_nothing_more_and_spares_the_inputs(
    original: dict[str, Any], patch: dict[str, Any]
) -> None:
    inputs = copy.deepcopy((original, patch))
    once = apply_merge_patch(original, patch)
    assert (original, patch) == inputs
    assert apply_merge_patch(once, patch) == once
