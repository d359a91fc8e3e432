"""No request, sensible or not, may end in a bug: a 500, a traceback in the log, an object that is not read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.api.builtin import RESOURCES
from fairlead.api.resources import Resource
from fairlead.server.codec import wire
from tests.conftest import GOLDEN
from tests.examples import examples
from tests.server.http_world import (
    JSON,
    Complaints,
    Reply,
    Server,
    serving_in_a_thread,
)
from tests.server.protobuf_reader import decoded

YAML = {"content-type": "application/yaml"}
PROTOBUF = {"content-type": "application/vnd.kubernetes.protobuf"}
AS_PROTOBUF = {"accept": "application/vnd.kubernetes.protobuf"}
MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        yield server


#: Kinds whose creation is a question that is answered, or that would change what the other kinds mean.
_ROWS = [row for row in RESOURCES if "list" in row.verbs and row.kind != "Namespace"]
_SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
_ANY = st.recursive(
    _SCALARS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_WORDS = [
    *(
        "",
        "a",
        "A b",
        "-",
        "x" * 300,
        "é\0",
        "a/b/c",
        "v1",
        "kubernetes.io/hostname",
        "2026-01-01T00:00:00Z",
        "*/5 * * * *",
    ),
    *("10Mi", "1e3", "-1", "0", "100m", "50%", "In", "Always", "Never", "NoSchedule", "ClusterIP", "TCP"),
    *("127.0.0.1", "::1", "10.0.0.0/8"),
]
_NUMBERS = [0, 1, -1, 3, 80, 65536, 2**31 - 1, -(2**31), 2**63 - 1]
#: Values of types that are strings with a form of their own.
_FORMED: dict[str, list[Any]] = {
    "quantity": ["1", "100m", "10Mi", "-1", "0", "1e3", "0.1", "9E", "1n", 5],
    "time": ["2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z", None],
    "microtime": ["2026-01-01T00:00:00.000000Z", None],
    "bytes": ["", "YQ==", "AAAA"],
}


class Maker:
    """Makes objects that look like those of a kind, with something wrong in most of them."""

    def __init__(self, random: Random, wrongness: float) -> None:
        self._random, self._wrongness = random, wrongness

    def object(self, row: Resource) -> Any:
        made = self._struct(row.definition, 0)
        if isinstance(made, dict) and self._random.random() < 0.9:
            made |= {"kind": row.kind, "apiVersion": row.api_version}
            made["metadata"] = {"name": self._random.choice(["a", "b", "fuzz.example.com"])}
            if self._random.random() < 0.3:
                made["metadata"] |= self._struct(f"{wire.META}.ObjectMeta", 3) or {}
        return made

    def _struct(self, definition: str, depth: int) -> Any:
        fields = wire.fields(definition)
        share = 0.6 if depth < 3 else 0.25
        return {
            name: self._value(field.shape, depth + 1)
            for name, field in fields.items()
            if self._random.random() < share and name not in ("kind", "apiVersion", "resourceVersion")
        }

    def _value(self, shape: wire.WireType, depth: int) -> Any:
        random = self._random
        if random.random() < self._wrongness or depth > 7:
            return random.choice([None, "", 0, 1.5, True, [], {}, [None], {"a": None}, [[]], "x"])
        if shape.form == "struct":
            return self._struct(shape.definition, depth)
        if shape.form == "list" and shape.element:
            return [self._value(shape.element, depth + 1) for _ in range(random.choice([0, 1, 1, 2]))]
        if shape.form == "map" and shape.element:
            return {
                random.choice(_WORDS): self._value(shape.element, depth + 1) for _ in range(random.choice([0, 1, 2]))
            }
        if shape.form in ("int32", "int64", "float64"):
            return random.choice(_NUMBERS)
        if shape.form == "bool":
            return random.random() < 0.5
        if shape.form in _FORMED:
            return random.choice(_FORMED[shape.form])
        if shape.form == "intstr":
            return random.choice([*_NUMBERS, *_WORDS])
        return random.choice(_WORDS)


@cache
def _good_objects() -> list[tuple[str, Any]]:
    """(collection, object) of everything that the recorded cases create."""
    found = []
    for file in sorted((GOLDEN / "api").glob("*.yaml")):
        for case in yaml.load(file.read_text(), yaml.CSafeLoader):
            for step in case["steps"]:
                body, path = step.get("body"), step.get("path", "").replace("$NS", "default")
                if step.get("method") == "POST" and isinstance(body, dict) and step["expect"].get("code") == 201:
                    found.append((path, json.loads(json.dumps(body).replace("$NS", "default"))))
    return [(path, body) for path, body in found if "$" not in path and "/eviction" not in path]


class Mutator:
    """Breaks good objects in a few places."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def mutated(self, obj: Any) -> Any:
        obj = json.loads(json.dumps(obj))
        for _ in range(self._random.choice([1, 1, 2, 4])):
            places = [place for place in self._places(obj) if place[1] not in ("name", "kind", "apiVersion")]
            if places:
                self._break(*self._random.choice(places))
        return obj

    def _places(self, value: Any) -> Iterator[tuple[Any, Any]]:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, item in items:
            yield value, key
            yield from self._places(item)

    def _break(self, parent: Any, key: Any) -> None:
        random, value = self._random, parent[key]
        match random.randrange(6):
            case 0:
                del parent[key]
            case 1 if isinstance(parent, list):
                parent.append(value)
            case 2 if isinstance(value, str):
                parent[key] = random.choice([value + "x", value.upper(), value[:-1], value * 50, " " + value])
            case 3 if isinstance(value, int):
                parent[key] = random.choice(_NUMBERS)
            case 4 if isinstance(value, str):
                parent[key] = random.choice(_WORDS)
            case _:
                parent[key] = random.choice([None, "", 0, -1, 1.5, True, [], {}, [None], {"a": None}, "x", [{}]])


