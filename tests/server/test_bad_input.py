"""Whatever a client sends: a `Status` with the right code, no trace of it in the store, no bug in the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.api.builtin import RESOURCES
from fairlead.api.resources import Resource
from fairlead.server import wire
from tests.conftest import GOLDEN
from tests.server.http_world import (
    CONFIG_MAPS,
    JSON,
    Complaints,
    Reply,
    Server,
    check_status,
    serving_in_a_thread,
    uncomplaining,
)

PODS = "/api/v1/namespaces/default/pods"
YAML = {"content-type": "application/yaml"}
PROTOBUF = {"content-type": "application/vnd.kubernetes.protobuf"}
MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        for name in ("kept", "other"):
            assert server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": {"k": "v"}}).code == 201
        assert server.ask("POST", PODS, {"metadata": {"name": "kept"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}).code == 201  # fmt: skip
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    """The server, which must not complain in its log."""
    with uncomplaining():
        yield running


@pytest.fixture
def unchanged(server: Server) -> Iterator[Server]:
    """The server, in which the test must change nothing."""
    before = server.registry.revision
    yield server
    assert server.registry.revision == before


NESTED = 5000
BAD_BODIES = {
    "nothing": b"",
    "white space": b" \n",
    "half an object": b'{"metadata":{"name":"x"',
    "two objects": b'{"metadata":{"name":"x"}} {"metadata":{"name":"y"}}',
    "a trailing comma": b'{"metadata":{"name":"x"},}',
    "single quotes": b"{'metadata':{'name':'x'}}",
    "NaN": b'{"metadata":{"name":"x"},"data":NaN}',
    "a control character in a string": b'{"metadata":{"name":"a\x00b"}}',
    "a byte order mark": b'\xef\xbb\xbf{"metadata":{"name":"x"}}',
    "UTF-16": '{"metadata":{"name":"x"}}'.encode("utf-16"),
    "a list": b"[]",
    "a number": b"3",
    "a string": b'"x"',
    "true": b"true",
    "deep lists": b"[" * NESTED + b"]" * NESTED,
    "deep objects": b'{"a":' * NESTED + b"1" + b"}" * NESTED,
    "deep and never closed": b"[" * 100_000,
    "a deep field": b'{"metadata":{"name":"x"},"data":' + b"[" * NESTED + b"]" * NESTED + b"}",
    "metadata of another type": b'{"metadata":3}',
    "a name of another type": b'{"metadata":{"name":["x"]}}',
    "labels of another type": b'{"metadata":{"name":"x","labels":{"a":{}}}}',
    "a time that is none": b'{"metadata":{"name":"x","creationTimestamp":"soon"}}',
    "a number where a string must be": b'{"metadata":{"name":"x"},"data":{"k":3}}',
    "base64 that is none": b'{"metadata":{"name":"x"},"binaryData":{"k":"***"}}',
    "a kind of another type": b'{"kind":3,"metadata":{"name":"x"}}',
    "another kind": b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}',
    "an unknown kind": b'{"kind":"Nonsense","apiVersion":"v1","metadata":{"name":"x"}}',
    "another version": b'{"kind":"ConfigMap","apiVersion":"v7","metadata":{"name":"x"}}',
    "a strange version": b'{"kind":"ConfigMap","apiVersion":"a/b/c","metadata":{"name":"x"}}',
    "another namespace": b'{"metadata":{"name":"x","namespace":"kube-system"}}',
    "HTML": b"<html></html>",
    "zeros": b"\0" * 100,
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_body_that_is_no_such_object_is_a_bad_request(unchanged: Server, body: bytes) -> None:
    check_status(unchanged.ask("POST", CONFIG_MAPS, body), 400, "BadRequest")


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
@pytest.mark.parametrize("headers", [YAML, PROTOBUF, MERGE, JSON_PATCH, STRATEGIC], ids=lambda one: one["content-type"])
def test_bad_bodies_of_other_types_are_refused_too(unchanged: Server, headers: dict[str, str], body: bytes) -> None:
    """Some of them are good YAML; what matters is that they are judged, in the client's terms."""
    is_patch = "patch" in headers["content-type"]
    method, path = ("PATCH", f"{CONFIG_MAPS}/kept") if is_patch else ("POST", f"{CONFIG_MAPS}?dryRun=All")
    reply = unchanged.ask(method, f"{path}?dryRun=All" if is_patch else path, body, headers)
    assert reply.code in (200, 201) or check_any_status(reply)


