"""Answers in protobuf, which Go clients ask for, read with our decoder and with a small one that knows no types."""

from __future__ import annotations

import copy
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.errors import BadRequest, NotAcceptable
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import EventType
from fairlead.server.codec import protobuf, wire
from fairlead.server.codec.normalise import normalise, zero_object
from fairlead.server.codec.protobuf_writer import message_type, message_writer, object_message
from fairlead.server.codec.wire import WireType
from fairlead.server.http.messages import event_writer
from fairlead.server.http.negotiate import JSON, PARTIAL, PROTOBUF, YAML, MediaTypeOptions, aggregated_form_of, form_of
from fairlead.server.storage.entries import CacheEvent, Entry
from tests.server.http_world import CONFIG_MAPS, Reply, Server, serving_in_a_thread, uncomplaining
from tests.server.protobuf_reader import contents, decoded, fields, frames, opened, without_kind
from tests.server.test_custom_kinds import WIDGETS
from tests.server.test_protobuf import CREATE_BUDGET, CREATE_DEPLOYMENT, CREATE_SECRET, EVERY_SHAPE

GOLDEN = Path(__file__).parents[1] / "golden" / "api"
AS_PROTOBUF = {"accept": f"{PROTOBUF}, {JSON}"}
ONLY_PROTOBUF = {"accept": PROTOBUF}
_PARTIAL = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_PARTIALS = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
#: What client-go's metadata informers send with a list, and with a watch.
METADATA_LIST = {"accept": f"{PROTOBUF};{_PARTIALS},{JSON};{_PARTIALS},{JSON}"}
METADATA_WATCH = {"accept": f"{PROTOBUF};{_PARTIAL},{JSON};{_PARTIAL},{JSON}"}
JSON_METADATA = {"accept": f"{JSON};{_PARTIAL}"}
MERGE = {"content-type": "application/merge-patch+json"}
CORE = "io.k8s.api.core.v1"
LEASE = "io.k8s.api.coordination.v1.LeaseSpec"
SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WIDGET_PATHS = "/apis/example.com/v1/namespaces/default/widgets"


# --- messages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [CREATE_DEPLOYMENT, CREATE_SECRET, CREATE_BUDGET])
def test_what_go_has_written_is_written_the_same(body: str) -> None:
    api_version, kind, message = opened(b64decode(body))
    obj = {"kind": kind, "apiVersion": api_version} | protobuf.read(message, message_type(kind, api_version))
    assert object_message(obj) == b64decode(body)
    normalise(obj, message_type(kind, api_version))
    assert object_message(obj) == b64decode(body)


def _objects(value: Any) -> Iterator[Obj]:
    if isinstance(value, dict):
        if isinstance(value.get("kind"), str) and isinstance(value.get("apiVersion"), str):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _objects(item)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recorded_object_is_read_back_as_it_was_written(path: Path) -> None:
    for found in _objects(yaml.load(path.read_bytes(), yaml.CSafeLoader)):
        obj = copy.deepcopy(found)
        definition = message_type(obj["kind"], obj["apiVersion"])
        if not definition or "items" in obj:  # items of a list lose their kind
            continue
        try:
            normalise(obj, definition)
        except BadRequest:
            continue
        assert decoded(object_message(obj)) == obj


_TEXT = st.text(max_size=6)
_JSON = st.recursive(
    st.none() | st.booleans() | _TEXT | st.integers(), lambda of: st.lists(of) | st.dictionaries(_TEXT, of)
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": _TEXT,
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary(max_size=4).map(lambda raw: b64encode(raw).decode()),
    "quantity": st.sampled_from(["0", "100m", "1Gi", "-5", "12e6"]),
    "intstr": _TEXT | st.integers(-(2**31), 2**31 - 1),
    "time": st.datetimes(datetime(1, 1, 2)).map(lambda time: time.isoformat(timespec="seconds") + "Z"),
    "microtime": st.datetimes(datetime(1, 1, 2)).map(lambda time: time.isoformat(timespec="microseconds") + "Z"),
    "raw": st.dictionaries(_TEXT, _JSON, min_size=1),
    "fields": st.dictionaries(_TEXT, _JSON),
    "json": _JSON.filter(lambda value: value is not None),
    "schema-or-bool": st.booleans() | st.just({}),
    "schema-or-array": st.just({}) | st.just([{}, {}]),
    "schema-or-strings": st.just({}) | st.lists(_TEXT, min_size=1),
    **{form: st.integers(*bounds) for form, bounds in wire.INTEGERS.items()},
}


