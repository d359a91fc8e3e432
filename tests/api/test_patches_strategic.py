"""Strategic merge patch, driven by a schema (X-05, S0-05)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.errors import ApiError, BadRequest
from fairlead.api.patches import (
    PatchDoesNotApply,
    PatchFailed,
    PatchSchema,
    apply_strategic_patch,
    decode_strategic_patch,
    undecodable,
)
from fairlead.golang.values import printed


@dataclass(frozen=True)
class Schema:
    fields: dict[str, Schema] = field(default_factory=dict)
    element: Schema | None = None
    merge_key: str | None = None
    strategies: frozenset[str] = frozenset()

    def field(self, name: str) -> PatchSchema | None:
        return self.fields.get(name)

    def items(self) -> PatchSchema | None:
        return self.element


def merging(key: str | None, element: Schema | None = None) -> Schema:
    return Schema(element=element or Schema(), merge_key=key, strategies=frozenset({"merge"}))


CONTAINER = Schema(
    {
        "env": merging("name"),
        "ports": merging("containerPort"),
        "resources": Schema({"requests": Schema(), "limits": Schema()}),
    }
)
SPEC = Schema(
    {
        "containers": merging("name", CONTAINER),
        "finalizers": merging(None),
        "tolerations": Schema(element=Schema()),
        "nodeSelector": Schema(),
        "strategy": Schema(strategies=frozenset({"retainKeys"})),
        "whole": Schema(strategies=frozenset({"replace"})),
    }
)
XY = [{"name": "x", "image": "1"}, {"name": "y", "image": "1"}]


def merged(original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    inputs = copy.deepcopy((original, patch))
    try:
        return apply_strategic_patch(original, patch, SPEC)
    finally:
        assert (original, patch) == inputs, "inputs are not changed"


@pytest.mark.parametrize(
    ("original", "patch", "expected"),
    [
        ({"containers": XY}, {"containers": [{"name": "y", "image": "2"}]},
         {"containers": [XY[0], {"name": "y", "image": "2"}]}),
        ({"containers": XY}, {"containers": [{"name": "z"}]}, {"containers": [{"name": "z"}, *XY]}),
        ({"containers": XY}, {"containers": [{"name": "x", "$patch": "delete"}]}, {"containers": [XY[1]]}),
        ({"containers": XY}, {"containers": [{"name": "no", "$patch": "delete"}]}, {"containers": XY}),
        ({"containers": XY}, {"containers": [{"name": "q"}, {"$patch": "replace"}]}, {"containers": [{"name": "q"}]}),
        ({"containers": XY}, {"containers": None}, {}),
        ({"finalizers": ["a", "b"]}, {"finalizers": ["c", "b"]}, {"finalizers": ["c", "a", "b"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        ({}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        ({"nodeSelector": {"a": "b", "c": "d"}}, {"nodeSelector": {"a": None, "e": "f"}},
         {"nodeSelector": {"c": "d", "e": "f"}}),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"$patch": "replace", "e": "f"}}, {"nodeSelector": {"e": "f"}}),
        ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"$patch": "delete"}}, {"nodeSelector": {}}),
        ({}, {"nodeSelector": {"$patch": "delete"}}, {}),
        ({}, {"nodeSelector": {"a": None, "b": "c"}}, {"nodeSelector": {"b": "c"}}),
        ({"strategy": {"type": "R", "rolling": {}}}, {"strategy": {"$retainKeys": ["type"], "type": "C"}},
         {"strategy": {"type": "C"}}),
        ({"whole": {"a": 1}}, {"whole": {"b": 2}}, {"whole": {"b": 2}}),
    ],
)  # fmt: skip
def test_merge(original: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert merged(original, patch) == expected


def test_new_list_elements_are_woven_into_the_order_of_the_server() -> None:
    original = {"containers": [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 81}]}]}
    patch = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "name": "z"}, {"containerPort": 82}]}]}
    [container] = merged(original, patch)["containers"]
    assert [port["containerPort"] for port in container["ports"]] == [80, 82, 81]


def test_set_element_order_sorts_the_list() -> None:
    patch = {
        "$setElementOrder/containers": [{"name": "x"}, {"name": "n"}, {"name": "y"}],
        "containers": [{"name": "n"}],
    }
    assert [one["name"] for one in merged({"containers": XY}, patch)["containers"]] == ["x", "n", "y"]
    order = {"$setElementOrder/finalizers": ["c", "b", "a"], "finalizers": ["c"]}
    assert merged({"finalizers": ["a", "b"]}, order) == {"finalizers": ["c", "b", "a"]}
    assert merged({"finalizers": ["a", "b", "s"]}, {"$setElementOrder/finalizers": ["b", "a"]}) == {
        "finalizers": ["b", "a", "s"]
    }


@pytest.mark.parametrize(
    ("served", "wanted", "expected"),
    [
        ("abd", "bc", "bdc"),  # what is added takes the place of what goes, in front of what it followed
        ("abd", "bcef", "bdcef"),
        ("abde", "ce", "dce"),
        ("bd", "bc", "bcd"),
    ],
)
def test_what_is_added_moves_up_to_where_something_is_deleted(served: str, wanted: str, expected: str) -> None:
    """The rest of the served elements are somebody else's; `a`, and `b` if it is not wanted, are deleted."""
    gone = [name for name in served if name in "ab" and name not in wanted]
    added = [{"name": name} for name in wanted if name not in served]
    patch = {
        "$setElementOrder/containers": [{"name": name} for name in wanted],
        "containers": [*added, *({"name": name, "$patch": "delete"} for name in gone)],
    }
    containers = merged({"containers": [{"name": name} for name in served]}, patch)["containers"]
    assert "".join(container["name"] for container in containers) == expected