def check_any_status(reply: Reply) -> bool:
    """A refusal in the client's terms, and no bug of ours."""
    assert 400 <= reply.code < 500, reply.body
    return bool(check_status(reply, reply.code, reply.obj["reason"]))


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "a: b: c",
        "a: &x [*x]",
        "\t- x",
        "!!python/object/apply:os.system ['true']",
        "metadata: {name: x}\n---\nmetadata: {name: y}\n--- {",
        "? [a]\n: b",
        "\0",
        "[" * NESTED,
        "metadata: *nowhere",
        "- " * NESTED,
    ],
)
def test_bad_yaml_is_a_bad_request(unchanged: Server, body: str) -> None:
    check_status(unchanged.ask("POST", CONFIG_MAPS, body.encode(), YAML), 400, "BadRequest")


def test_a_yaml_bomb_does_not_explode(unchanged: Server) -> None:
    levels = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    reply = unchanged.ask("POST", CONFIG_MAPS, "\n".join(levels).encode(), YAML)
    assert reply.code >= 400
    assert len(reply.body) < 1 << 20


def test_a_patch_cannot_make_an_object_explode(unchanged: Server) -> None:
    """Each copy doubles what is copied; kube-apiserver bounds the copied bytes."""
    grow = [{"op": "add", "path": "/data/a", "value": "x" * 1000}]
    for _ in range(30):
        grow += [
            {"op": "copy", "from": "/data", "path": "/data/b"},
            {"op": "move", "from": "/data/b", "path": "/data/c"},
        ]
    reply = unchanged.ask("PATCH", f"{CONFIG_MAPS}/kept", grow, JSON_PATCH)
    assert 400 <= reply.code < 500
    assert len(reply.body) < 4 << 20


def test_a_patch_of_very_many_operations_is_too_large(unchanged: Server) -> None:
    operations = [{"op": "test", "path": "/data/k", "value": "v"}] * 10_001
    check_status(unchanged.ask("PATCH", f"{CONFIG_MAPS}/kept", operations, JSON_PATCH), 413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("method", "path", "content_type"),
    [
        ("POST", CONFIG_MAPS, "text/plain"),
        ("POST", CONFIG_MAPS, "application/x-www-form-urlencoded"),
        ("POST", CONFIG_MAPS, "application/json-patch+json"),
        ("POST", CONFIG_MAPS, "nonsense"),
        ("PUT", f"{CONFIG_MAPS}/kept", "text/html; charset=utf-8"),
        ("PATCH", f"{CONFIG_MAPS}/kept", "application/json"),
        ("PATCH", f"{CONFIG_MAPS}/kept", ""),
        ("DELETE", f"{CONFIG_MAPS}/kept", "text/plain"),
    ],
)
def test_a_content_type_that_nobody_reads_is_a_415(
    unchanged: Server, method: str, path: str, content_type: str
) -> None:
    reply = unchanged.ask(method, path, b'{"metadata":{"name":"x"}}', {"content-type": content_type})
    check_status(reply, 415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    "accept", ["text/plain", "image/png", "application/xml", "application/json;as=Nonsense;g=x;v=y"]
)
def test_an_answer_that_nobody_can_make_is_a_406(unchanged: Server, accept: str) -> None:
    check_status(unchanged.ask("GET", CONFIG_MAPS, headers={"accept": accept}), 406, "NotAcceptable")


@pytest.mark.parametrize(
    "accept",
    ["application/json;q=0.5, */*", ";;;", ", ,", "application/json;as", "*/*;=,=;=", "application/json;as=Table"],
)
def test_odd_accept_headers_get_an_answer(unchanged: Server, accept: str) -> None:
    assert unchanged.ask("GET", CONFIG_MAPS, headers={"accept": accept}).code in (200, 406)


# -- queries