def _value(draw: st.DrawFn, shape: WireType) -> Any:
    if shape.form == "struct":
        return _object(draw, shape.definition)
    if shape.form == "list":
        return [_value(draw, shape.element) for _ in range(draw(st.integers(1, 2)))] if shape.element else []
    if shape.form == "map":
        return {key: _value(draw, shape.element) for key in draw(st.sets(_TEXT, max_size=2))} if shape.element else {}
    return draw(_VALUES[shape.form])


def _object(draw: st.DrawFn, definition: str) -> Obj:
    """Any object of a type, with up to three of its fields."""
    found: Obj = {}
    fields = [field for field in wire.declared(definition) if field.number]
    for field in (
        draw(st.lists(st.sampled_from(fields), max_size=3, unique_by=lambda field: field.number)) if fields else ()
    ):
        value = _value(draw, field.shape)
        found |= {field.name: value} if field.name else value
    return found


@st.composite
def any_object(draw: st.DrawFn) -> tuple[str, Obj]:
    row = draw(st.sampled_from(builtin.RESOURCES))
    return row.definition, _object(draw, row.definition)


@given(any_object())
def test_any_object_is_read_back_as_it_was_written(found: tuple[str, Obj]) -> None:
    definition, obj = found
    normalise(obj, definition)
    normalise(back := protobuf.read(message_writer(definition)(obj), definition), definition)
    assert back == obj


@pytest.mark.parametrize(("definition", "obj"), EVERY_SHAPE)
def test_every_shape_is_read_back_as_it_was_written(definition: str, obj: Obj) -> None:
    normalise(expected := copy.deepcopy(obj), definition)
    normalise(back := protobuf.read(message_writer(definition)(expected), definition), definition)
    assert back == expected


@pytest.mark.parametrize("row", builtin.RESOURCES, ids=lambda row: row.qualified)
def test_every_built_in_kind_has_a_message_and_a_list(row: Resource) -> None:
    assert message_type(row.kind, row.api_version) == row.definition
    empty = zero_object(row.definition)
    back = protobuf.read(message_writer(row.definition)(empty), row.definition)
    normalise(back, row.definition)
    assert back == empty
    if "list" in row.verbs:
        assert {"metadata", "items"} <= wire.fields(message_type(f"{row.kind}List", row.api_version)).keys()


@pytest.mark.parametrize(
    ("definition", "obj", "message"),
    [
        (f"{CORE}.ContainerPort", {}, "0a00 1000 1800 2200 2a00"),
        (f"{CORE}.ContainerPort", {"containerPort": -1}, "0a00 1000 18ffffffffffffffffff01 2200 2a00"),
        (f"{CORE}.ContainerPort", {"name": "é" * 64}, f"0a8001{'c3a9' * 64} 1000 1800 2200 2a00"),
        (f"{CORE}.TCPSocketAction", {"port": 300}, "0a07 0800 10ac02 1a00 1200"),
        (f"{CORE}.TCPSocketAction", {"port": "web"}, "0a09 0801 1000 1a03776562 1200"),
        (f"{CORE}.ResourceFieldSelector", {}, "0a00 1200 1a03 0a0130"),
        (f"{CORE}.SecurityContext", {"privileged": False}, "1000"),
        (f"{CORE}.ConfigMapEnvSource", {"name": "m", "optional": True}, "0a03 0a016d 1001"),
        (f"{CORE}.Volume", {"name": "v", "emptyDir": {}}, "0a0176 1204 1202 0a00"),
        (f"{wire.META}.LabelSelector", {"matchLabels": {"b": "", "a": "x"}}, "0a06 0a0161 120178 0a05 0a0162 1200"),
        (f"{wire.META}.APIResource", {"verbs": ["get"]}, "0a00 1000 1a00 2205 0a03676574 3200 4200 4a00 5200"),
        (f"{wire.META}.APIResource", {"verbs": []}, "0a00 1000 1a00 2200 3200 4200 4a00 5200"),
        (f"{wire.META}.Condition", {}, "0a00 1200 1800 2200 2a00 3200"),
        (LEASE, {"renewTime": "1970-01-01T00:00:01.000002Z"}, "2205 0801 10d00f"),
        (LEASE, {"acquireTime": "1969-12-31T23:59:59.500000Z"}, f"1a11 08{'ff' * 9}01 1080cab5ee01"),
    ],
    ids=str,
)  # fmt: skip
def test_the_bytes_are_those_of_go(definition: str, obj: Obj, message: str) -> None:
    assert message_writer(definition)(obj).hex() == message.replace(" ", "")


