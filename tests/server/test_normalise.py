"""The normal form of objects: what Go's decode-then-encode leaves (S0-42, X-14; golden pod-defaulting, protocol)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.errors import ApiError, BadRequest
from fairlead.golang import times as timestamps
from fairlead.server.codec import wire
from fairlead.server.codec.normalise import normalise, zero_object
from fairlead.server.codec.schemas import definition, definitions

POD = "io.k8s.api.core.v1.Pod"
SECRET = "io.k8s.api.core.v1.Secret"
LEASE = "io.k8s.api.coordination.v1.Lease"
CRD_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
STRUCTS = sorted(name for name in definitions() if wire.is_known(name) and wire.wire_type_of(name).form == "struct")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}], **spec}}


def normal(obj: dict[str, Any], definition: str = POD) -> dict[str, Any]:
    assert normalise(obj, definition) == []
    return obj


def refusal(obj: dict[str, Any], definition: str = POD) -> str:
    with pytest.raises(BadRequest) as refused:
        normalise(obj, definition)
    return refused.value.message


def test_a_normal_pod_is_left_alone() -> None:
    given_pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "labels": {"a": ""}, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "500m"}}, "args": ["", "x"]}],
            "securityContext": {},
            "priority": 0,
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}]
        },
    }
    assert normal({**given_pod}) == given_pod


def test_nulls_and_empty_values_of_omitempty_fields_go() -> None:
    spec = normal(pod({"volumes": [], "initContainers": None, "nodeSelector": {}, "hostNetwork": False}))["spec"]
    assert spec == {"containers": [{"name": "c", "resources": {}}]}


def test_what_go_always_writes_is_there() -> None:
    """Structs that are not pointers, strings and lists without omitempty, zero times."""
    assert normal({}) == {"metadata": {}, "spec": {"containers": None}, "status": {}}
    assert zero_object("io.k8s.api.apps.v1.Deployment")["spec"] == {
        "selector": None,
        "template": {"metadata": {}, "spec": {"containers": None}},
        "strategy": {},
    }


def test_a_pointer_keeps_its_zero_value() -> None:
    assert normal(pod({"shareProcessNamespace": False, "activeDeadlineSeconds": 0}))["spec"] == {
        "containers": [{"name": "c", "resources": {}}],
        "shareProcessNamespace": False,
        "activeDeadlineSeconds": 0,
    }


def test_an_empty_list_that_is_always_written_becomes_null() -> None:
    """The empty list does not survive protobuf in etcd (golden limitrange-empty-limits)."""
    assert normal({"spec": {"limits": []}}, "io.k8s.api.core.v1.LimitRange")["spec"] == {"limits": None}


def test_null_elements_become_zero_values() -> None:
    resources = {"requests": {"cpu": None}}
    container = normal(pod({"containers": [{"args": [None, "x"], "ports": [None], "resources": resources}]}))
    assert container["spec"]["containers"][0] == {
        "name": "",
        "args": ["", "x"],
        "ports": [{"containerPort": 0}],
        "resources": {"requests": {"cpu": "0"}},
    }


def test_unknown_fields_are_dropped_and_told_in_the_order_of_the_document() -> None:
    """Golden field-validation-strict-nested-pod; keys are case-sensitive."""
    container = {"name": "c", "resurces": {}, "ports": [{"containerport": 80}], "resources": {"limit": {}}}
    obj = {"spec": {"containers": [container], "nodeselector": {}, 'a"b': 1}, "Metadata": {}}
    assert normalise(obj, POD) == [
        'unknown field "spec.containers[0].resurces"',
        'unknown field "spec.containers[0].ports[0].containerport"',
        'unknown field "spec.containers[0].resources.limit"',
        'unknown field "spec.nodeselector"',
        'unknown field "spec.a\\"b"',
        'unknown field "Metadata"',
    ]
    assert obj["spec"] == {"containers": [{"name": "c", "ports": [{"containerPort": 0}], "resources": {}}]}


def test_no_more_than_a_hundred_unknown_fields_are_told() -> None:
    assert len(normalise({f"x{i}": 1 for i in range(200)}, POD)) == 100


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (
            {"metadata": {"name": 5}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        ({"spec": [1]}, "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            {"spec": {"containers": {}}},
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            {"spec": {"priority": 3000000000}},
            "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            {"spec": {"containers": [{"stdin": "yes"}]}},
            "json: cannot unmarshal string into Go struct field Container.spec.containers.stdin of type bool",
        ),
        (
            {"metadata": {"labels": {"a": True}}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 1.5}}}]}},
            "json: cannot unmarshal number 1.5 into Go struct field "
            "HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type int32",
        ),
        (
            {"metadata": {"creationTimestamp": 5}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        ({"spec": {"overhead": {"cpu": "1e"}}}, "unable to parse quantity's suffix"),
    ],
)
def test_wrong_types_are_refused_with_the_words_of_go(obj: dict[str, Any], message: str) -> None:
    assert refusal(obj) == message


def test_a_broken_quantity_is_graver_than_an_earlier_wrong_type() -> None:
    """Go collects wrong types and goes on, but gives up at once where a type reads its own JSON."""
    assert refusal({"metadata": {"name": 5}, "spec": {"overhead": {"cpu": "1e"}}}).startswith("unable to parse")


@pytest.mark.parametrize(
    ("field", "sent", "shown"),
    [
        ("renewTime", "2030-01-02T03:04:05.123456+01:00", "2030-01-02T02:04:05.123456Z"),
        ("renewTime", "0001-01-01T00:00:00.000000Z", None),
    ],
)
def test_times_are_shown_in_utc(field: str, sent: str, shown: str | None) -> None:
    assert normal({"spec": {field: sent}}, LEASE)["spec"].get(field) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2030-01-01 00:00",
            'parsing time "2030-01-01 00:00" as "2006-01-02T15:04:05Z07:00": cannot parse " 00:00" as "T"',
        ),
        ("2030-13-01T00:00:00Z", 'parsing time "2030-13-01T00:00:00Z": month out of range'),
        ("2030-02-30T00:00:00Z", 'parsing time "2030-02-30T00:00:00Z": day out of range'),
        ("2030-01-01T00:00:00Zx", 'parsing time "2030-01-01T00:00:00Zx": extra text: "x"'),
        ("", 'parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"'),
    ],
)
def test_malformed_times_are_refused_with_the_words_of_go(text: str, message: str) -> None:
    assert refusal({"metadata": {"deletionTimestamp": text}}) == message


def test_fractions_of_seconds_are_cut_off() -> None:
    meta = normal({"metadata": {"creationTimestamp": "2030-01-02T03:04:05.999-02:30"}})["metadata"]
    assert meta == {"creationTimestamp": "2030-01-02T05:34:05Z"}


@pytest.mark.parametrize(
    ("text", "shown"), [("YQ==", "YQ=="), ("YWJj\nYWJj\n", "YWJjYWJj"), ("YR==", "YQ=="), ("", "")]
)
def test_bytes_are_shown_as_go_encodes_them(text: str, shown: str) -> None:
    assert normal({"data": {"a": text}}, SECRET)["data"] == {"a": shown}


@pytest.mark.parametrize(
    ("text", "where"), [("!", 0), ("YQ", 0), ("YQ=", 3), ("YWJj!", 4), ("YQ==x", 4), ("YQ=x", 2), ("YWI=YWI=", 4)]
)
def test_malformed_bytes_are_refused_with_the_place(text: str, where: int) -> None:
    assert refusal({"data": {"a": text}}, SECRET) == f"illegal base64 data at input byte {where}"


def test_raw_extensions_are_left_alone() -> None:
    data: dict[str, Any] = {"a": None, "b": [], "c": {"d": {}}}
    revision = normal({"data": data, "revision": 1}, "io.k8s.api.apps.v1.ControllerRevision")
    assert revision == {"metadata": {}, "data": {"a": None, "b": [], "c": {"d": {}}}, "revision": 1}


def test_unions_in_json_schemas_are_normal_too() -> None:
    schema = {"items": {"type": "string", "enum": []}, "additionalProperties": False, "default": {"a": None}}
    assert normal(schema, CRD_SCHEMA) == {
        "items": {"type": "string"},
        "additionalProperties": False,
        "default": {"a": None},
    }
    assert refusal({"additionalProperties": 1}, CRD_SCHEMA) == "boolean or JSON schema expected"


@pytest.mark.parametrize("name", STRUCTS)
def test_the_zero_object_of_every_type_is_normal(name: str) -> None:
    zero = zero_object(name)
    assert normalise(again := zero_object(name), name) == []
    assert again == zero


def test_the_table_knows_every_definition_and_field() -> None:
    """`wire.txt` and the OpenAPI definitions come from different sources and must not drift apart."""
    unknown = {name for name in definitions() if not wire.is_known(name)}
    assert unknown == {"io.k8s.apimachinery.pkg.version.Info"}
    for name in STRUCTS:
        assert set(wire.fields(name)) == set(definition(name).get("properties", {})), name


@given(st.sampled_from(STRUCTS), st.data())
def test_the_normal_form_is_a_fixed_point(name: str, data: st.DataObject) -> None:
    fields = sorted(wire.fields(name)) or ["x"]
    obj = data.draw(st.dictionaries(st.sampled_from(fields), JSON))
    try:
        normalise(obj, name)
    except ApiError:
        return
    once = repr(obj)
    assert normalise(obj, name) == []
    assert repr(obj) == once


@pytest.mark.parametrize(
    "text", ["2026-02-28T23:59:59.000001Z", "2024-02-29T00:00:00.123456Z", "9999-12-31T23:59:59.999999Z"]
)
def test_a_micro_time_that_is_written_as_we_write_it_stays(text: str) -> None:
    assert timestamps.micros(text) == text


@pytest.mark.parametrize(
    "text", ["2026-02-29T00:00:00.000000Z", "2026-13-01T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z"]
)
def test_a_micro_time_that_does_not_exist_is_refused_however_it_is_written(text: str) -> None:
    with pytest.raises(timestamps.TimestampError, match="out of range"):
        timestamps.micros(text)


def test_a_micro_time_of_another_zone_is_told_in_ours() -> None:
    assert timestamps.micros("2026-01-01T01:00:00.000000+01:00") == "2026-01-01T00:00:00.000000Z"