def judge(reply: Reply, complaints: Complaints, sent: Any) -> None:
    assert not complaints.texts, f"{sent}\n{complaints.texts[0]}"
    if reply.code >= 400:
        status = reply.obj
        assert (status["kind"], status["code"]) == ("Status", reply.code), sent
        # Kubernetes has 500s without a reason for mistakes of clients; with one they would be bugs of ours
        assert reply.code < 500 or not status.get("reason"), (sent, status)


def path_of(row: Resource, name: str = "") -> str:
    return row.path(quote(name), "default" if row.namespaced else "")


_FUZZ = settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))


def check_life(server: Server, path: str, obj: Any, again: Any) -> None:
    """Create the object, change it in every way, look at it, delete it: nothing may be a bug."""
    with Complaints() as complaints:
        connection = server.connection()

        def ask(method: str, path: str, body: Any = None, headers: dict[str, str] = JSON) -> Reply:
            reply = server.ask(method, path, body, headers, on=connection)
            judge(reply, complaints, (method, path, obj, again))
            return reply

        made = ask("POST", path, obj)
        if made.code == 201 and "name" in (meta := made.obj["metadata"]):
            item_path = f"{path}/{quote(meta['name'])}"
            assert ask("GET", item_path).obj == made.obj
            _check_message(ask("GET", item_path, headers=AS_PROTOBUF), made.obj)
            for method, headers in (("PUT", JSON), ("PATCH", MERGE), ("PATCH", STRATEGIC)):
                ask(method, item_path, again, headers)
                ask(method, f"{item_path}/status", again, headers)
            ask("PATCH", f"{item_path}?fieldManager=a", obj, APPLY)
            ask("PATCH", f"{item_path}?fieldManager=b&force=true", again, APPLY)
            ask("GET", path, headers={"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
            ask("DELETE", f"{item_path}?gracePeriodSeconds=0")
            ask("PATCH", item_path, {"metadata": {"finalizers": None}}, MERGE)
        connection.close()


def _check_message(reply: Reply, obj: Any) -> None:
    """The object in protobuf; volume claims in other objects have no kind there, and custom kinds have no messages."""
    if reply.headers["content-type"] == AS_PROTOBUF["accept"] and obj["kind"] != "StatefulSet":
        assert decoded(reply.body) == obj


@_FUZZ
@given(row=st.sampled_from(_ROWS), seed=st.integers(0, 2**32), wrongness=st.sampled_from([0.0, 0.02, 0.2]))
def test_no_object_of_any_kind_is_more_than_the_server_can_judge(
    running: Server, row: Resource, seed: int, wrongness: float
) -> None:
    """Random objects in the shape of their kind."""
    maker = Maker(Random(seed), wrongness)
    check_life(running, path_of(row), maker.object(row), maker.object(row))


@_FUZZ
@given(good=st.deferred(lambda: st.sampled_from(_good_objects())), seed=st.integers(0, 2**32))
def test_no_good_object_that_was_broken_is_more_than_the_server_can_judge(
    running: Server, good: tuple[str, Any], seed: int
) -> None:
    """Good objects that were broken in a few places."""
    mutator, (path, obj) = Mutator(Random(seed)), good
    check_life(running, path, mutator.mutated(obj), mutator.mutated(obj))


@_FUZZ
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    row=st.sampled_from(_ROWS),
    name=st.sampled_from(["", "kept", "kept/status", "kept/scale", "kept/eviction"]),
    query=st.dictionaries(
        st.sampled_from(
            ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersionMatch", "dryRun", "fieldValidation",
             "fieldManager", "force", "gracePeriodSeconds", "propagationPolicy", "orphanDependents", "timeoutSeconds"]
        ),
        st.text(max_size=6) | st.sampled_from(["1", "true", "All", "a=b", "metadata.name=x", "Exact"]),
        max_size=3,
    ),
    body=_ANY,
    content_type=st.sampled_from([JSON, YAML, PROTOBUF, MERGE, JSON_PATCH, STRATEGIC, APPLY]),
)  # fmt: skip
def test_no_request_at_all_is_a_bug(
    running: Server,
    method: str,
    row: Resource,
    name: str,
    query: dict[str, str],
    body: Any,
    content_type: dict[str, str],
) -> None:
    with Complaints() as complaints:
        asked = "&".join(f"{key}={quote(value)}" for key, value in (query | {"dryRun": "All"}).items())
        path = f"{path_of(row)}{'/' + name if name else ''}?{asked}"
        reply = running.ask(method, path, json.dumps(body).encode(), content_type)
        judge(reply, complaints, (method, path, body, content_type))