def test_what_go_keeps_as_bytes_is_written_if_it_is_there() -> None:
    data = {"c": "AQ==", "b": None, "a": ""}
    written = contents(message_writer(f"{CORE}.Secret")({"data": data}), 2)
    assert written == [b"\x0a\x01a\x12\x00", b"\x0a\x01b", b"\x0a\x01c\x12\x01\x01"]


@pytest.mark.parametrize(
    ("schema", "number", "content"),
    [
        ({"default": {"a": [1, None]}}, 8, b'\x0a\x0e{"a":[1,null]}'),
        ({"enum": [None]}, 20, b""),
        ({"additionalProperties": False}, 30, b"\x08\x00"),
        ({"additionalProperties": True}, 30, b"\x08\x01"),
        ({"additionalProperties": {}}, 30, b"\x08\x01\x12\x1e" + message_writer(SCHEMA)({})),
        ({"items": {}}, 24, b"\x0a\x1e" + message_writer(SCHEMA)({})),
        ({"items": [{}]}, 24, b"\x12\x1e" + message_writer(SCHEMA)({})),
        ({"dependencies": {"a": ["b"]}}, 32, b"\x0a\x01a\x12\x03\x12\x01b"),
    ],
    ids=str,
)
def test_parts_of_schemas_that_may_be_several_things(schema: Obj, number: int, content: bytes) -> None:
    assert contents(message_writer(SCHEMA)(schema), number) == [content]


# --- negotiation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (f"{PROTOBUF},{JSON}", (PROTOBUF, "")),
        (f"{JSON},{PROTOBUF}", (JSON, "")),
        (f"{JSON};q=0.5,{PROTOBUF};q=0.9", (PROTOBUF, "")),
        (f"*/*,{PROTOBUF}", (PROTOBUF, "")),
        ("*/*", (JSON, "")),
        (f"{PROTOBUF};stream=watch,{JSON}", (PROTOBUF, "")),
        (f"{PROTOBUF};stream=other,{JSON}", (JSON, "")),
        (f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,{JSON};as=Table;g=meta.k8s.io;v=v1", (JSON, "Table")),
        (f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,{PROTOBUF}", (PROTOBUF, "")),
        (f"{PROTOBUF};{_PARTIAL},{JSON}", (PROTOBUF, "PartialObjectMetadata")),
        (f"{PROTOBUF};as=Nope;g=meta.k8s.io;v=v1,{YAML}", (YAML, "")),
        (f"application/cbor,{PROTOBUF}", (PROTOBUF, "")),
    ],
)
def test_the_first_that_can_be_had_wins(accept: str, chosen: tuple[str, str]) -> None:
    form = form_of(accept)
    assert (form.media_type, form.transform) == chosen


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [(AS_PROTOBUF["accept"], JSON), (f"{PROTOBUF};{_PARTIAL},{JSON}", PROTOBUF), (f"{PROTOBUF},{YAML}", YAML)],
)
def test_a_kind_without_messages_is_answered_otherwise(accept: str, chosen: str) -> None:
    assert form_of(accept, has_messages=False).media_type == chosen
    with pytest.raises(NotAcceptable):
        form_of(PROTOBUF, has_messages=False)