HUGE = "9" * 25


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ("labelSelector=a%3D%3D%3Db", 400, "BadRequest"),
        ("labelSelector=a+in+b", 400, "BadRequest"),
        ("labelSelector=a+in+(", 400, "BadRequest"),
        ("labelSelector=%00", 400, "BadRequest"),
        ("labelSelector=-a-", 400, "BadRequest"),
        ("labelSelector=a%3D" + "b" * 64, 400, "BadRequest"),
        ("labelSelector=,", 400, "BadRequest"),
        ("fieldSelector=a", 400, "BadRequest"),
        ("fieldSelector=spec.nonsense%3Dx", 400, "BadRequest"),
        ("fieldSelector=%3D", 400, "BadRequest"),
        ("fieldSelector=metadata.name%3Da%5C", 400, "BadRequest"),
        ("limit=many", 400, "BadRequest"),
        ("limit=1_0", 400, "BadRequest"),
        ("limit=1.5", 400, "BadRequest"),
        (f"limit={HUGE}", 400, "BadRequest"),
        ("limit=" + "9" * 5000, 400, "BadRequest"),
        ("limit=", 400, "BadRequest"),
        ("timeoutSeconds=soon", 400, "BadRequest"),
        (f"timeoutSeconds=-{HUGE}", 400, "BadRequest"),
        ("continue=nonsense", 400, "BadRequest"),
        ("resourceVersion=x", 500, ""),
        (f"resourceVersion={HUGE}", 500, ""),
        ("resourceVersion=-1", 500, ""),
        ("resourceVersion=1&resourceVersionMatch=Sometimes", 422, "Invalid"),
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422, "Invalid"),
        ("sendInitialEvents=true", 422, "Invalid"),
    ],
)
@pytest.mark.parametrize("watch", ["", "&watch=1"])
def test_a_list_or_watch_with_options_that_make_no_sense_is_refused(
    unchanged: Server, query: str, code: int, reason: str, watch: str
) -> None:
    if not (watch and query.startswith("continue")):  # a watch has no pages
        check_status(unchanged.ask("GET", f"{CONFIG_MAPS}?{query}{watch}"), code, reason)


@pytest.mark.parametrize(
    "query", ["limit=-1", "limit=0", "limit=9223372036854775807", "nonsense=1", "labelSelector=", "limit=1&limit=x"]
)
def test_a_list_with_options_that_say_little_is_the_list(unchanged: Server, query: str) -> None:
    assert unchanged.ask("GET", f"{CONFIG_MAPS}?{query}").code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", f"{CONFIG_MAPS}?dryRun=Maybe", {"metadata": {"name": "x"}}, 422),
        ("POST", f"{CONFIG_MAPS}?fieldValidation=Maybe", {"metadata": {"name": "x"}}, 422),
        ("POST", f"{CONFIG_MAPS}?fieldManager={'x' * 129}", {"metadata": {"name": "x"}}, 422),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "Not A Name"}}, 422),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "a/b"}}, 422),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "x" * 254}}, 422),
        ("POST", CONFIG_MAPS, {"metadata": {}}, 422),
        ("POST", CONFIG_MAPS, {"metadata": {"name": "x", "labels": {"-": "x"}}}, 422),
        ("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "x"}}, 404),
        ("POST", "/api/v1/namespaces/%2e%2e/configmaps", {"metadata": {"name": "x"}}, 404),
        ("PUT", f"{CONFIG_MAPS}/kept", {"metadata": {"name": "other"}}, 400),
        ("PUT", f"{CONFIG_MAPS}/kept", {"metadata": {"name": "kept", "resourceVersion": "1"}}, 409),
        ("PUT", f"{CONFIG_MAPS}/nobody", {"metadata": {"name": "nobody"}}, 404),
        ("DELETE", f"{CONFIG_MAPS}/kept", {"preconditions": {"uid": "x"}}, 409),
        ("DELETE", f"{CONFIG_MAPS}/kept", {"propagationPolicy": "Sideways"}, 422),
        ("DELETE", f"{CONFIG_MAPS}/kept?gracePeriodSeconds=soon", None, 400),
        ("DELETE", f"{CONFIG_MAPS}/kept?gracePeriodSeconds={HUGE}", None, 400),
        ("DELETE", f"{CONFIG_MAPS}/nobody", None, 404),
        ("DELETE", f"{CONFIG_MAPS}?labelSelector=a%3D%3D%3Db", None, 400),
        ("POST", f"{PODS}/nobody/eviction", {"metadata": {"name": "nobody"}}, 404),
        ("POST", f"{PODS}/kept/binding", {"metadata": {"name": "kept"}}, 500),
        ("PUT", f"{CONFIG_MAPS}/kept", {"metadata": {}}, 400),
        ("PUT", f"{CONFIG_MAPS}/kept", {"metadata": {"name": "kept", "namespace": "kube-system"}}, 400),
        ("GET", f"{CONFIG_MAPS}/%ff%fe", None, 404),
        ("GET", f"{CONFIG_MAPS}/" + "x" * 8000, None, 404),
    ],
)
def test_a_request_that_cannot_be_granted_is_refused_with_its_reason(
    unchanged: Server, method: str, path: str, body: Any, code: int
) -> None:
    reply = unchanged.ask(method, path, body)
    check_status(reply, code, reply.obj.get("reason", ""))
    assert code < 500 or "reason" not in reply.obj  # one of Kubernetes' own


