"""JSON patch, as the API server applies it (X-05)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.errors import BadRequest, EntityTooLarge
from fairlead.api.patches import JsonPatch, PatchDoesNotApply, apply_json_patch, decode_json_patch

DOC: dict[str, Any] = {"m": {"a": "b", "x/y": 1, "~": 2}, "l": [1, 2, 3], "n": None}


def patched(*operations: dict[str, Any]) -> Any:
    before = copy.deepcopy(DOC)
    result = apply_json_patch(DOC, JsonPatch(operations))
    assert before == DOC, "inputs are not changed"
    return result


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/m/c", "value": 1}, DOC | {"m": DOC["m"] | {"c": 1}}),
        ({"op": "add", "path": "/m/x~1y", "value": 0}, DOC | {"m": DOC["m"] | {"x/y": 0}}),
        ({"op": "add", "path": "/m/~0", "value": 0}, DOC | {"m": DOC["m"] | {"~": 0}}),
        ({"op": "add", "path": "/l/1", "value": 9}, DOC | {"l": [1, 9, 2, 3]}),
        ({"op": "add", "path": "/l/-", "value": 9}, DOC | {"l": [1, 2, 3, 9]}),
        ({"op": "add", "path": "/l/-1", "value": 9}, DOC | {"l": [1, 2, 3, 9]}),
        ({"op": "add", "path": "/q"}, DOC | {"q": None}),
        ({"op": "remove", "path": "/l/-1"}, DOC | {"l": [1, 2]}),
        ({"op": "replace", "path": "/missing", "value": 1}, DOC | {"missing": 1}),
        ({"op": "replace", "path": "/l/0", "value": 7}, DOC | {"l": [7, 2, 3]}),
        ({"op": "replace", "path": "", "value": {"new": 1}}, {"new": 1}),
        ({"op": "copy", "from": "/l/0", "path": "/c"}, DOC | {"c": 1}),
        ({"op": "copy", "from": "/missing", "path": "/c"}, DOC | {"c": None}),
        ({"op": "move", "from": "/l/0", "path": "/l/-"}, DOC | {"l": [2, 3, 1]}),
        ({"op": "test", "path": "/m/a", "value": "b"}, DOC),
        ({"op": "test", "path": "/missing", "value": None}, DOC),
        ({"op": "test", "path": "", "value": DOC}, DOC),
        ({"op": "add", "path": "ignored/z", "value": 1}, DOC | {"z": 1}),
    ],
)
def test_operation(operation: dict[str, Any], expected: Any) -> None:
    assert patched(operation) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {},
        {"op": "merge", "path": "/m"},
        {"op": "add", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "/l/5", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/no/where", "value": 1},
        {"op": "add", "path": "/m/a/deep", "value": 1},
        {"op": "add", "path": "/n/a", "value": 1},
        {"op": "remove", "path": "/missing"},
        {"op": "remove", "path": "/l/3"},
        {"op": "replace", "path": "/l/3", "value": 1},
        {"op": "replace", "path": "", "value": 1},
        {"op": "move", "from": "/missing", "path": "/c"},
        {"op": "test", "path": "/m/a", "value": "c"},
        {"op": "test", "path": "/m/a"},
        {"op": "test", "path": "/l/0", "value": 1.0},
        {"op": "test", "path": "/l/0", "value": True},
    ],
)
def test_patch_that_does_not_apply_is_refused_without_a_reason(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchDoesNotApply) as refused:
        patched(operation)
    assert refused.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


def test_values_of_the_patch_are_not_shared_with_the_result() -> None:
    value: dict[str, Any] = {"deep": {}}
    result = patched({"op": "add", "path": "/v", "value": value}, {"op": "add", "path": "/v/deep/x", "value": 1})
    assert result["v"] == {"deep": {"x": 1}}
    assert value == {"deep": {}}


def test_copies_cannot_blow_up_the_server() -> None:
    grow = [{"op": "add", "path": "/s", "value": ["x" * 1000]}]
    grow += [{"op": "copy", "from": "/s", "path": "/s/-"}] * 40
    with pytest.raises(PatchDoesNotApply):
        patched(*grow)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"op":"add"}', "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (b"[1]", "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (b'[{"op":1}]', "cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ],
)
def test_body_of_the_wrong_shape_is_a_bad_request(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode_json_patch(body)
    assert refused.value.message == f"error decoding patch: json: {message}"


def test_without_field_validation_the_library_speaks() -> None:
    with pytest.raises(BadRequest, match=r"^json: cannot unmarshal object into Go value of type jsonpatch\.Patch$"):
        decode_json_patch(b"{}", lenient=True)


def test_unknown_fields_of_operations_are_listed() -> None:
    patch = decode_json_patch(b'[null, {"op":"test","path":"/a","value":null,"why":1}]')
    assert patch.unknown == ('json patch unknown field "[1].why"',)


def test_number_of_operations_is_limited() -> None:
    with pytest.raises(EntityTooLarge, match="The allowed maximum operations in a JSON patch is 10000, got 10001"):
        decode_json_patch(json.dumps([{}] * 10001).encode())


scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
documents = st.dictionaries(
    st.text(alphabet="ab/~", min_size=1, max_size=3), st.lists(scalars, max_size=3) | scalars, max_size=4
)


@given(documents, st.text(alphabet="ab/~", min_size=1, max_size=3), scalars)
def test_added_key_can_be_tested_and_removed(document: dict[str, Any], key: str, value: Any) -> None:
    pointer = "/" + key.replace("~", "~0").replace("/", "~1")
    rest = {k: v for k, v in document.items() if k != key}
    operations: tuple[dict[str, Any], ...] = (
        {"op": "add", "path": pointer, "value": value},
        {"op": "test", "path": pointer, "value": value},
        {"op": "remove", "path": pointer},
    )
    assert apply_json_patch(document, JsonPatch(operations)) == rest