def test_all_of_discovery_is_shown_to_whoever_takes_it_at_all() -> None:
    wanted = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert aggregated_form_of(f"{JSON},{YAML}") is None
    assert aggregated_form_of(f"{JSON}{wanted.replace('v2', 'v2beta1')},{JSON}") is None
    for media_type in (JSON, PROTOBUF):
        form = aggregated_form_of(f"{JSON},{media_type}{wanted}")
        assert form is not None and form.media_type == media_type


# --- over HTTP ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with serving_in_a_thread() as server:
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"} | WIDGETS
        assert server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).code == 201
        server.soon(lambda: server.ask("GET", WIDGET_PATHS).code == 200)
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": "b"}}}
        assert server.ask("POST", WIDGET_PATHS, widget).code == 201
        yield server


@pytest.fixture
def server(running: Server) -> Iterator[Server]:
    with uncomplaining():
        yield running


def both(server: Server, path: str, headers: dict[str, str] = AS_PROTOBUF) -> Obj:
    """The answer in protobuf, which must say what the one in JSON says."""
    reply = server.ask("GET", path, headers=headers)
    assert (reply.code, reply.headers["content-type"]) == (200, PROTOBUF)
    obj = decoded(reply.body)
    shown = server.ask("GET", path, headers={"accept": headers["accept"].replace(PROTOBUF, JSON)}).obj
    for found in (obj, shown):
        if "items" in found:
            found["items"] = without_kind(found["items"] or [])
    assert obj == shown
    return obj


def refusal(reply: Reply, code: int) -> Obj:
    """The `Status` of a refusal in protobuf."""
    assert (reply.code, reply.headers["content-type"]) == (code, PROTOBUF)
    status = decoded(reply.body)
    assert (status["kind"], status["apiVersion"], status["code"]) == ("Status", "v1", code)
    return status


def test_an_object_is_made_changed_and_read_in_protobuf(server: Server) -> None:
    headers = {"content-type": PROTOBUF, **ONLY_PROTOBUF}
    made = server.ask("POST", DEPLOYMENTS, b64decode(CREATE_DEPLOYMENT), headers)
    assert (made.code, made.headers["content-type"]) == (201, PROTOBUF)
    deployment = both(server, f"{DEPLOYMENTS}/web")
    assert decoded(made.body) == deployment
    deployment["spec"]["replicas"] = 0
    changed = server.ask("PUT", f"{DEPLOYMENTS}/web", object_message(deployment), headers)
    assert decoded(changed.body)["spec"]["replicas"] == 0
    scale = both(server, f"{DEPLOYMENTS}/web/scale")
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {})
    patched = server.ask("PATCH", f"{DEPLOYMENTS}/web/scale", b'{"spec":{"replicas":2}}', {**ONLY_PROTOBUF, **MERGE})
    assert decoded(patched.body)["spec"] == {"replicas": 2}
    gone = server.ask("DELETE", f"{DEPLOYMENTS}/web", headers=ONLY_PROTOBUF)
    assert decoded(gone.body)["status"] == "Success"