@pytest.mark.parametrize(
    ("patch", "error", "message"),
    [
        ({"containers": [{"name": "x", "$patch": "huh"}]}, PatchFailed,
         "unknown patch type: huh in map: map[$patch:huh name:x]"),
        ({"nodeSelector": {"$patch": "merge"}}, PatchFailed, "unknown patch type: merge in map: map[$patch:merge]"),
        ({"containers": [{"$patch": "merge"}]}, PatchFailed, "merging lists cannot yet be specified in the patch"),
        ({"containers": [{"image": "i"}]}, PatchFailed,
         "map: map[image:i] does not contain declared merge key: name"),
        ({"containers": ["x"]}, PatchFailed,
         "list element types are not identical: [[map[image:1 name:x] map[image:1 name:y]] [x]]"),
        ({"containers": [[]]}, PatchFailed,
         "list element types are not identical: [[map[image:1 name:x] map[image:1 name:y]] [[]]]"),
        ({"$setElementOrder/containers": [{"name": "x"}], "containers": [{"name": "y", "image": "2"}]}, PatchFailed,
         "The order in patch list:\n[map[image:2 name:y]]\n doesn't match $setElementOrder list:\n[map[name:x]]\n"),
        ({"$setElementOrder/containers": "x"}, PatchFailed, "expected a []interface {}, but received a string"),
        ({"$setElementOrder/nope": ["x"]}, PatchFailed, 'unable to find api field "nope"'),
        ({"$setElementOrder": ["x"]}, BadRequest, "invalid patch format of setElementOrder list"),
        ({"$deleteFromPrimitiveList": ["x"]}, BadRequest, "invalid patch format of primitive list"),
        ({"nodeSelector": {"$retainKeys": ["a"], "b": "c"}}, BadRequest, "invalid patch format of retainKeys"),
        ({"finalizers": [["a"]]}, PatchDoesNotApply, "the server rejected our request due to an error in our request"),
    ],
)  # fmt: skip
def test_broken_directives_are_refused_in_upstreams_words(
    patch: dict[str, Any], error: type[ApiError], message: str
) -> None:
    with pytest.raises(error) as refused:
        merged({"containers": XY, "nodeSelector": {"a": "b"}, "finalizers": []}, patch)
    assert refused.value.message == message


def test_failed_merge_is_a_500_without_a_reason() -> None:
    assert PatchFailed("x").status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "x",
        "code": 500,
    }


def test_patched_object_that_cannot_be_read_is_invalid() -> None:
    refused = undecodable(printed({"metadata": {"labels": "text"}}), "cannot restore map from string")
    assert refused.message == (
        ' "" is invalid: patch: Invalid value: "map[metadata:map[labels:text]]": cannot restore map from string'
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"metadata": ', "unexpected end of JSON input"),
        (b"[1]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (b"metadata:\n  a: b\n", "invalid character 'm' looking for beginning of value"),
    ],
)
def test_body_that_is_no_object_is_a_bad_request(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode_strategic_patch(body)
    assert refused.value.message == message


names = st.lists(st.sampled_from("abcdef"), unique=True)


def containers(found: list[str]) -> list[dict[str, Any]]:
    return [{"name": name} for name in found]


@given(names, names)
def test_merged_list_has_every_key_once_and_keeps_both_orders(served: list[str], patched: list[str]) -> None:
    result = merged({"containers": containers(served)}, {"containers": containers(patched)})
    found = [one["name"] for one in result["containers"]]
    assert sorted(found) == sorted({*served, *patched})
    assert [name for name in found if name in patched] == patched
    only_served = [name for name in served if name not in patched]
    assert [name for name in found if name in only_served] == only_served


@given(names, names)
def test_scalars_merge_like_elements_that_are_their_own_key(served: list[str], patched: list[str]) -> None:
    elements = merged({"containers": containers(served)}, {"containers": containers(patched)})["containers"]
    assert merged({"finalizers": served}, {"finalizers": patched})["finalizers"] == [one["name"] for one in elements]
