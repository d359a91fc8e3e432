"""Definitions of custom kinds that are small for what they used to cost, and objects of such kinds.

As in test_explosions.py nobody measures: finishing is the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.server.http_world import Reply, Server, check_status, serving_in_a_thread, uncomplaining

pytestmark = pytest.mark.slow  # large things, and many of them

_TOO_COSTLY = "validation takes more than 1000000 steps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = count()


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    """The server, which must not complain in its log."""
    with uncomplaining():
        yield running


def definition(plural: str, schema: dict[str, Any], **version_fields: Any) -> dict[str, Any]:
    """A kind whose objects have one field, `a`, of that schema."""
    whole = {"type": "object", "properties": {"a": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}} | version_fields
    names = {"plural": plural, "kind": plural.title()}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": spec}


def defined(server: Server, schema: dict[str, Any], **version_fields: Any) -> str:
    """The path of the objects of a new kind, once it is served."""
    plural = f"kinds{next(_numbers)}"
    assert server.ask("POST", DEFINITIONS, definition(plural, schema, **version_fields)).code == 201
    path = f"/apis/example.com/v1/namespaces/default/{plural}"
    server.soon(lambda: server.ask("GET", path).code == 200)
    return path


def create(server: Server, path: str, a: Any, name: str = "x") -> Reply:
    kind = path.rpartition("/")[2].title()
    body = {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}, "a": a}
    return server.ask("POST", path, body)


@pytest.mark.parametrize(
    "path",
    [
        ".['" + r"\a" * 200,  # two ways to read each
        ".a[?(@" + " " * 300_000,
        ".a[?(@.b ==" + " " * 300_000,
        ".a[" + "1" * 5000 + "]",
        ".a[" + "1" * 5000 + ":]",
        ".a[?(@.b == " + "1" * 5000 + ")]",
    ],
    ids=["escapes", "blanks", "blanks of a literal", "an index", "a slice", "a literal"],
)
def test_a_column_that_cannot_be_read_is_left_out_at_once(server: Server, path: str) -> None:
    column = {"name": "C", "type": "string", "jsonPath": path}
    kinds = defined(server, {"type": "array", "items": {"type": "object"}}, additionalPrinterColumns=[column])
    assert create(server, kinds, []).code == 201
    accept = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    columns = server.ask("GET", kinds, headers=accept).obj["columnDefinitions"]
    assert [column["name"] for column in columns] == ["Name"]


def test_the_values_of_a_long_enum_are_found_by_a_set(server: Server) -> None:
    values = [f"v{number}" for number in range(20_000)]
    listed = {"type": "array", "items": {"type": "string", "enum": values}}
    kinds = defined(server, listed)
    assert create(server, kinds, list(reversed(values))).code == 201
    refused = create(server, kinds, ["v"] * 100_000, "y")
    assert "Unsupported value" in check_status(refused, 422, "Invalid")


def test_an_enum_tells_true_from_one_however_deep(server: Server) -> None:
    anything = {"x-kubernetes-preserve-unknown-fields": True, "enum": [1, [1], {"b": 1}, "1"]}
    kinds = defined(server, anything)
    for number, taken in enumerate([1, 1.0, [1], {"b": 1}, "1"]):
        assert create(server, kinds, taken, f"t{number}").code == 201, taken
    for value in (True, [True], {"b": True}, [[1]], [], {}):
        assert create(server, kinds, value, "o").code == 422, value


def test_versions_are_compared_with_the_first_alone(server: Server) -> None:
    fields = {f"f{number}": {"type": "string"} for number in range(40)}
    wide = definition("versions", {"type": "object", "properties": fields})
    [first] = wide["spec"]["versions"]
    for variant in ("same", "other"):
        versions = [first | {"name": f"v{number}", "storage": number == 1} for number in range(1, 2000)]
        versions[-1] |= {"deprecated": True}
        if variant == "other":
            versions[-1] |= {"schema": {"openAPIV3Schema": {"type": "object"}}}
        wide["spec"]["versions"] = versions
        assert server.ask("POST", f"{DEFINITIONS}?dryRun=All", wide).code == 201


def test_what_is_unsupported_is_looked_for_once_for_all_rules(server: Server) -> None:
    fields = {f"f{number}": {"type": "string"} for number in range(10_000)}
    rules = [{"rule": "true", "fieldPath": f".f{number}"} for number in range(10_000)]
    schema = {"type": "object", "properties": fields, "x-kubernetes-validations": rules}
    assert server.ask("POST", f"{DEFINITIONS}?dryRun=All", definition("rules", schema)).code == 201


def test_a_default_at_every_level_compiles_the_schema_once(server: Server) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(10_000)}}
    for _ in range(60):
        schema = {"type": "object", "default": {}, "properties": {"a": schema}}
    assert server.ask("POST", f"{DEFINITIONS}?dryRun=All", definition("levels", schema)).code == 201


@pytest.mark.parametrize("text", ["1" * 300_000, "1" * 300_000 + " " * 300_000, "1." * 150_000, "1" * 300_000 + "s"])
def test_a_text_that_is_no_duration_is_refused_at_once(server: Server, text: str) -> None:
    kinds = defined(server, {"type": "string", "format": "duration"})
    check_status(create(server, kinds, text), 422, "Invalid")
    for fine in ("1.5h", "-.5s", "0", "1.h", "2 days", "2 Weeks and 3 more"):
        assert create(server, kinds, fine, f"n{next(_numbers)}").code == 201, fine


def test_values_times_conditions_are_bounded(server: Server) -> None:
    conditions = [{"minimum": number} for number in range(20_000)]
    kinds = defined(server, {"type": "array", "items": {"type": "integer", "allOf": conditions}})
    assert _TOO_COSTLY in check_status(create(server, kinds, [20_000] * 300_000), 422, "Invalid")
    assert create(server, kinds, [1] * 500_000).code == 422
    assert create(server, kinds, [20_000] * 4, "y").code == 201


@pytest.mark.parametrize("word", ["required", "properties"])
def test_fields_times_objects_are_bounded(server: Server, word: str) -> None:
    fields = {f"f{number}": {"type": "string"} for number in range(20_000)}
    schema = {"type": "object", word: fields if word == "properties" else list(fields)}
    kinds = defined(server, {"type": "array", "items": schema})
    reply = create(server, kinds, [{}] * 500_000)
    assert word == "required" or _TOO_COSTLY in reply.obj["message"]
    check_status(reply, 422, "Invalid")
    if word == "properties":
        assert create(server, kinds, [dict.fromkeys(fields, "")]).code == 201


# -- long keys, and defaults that multiply

_LONG = "k" * 400_000


@pytest.mark.parametrize(
    ("items", "item", "code"),
    [
        ({"type": "object", "properties": {"z": {"type": "string"}}}, {"u": 1}, 201),
        ({"type": "string"}, 1, 422),
        ({"type": "string"}, "", 201),
    ],
    ids=["unknown", "wrong", "right"],
)
def test_a_long_key_is_not_repeated_for_everything_below_it(server: Server, items: Any, item: Any, code: int) -> None:
    lists = {"type": "object", "additionalProperties": {"type": "array", "items": items}}
    kinds = defined(server, lists)
    reply = create(server, kinds, {_LONG: [item] * 150_000})
    assert reply.code == code
    assert len(reply.body) < 4 << 20


def test_a_long_key_of_a_schema_is_not_repeated_for_everything_below_it(server: Server) -> None:
    fields = {f"f{number}": {"type": "wrong"} for number in range(40_000)}
    schema = {"type": "object", "properties": {_LONG: {"type": "object", "properties": fields}}}
    refused = server.ask("POST", DEFINITIONS, definition("longs", schema))
    assert "k..." in check_status(refused, 422, "Invalid")


def eightfold(levels: int) -> dict[str, Any]:
    """A schema whose defaults have eight items at every level."""
    schema: dict[str, Any] = {"type": "string", "default": "x"}
    for _ in range(levels):
        schema = {"type": "array", "default": [{}] * 8, "items": {"type": "object", "properties": {"a": schema}}}
    return schema


def test_defaults_that_multiply_stop_at_what_can_be_stored(server: Server) -> None:
    kinds = defined(server, {"type": "object", "properties": {"b": eightfold(30)}})
    assert check_status(create(server, kinds, {}), 500, "") == "etcdserver: request is too large"
    assert create(server, kinds, {"b": []}).code == 201


def test_a_stored_object_stays_in_sight_whatever_defaults_its_kind_gets(server: Server) -> None:
    kinds = defined(server, {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "object"}}}})
    assert create(server, kinds, {}).code == 201
    plural = kinds.rpartition("/")[2]
    changed = definition(plural, {"type": "object", "properties": {"b": eightfold(30)}})
    spec = {"spec": {"versions": changed["spec"]["versions"]}}
    merge = {"content-type": "application/merge-patch+json"}
    assert server.ask("PATCH", f"{DEFINITIONS}/{plural}.example.com", spec, merge).code == 200
    server.soon(lambda: "b" in server.ask("GET", f"{kinds}/x").obj["a"])
    assert [item["metadata"]["name"] for item in server.ask("GET", kinds).obj["items"]] == ["x"]
    assert server.ask("DELETE", f"{kinds}/x").code == 200