@pytest.mark.parametrize(
    ("patch", "headers", "code"),
    [
        ([{"op": "fly", "path": "/data"}], JSON_PATCH, 422),
        ([{"op": "remove", "path": "/data/nothing"}], JSON_PATCH, 422),
        ([{"op": "add", "path": "data", "value": 1}], JSON_PATCH, 422),
        ([{"op": "replace", "path": "/metadata/name", "value": "x"}], JSON_PATCH, 400),
        ([{"op": "replace", "path": "", "value": 3}], JSON_PATCH, 422),
        ([{"op": "replace", "path": "", "value": None}], JSON_PATCH, 422),
        ([{"op": "remove", "path": "/metadata"}], JSON_PATCH, 400),
        ([{"op": "copy", "from": "/nothing", "path": "/data/x"}], JSON_PATCH, None),
        ([{"op": "add", "path": "/data/~2", "value": "x"}], JSON_PATCH, None),
        ({"op": "add"}, JSON_PATCH, 400),
        ([3], JSON_PATCH, 400),
        ({"metadata": 3}, MERGE, 422),
        ({"metadata": None}, MERGE, None),
        ({"data": {"k": {"deep": []}}}, MERGE, 422),
        ({"metadata": {"resourceVersion": "1"}}, MERGE, 409),
        ({"metadata": {"resourceVersion": "x"}}, MERGE, 500),
        ({"metadata": {"name": "other"}}, MERGE, 400),
        ({"metadata": {"name": None}}, MERGE, 400),
        ({"metadata": {"namespace": "kube-system"}}, MERGE, 400),
        ({"metadata": {"namespace": None}}, MERGE, None),
        ({"metadata": {"uid": "x"}}, MERGE, None),
        ({"metadata": {"finalizers": [{"$patch": "delete"}]}}, STRATEGIC, None),
        ({"$patch": "explode"}, STRATEGIC, None),
        ({"metadata": {"ownerReferences": [{}]}}, STRATEGIC, None),
        ({"$retainKeys": 3}, STRATEGIC, None),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": 3}}, STRATEGIC, None),
    ],
)
def test_a_patch_that_cannot_be_applied_is_refused(
    server: Server, patch: Any, headers: dict[str, str], code: int | None
) -> None:
    reply = server.ask("PATCH", f"{CONFIG_MAPS}/kept?dryRun=All", patch, headers)
    if code is None:
        assert reply.code < 500 or "reason" not in reply.obj
    else:
        check_status(reply, code, reply.obj.get("reason", ""))


# -- strictness