def test_what_is_only_answered_comes_in_protobuf_too(server: Server) -> None:
    headers = {"content-type": JSON, **ONLY_PROTOBUF}
    server.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    path = "/api/v1/namespaces/default/serviceaccounts/robot/token"
    token = decoded(server.ask("POST", path, {"spec": {"audiences": ["a"]}}, headers).body)
    assert token["kind"] == "TokenRequest" and token["status"]["token"]
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert decoded(server.ask("POST", path, review, headers).body)["status"]["allowed"] is True
    server.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    evicted = server.ask("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}, headers)
    assert (evicted.code, decoded(evicted.body)["status"]) == (201, "Success")


def test_a_page_of_a_list_tells_how_it_goes_on(server: Server) -> None:
    for name in ("page-a", "page-b", "page-c"):
        server.ask("POST", CONFIG_MAPS, {"metadata": {"name": name, "labels": {"in": "pages"}}, "data": {"k": name}})
    both(server, CONFIG_MAPS)
    page = both(server, f"{CONFIG_MAPS}?limit=2")
    assert (len(page["items"]), page["kind"]) == (2, "ConfigMapList")
    assert page["metadata"]["continue"] and page["metadata"]["remainingItemCount"] >= 1
    pages = both(server, f"{CONFIG_MAPS}?labelSelector=in%3Dpages")
    assert [item["data"]["k"] for item in pages["items"]] == ["page-a", "page-b", "page-c"]
    assert not both(server, f"{CONFIG_MAPS}?labelSelector=in%3Dnothing")["items"]


def test_what_a_collection_loses_is_listed(server: Server) -> None:
    path = "/api/v1/namespaces/default/endpoints"
    for name in ("lost-a", "lost-b"):
        server.ask("POST", path, {"metadata": {"name": name}})
    gone = server.ask("DELETE", path, headers=ONLY_PROTOBUF)
    assert gone.headers["content-type"] == PROTOBUF
    assert {item["metadata"]["name"] for item in decoded(gone.body)["items"]} >= {"lost-a", "lost-b"}
    assert not both(server, path)["items"]


def test_a_list_is_as_go_writes_it(server: Server) -> None:
    server.ask("POST", CONFIG_MAPS, {"metadata": {"name": "only", "labels": {"is": "alone"}}})
    reply = server.ask("GET", f"{CONFIG_MAPS}?labelSelector=is%3Dalone", headers=ONLY_PROTOBUF)
    _, kind, message = opened(reply.body)
    (first, meta), (second, item) = fields(message)
    assert (kind, first, second) == ("ConfigMapList", 1, 2)
    assert isinstance(meta, bytes) and isinstance(item, bytes)
    assert [number for number, _ in fields(meta)] == [1, 2, 3]
    assert item == opened(server.ask("GET", f"{CONFIG_MAPS}/only", headers=ONLY_PROTOBUF).body)[2]


def test_an_older_version_of_a_kind_has_messages_of_its_own(server: Server) -> None:
    path = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
    scaler = {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": {"kind": "D", "name": "d"}, "maxReplicas": 3}}
    assert server.ask("POST", path.format("v1"), scaler).code == 201
    for version in ("v1", "v2"):
        assert both(server, path.format(version))["apiVersion"] == f"autoscaling/{version}"
        assert both(server, path.format(version) + "/h")["apiVersion"] == f"autoscaling/{version}"
    stream = server.ask("GET", f"{path.format('v1')}?watch=1&timeoutSeconds=-1", headers=ONLY_PROTOBUF)
    assert [obj["apiVersion"] for _, obj in frames(stream.body)] == ["autoscaling/v1"]


def test_metadata_alone(server: Server) -> None:
    server.ask("POST", CONFIG_MAPS, {"metadata": {"name": "bare"}, "data": {"k": "v"}})
    found = both(server, f"{CONFIG_MAPS}/bare", METADATA_WATCH)
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    listed = both(server, CONFIG_MAPS, METADATA_LIST)
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert all(item.keys() == {"metadata"} for item in listed["items"])
    old = both(server, CONFIG_MAPS, {"accept": METADATA_LIST["accept"].replace("v=v1", "v=v1beta1")})
    assert (old["items"], old["apiVersion"]) == (listed["items"], "meta.k8s.io/v1beta1")


def test_custom_resources_have_no_messages_but_their_metadata_has(server: Server) -> None:
    for path in (WIDGET_PATHS, f"{WIDGET_PATHS}/w", f"{WIDGET_PATHS}?watch=1&timeoutSeconds=-1"):
        assert server.ask("GET", path, headers=AS_PROTOBUF).headers["content-type"] == JSON
        message = refusal(server.ask("GET", path, headers=ONLY_PROTOBUF), 406)["message"]
        assert message == f"only the following media types are accepted: {JSON}, {YAML}, {PROTOBUF}"
    assert both(server, f"{WIDGET_PATHS}/w", METADATA_WATCH)["metadata"]["labels"] == {"a": "b"}
    assert both(server, WIDGET_PATHS, METADATA_LIST)["items"][0]["metadata"]["name"] == "w"
    both(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")


def test_refusals_come_in_protobuf(server: Server) -> None:
    missing = refusal(server.ask("GET", f"{CONFIG_MAPS}/nobody", headers=AS_PROTOBUF), 404)
    assert missing["details"] == {"name": "nobody", "kind": "configmaps"}
    assert refusal(server.ask("GET", f"{WIDGET_PATHS}/nobody", headers=AS_PROTOBUF), 404)["reason"] == "NotFound"
    bad = {"metadata": {"name": "No Name"}}
    refused = server.ask("POST", CONFIG_MAPS, bad, {"content-type": JSON, **AS_PROTOBUF})
    assert refusal(refused, 422)["details"]["causes"][0]["field"] == "metadata.name"


@pytest.mark.parametrize("accept", [f"{PROTOBUF};{_PARTIAL}", f"{JSON};{_PARTIAL}", "image/png"])
def test_a_refusal_that_can_be_shown_in_no_form_that_is_wanted_is_indented_json(server: Server, accept: str) -> None:
    reply = server.ask("GET", f"{CONFIG_MAPS}/nobody", headers={"accept": accept})
    assert reply.headers["content-type"] == JSON
    assert reply.body.startswith(b'{\n  "kind": "Status",\n')
    metadata = {"accept": METADATA_WATCH["accept"]}
    assert server.ask("GET", f"{CONFIG_MAPS}/nobody", headers=metadata).headers["content-type"] == JSON


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps", "/api/v1", "/apis/apps/v1", "/apis/example.com/v1"])
def test_discovery_in_protobuf(server: Server, path: str) -> None:
    reply = server.ask("GET", path, headers=ONLY_PROTOBUF)
    api_version, kind, _ = opened(reply.body)
    shown = server.ask("GET", path).obj
    assert (api_version, kind) == (shown.get("apiVersion", ""), shown["kind"])
    found, definition = decoded(reply.body), message_type(kind, api_version)
    normalise(shown, definition)
    assert {key: found[key] for key in shown} == shown


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_all_of_discovery_in_one_document_in_protobuf(server: Server, path: str) -> None:
    wanted = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    shown = server.ask("GET", path, headers={"accept": f"{JSON};{wanted}"})
    reply = server.ask("GET", path, headers={"accept": f"{PROTOBUF};{wanted},{JSON}"})
    assert reply.headers["content-type"] == f"{PROTOBUF};{wanted}"
    expected = shown.obj
    normalise(expected, message_type(expected["kind"], expected["apiVersion"]))
    assert decoded(reply.body) == expected
    for answer in (shown, reply):
        assert (answer.headers["vary"], answer.headers["cache-control"]) == ("Accept", "public")
        assert answer.headers["etag"] == shown.headers["etag"]
    known = {"accept": f"{JSON};{wanted}", "if-none-match": shown.headers["etag"]}
    unchanged = server.ask("GET", path, headers=known)
    assert (unchanged.code, unchanged.body, unchanged.headers["etag"]) == (304, b"", shown.headers["etag"])


# --- watches --------------------------------------------------------------------------------------------------------


def test_a_watch_tells_everything_in_frames(server: Server) -> None:
    revision = server.ask("GET", CONFIG_MAPS).obj["metadata"]["resourceVersion"]
    selected = "labelSelector=seen%3Dyes"
    labelled = {"metadata": {"name": "seen", "labels": {"seen": "yes"}}}
    server.ask("POST", CONFIG_MAPS, labelled)
    server.ask("PATCH", f"{CONFIG_MAPS}/seen", {"data": {"k": "v"}}, MERGE)
    server.ask("DELETE", f"{CONFIG_MAPS}/seen")
    path = f"{CONFIG_MAPS}?watch=1&timeoutSeconds=-1&{selected}&resourceVersion={revision}"
    stream = server.ask("GET", path, headers=AS_PROTOBUF)
    assert stream.headers["content-type"] == f"{PROTOBUF};stream=watch"
    lines = [json.loads(line) for line in server.ask("GET", path).body.splitlines()]
    assert list(frames(stream.body)) == [(line["type"], line["object"]) for line in lines]
    assert [line["type"] for line in lines] == ["ADDED", "MODIFIED", "DELETED"]


def test_a_watch_of_metadata_alone(server: Server) -> None:
    server.ask("POST", CONFIG_MAPS, {"metadata": {"name": "watched"}})
    for path in (CONFIG_MAPS, WIDGET_PATHS):
        watch = f"{path}?watch=1&timeoutSeconds=-1"
        stream = server.ask("GET", watch, headers=METADATA_WATCH)
        lines = [json.loads(line) for line in server.ask("GET", watch, headers=JSON_METADATA).body.splitlines()]
        assert stream.headers["content-type"] == f"{PROTOBUF};stream=watch"
        assert list(frames(stream.body)) == [(line["type"], line["object"]) for line in lines] != []


@pytest.mark.parametrize("headers", [AS_PROTOBUF, METADATA_WATCH], ids=["whole", "metadata"])
def test_a_streamed_list_ends_with_a_bookmark(server: Server, headers: dict[str, str]) -> None:
    streamed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    path = f"{CONFIG_MAPS}?watch=1&timeoutSeconds=-1&{streamed}"
    *initial, (type_, last) = frames(server.ask("GET", path, headers=headers).body)
    assert {event for event, _ in initial} <= {"ADDED", "BOOKMARK"}
    events = [*initial, (type_, last)]
    marks = [obj["metadata"] for event, obj in events if event == "BOOKMARK"]
    assert marks[0]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(marks[0]["resourceVersion"]) > 0
    assert last["kind"] == ("ConfigMap" if headers is AS_PROTOBUF else "PartialObjectMetadata")


def test_a_watch_that_cannot_begin_where_it_should_says_so_in_a_frame(server: Server) -> None:
    for path in ("/api/v1/pods", "/apis/apps/v1/deployments"):
        served = server.registry.catalogue.stored(path.rpartition("/")[2] + (".apps" if "apps" in path else ""))
        assert served is not None
        served.cache.forget_before(served.cache.revision)
        stream = server.ask("GET", f"{path}?watch=1&resourceVersion=1", headers=AS_PROTOBUF)
        ((type_, status),) = frames(stream.body)
        assert (type_, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


def test_the_watchers_of_a_kind_share_the_bytes_of_an_event() -> None:
    entry = Entry(b'{"kind":"ConfigMap","metadata":{"name":"m"}}', "default", "m", 7)
    change = CacheEvent(7, None, entry)
    for form in (MediaTypeOptions(PROTOBUF), MediaTypeOptions(PROTOBUF, PARTIAL), MediaTypeOptions(JSON, PARTIAL)):
        writers = [event_writer(builtin.CONFIG_MAPS, form) for _ in range(2)]
        first, second = (change.written(EventType.ADDED, write) for write in writers)
        assert first is second


def test_a_schema_may_be_as_deep_as_json_may_be(server: Server) -> None:
    """What can be stored can be written: a writer needs no more of the stack than what normalised the object."""
    schema: Obj = {"type": "object"}
    for _ in range(60):
        schema = {"type": "object", "properties": {"deeper": schema}}
    definition = copy.deepcopy(WIDGETS) | {"metadata": {"name": "deeps.example.com"}}
    definition["spec"]["names"] = {"plural": "deeps", "kind": "Deep"}
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert server.ask("POST", path, definition).code == 201
    both(server, f"{path}/deeps.example.com")