@pytest.mark.parametrize(
    ("validation", "code", "warned"),
    [("Strict", 400, False), ("Warn", 201, True), ("", 201, True), ("Ignore", 201, False)],
)
@pytest.mark.parametrize(
    ("body", "headers", "said"),
    [
        (b'{"metadata":{"name":"s"},"data":{},"data":{"k":"v"}}', JSON, 'duplicate field "data"'),
        (b'{"metadata":{"name":"s"},"nonsense":1}', JSON, 'unknown field "nonsense"'),
        (b"metadata: {name: s}\nnonsense: 1\n", YAML, 'unknown field "nonsense"'),
    ],
)
def test_what_a_body_holds_too_much_is_judged_as_asked(
    unchanged: Server, body: bytes, headers: dict[str, str], said: str, validation: str, code: int, warned: bool
) -> None:
    """X-02."""
    option = f"&fieldValidation={validation}" if validation else ""
    reply = unchanged.ask("POST", f"{CONFIG_MAPS}?dryRun=All{option}", body, headers)
    if code == 400:
        assert f"strict decoding error: {said}" in check_status(reply, 400, "BadRequest")
    else:
        assert reply.code == code
    assert any(said.replace('"', '\\"') in one for one in reply.warnings) is warned


def test_broken_utf8_becomes_the_replacement_character_as_in_go(unchanged: Server) -> None:
    reply = unchanged.ask("POST", f"{CONFIG_MAPS}?dryRun=All", b'{"metadata":{"name":"s"},"data":{"k":"a\xff\xedb"}}')
    assert reply.code == 201
    assert reply.obj["data"]["k"] == "a��b"
    reply = unchanged.ask("POST", f"{CONFIG_MAPS}?dryRun=All", b'{"metadata":{"name":"s"},"data":{"k":"\\ud800"}}')
    assert reply.obj["data"]["k"] == "�"


def test_an_object_that_is_read_back_is_what_was_written_whatever_is_in_its_strings(server: Server) -> None:
    strange = '\u0000\u007f\u2028\U0001f600"\\/<>&é'
    made = server.ask("POST", CONFIG_MAPS, {"metadata": {"name": "strange"}, "data": {"k": strange}})
    assert made.code == 201
    assert server.ask("GET", f"{CONFIG_MAPS}/strange").obj["data"]["k"] == strange
    assert server.ask("DELETE", f"{CONFIG_MAPS}/strange").code == 200


# -- fuzz

#: Kinds whose creation is a question that is answered, or that would change what the other kinds mean.
_ROWS = [row for row in RESOURCES if "list" in row.verbs and row.kind != "Namespace"]
#: Kubernetes' own 500s: they have no reason, and stand for a client's mistake.
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
_WORDS = [
    "", "a", "A b", "-", "x" * 300, "10Mi", "1e3", "-1", "0", "100m", "50%", "kubernetes.io/hostname", "a/b/c", "In", "Always",
    "Never", "NoSchedule", "ClusterIP", "127.0.0.1", "::1", "10.0.0.0/8", "2026-01-01T00:00:00Z", "*/5 * * * *", "TCP", "v1", "é\0",
]  # fmt: skip
_NUMBERS = [0, 1, -1, 3, 80, 65536, 2**31 - 1, -(2**31), 2**63 - 1]
#: Values of types that are strings with a form of their own.
_FORMED = {
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

    def _value(self, shape: wire.Shape, depth: int) -> Any:
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


_FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


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
            one = f"{path}/{quote(meta['name'])}"
            assert ask("GET", one).obj == made.obj
            for method, headers in (("PUT", JSON), ("PATCH", MERGE), ("PATCH", STRATEGIC)):
                ask(method, one, again, headers)
                ask(method, f"{one}/status", again, headers)
            ask("GET", path, headers={"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
            ask("DELETE", f"{one}?gracePeriodSeconds=0")
            ask("PATCH", one, {"metadata": {"finalizers": None}}, MERGE)
        connection.close()


@_FUZZ
@given(row=st.sampled_from(_ROWS), seed=st.integers(0, 2**32), wrongness=st.sampled_from([0.0, 0.02, 0.2]))
def test_no_object_of_any_kind_is_more_than_the_server_can_judge(
    running: Server, row: Resource, seed: int, wrongness: float
) -> None:
    """Random objects in the shape of their kind."""
    maker = Maker(Random(seed), wrongness)
    check_life(running, path_of(row), maker.object(row), maker.object(row))


@_FUZZ
@given(good=st.sampled_from(_good_objects()), seed=st.integers(0, 2**32))
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
    content_type=st.sampled_from([JSON, YAML, PROTOBUF, MERGE, JSON_PATCH, STRATEGIC]),
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
