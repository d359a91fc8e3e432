"""From request bytes to objects, and every way in which that fails (golden api/protocol.yaml)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.errors import ApiError, BadRequest, UnsupportedMediaType
from fairlead.server.codec.body_types import BodyType, body_type_of
from fairlead.server.codec.decode import JSON, PROTOBUF, YAML, decode, decode_options

CONFIG_MAP = body_type_of(builtin.CONFIG_MAPS)
WIDGET = BodyType("example.com", "v1", "Widget", "")
UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
NO_KIND = f"{UNRECOGNIZED}couldn't get version/kind; json parse error: "
FIND_KIND = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def strict_errors(body: str, target: BodyType = CONFIG_MAP) -> tuple[dict[str, Any], list[str]]:
    """The normal object and everything that strict decoding says, as the registry puts it together."""
    obj, problems = decode(body.encode(), JSON, target)
    return obj, problems + target.normalise(obj)


def refusal(body: bytes, content_type: str = JSON, target: BodyType = CONFIG_MAP) -> str:
    with pytest.raises(BadRequest) as refused:
        obj, _ = decode(body, content_type, target)
        target.normalise(obj)
    return refused.value.message


@pytest.mark.parametrize("body", [b"null", b"{}", b' {"kind": null} ', b'{"apiVersion":"","kind":""}'])
def test_kind_and_version_are_filled_in(body: bytes) -> None:
    assert decode(body, "", CONFIG_MAP) == ({"kind": "ConfigMap", "apiVersion": "v1"}, [])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", f"{NO_KIND}unexpected end of JSON input (<empty>)"),
        (b'{"kind": "ConfigMap"', f'{NO_KIND}unexpected end of JSON input ({{"kind": "ConfigMap")'),
        (b"[]", f"{NO_KIND}json: cannot unmarshal array into Go value of type {FIND_KIND} (5b5d)"),
        (
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},}',
            f"{NO_KIND}invalid character '}}' looking for beginning of object key string "
            '({"apiVersion":"v1","kind":"Con ...)',
        ),
        (
            b'{"kind":5}',
            f'{NO_KIND}json: cannot unmarshal number into Go struct field .kind of type string ({{"kind":5}})',
        ),
        (
            b'{"apiVersion":"a/b/c"}',
            f'{UNRECOGNIZED}unexpected GroupVersion string: a/b/c ({{"apiVersion":"a/b/c"}})',
        ),
        (
            b'{"apiVersion":"v1","kind":"Secret"}',
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            b'{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":"x"}}',
            'Deployment in version "v1" cannot be handled as a ConfigMap: '
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            b'{"apiVersion":"v9","kind":"ConfigMap"}',
            'ConfigMap in version "v9" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered '
            'for version "v9" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
        (
            b'{"metadata":{"name":5}}',
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
        ),
    ],
)
def test_bodies_of_no_use_are_refused_with_the_words_of_go(body: bytes, message: str) -> None:
    assert refusal(body) == message


def test_another_version_of_the_same_kind_does_not_match() -> None:
    body = b'{"apiVersion":"events.k8s.io/v1","kind":"Event"}'
    assert refusal(body, target=body_type_of(builtin.EVENTS)) == (
        "the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)"
    )


def test_an_eviction_may_come_in_its_old_version() -> None:
    """Golden eviction-v1beta1-version-in-body."""
    target = body_type_of(builtin.PODS, "eviction")
    obj, _ = decode(b'{"apiVersion":"policy/v1beta1","kind":"Eviction"}', JSON, target)
    assert obj == {"apiVersion": "policy/v1", "kind": "Eviction"}


def test_broken_utf8_and_lone_surrogates_become_replacement_characters() -> None:
    obj, _ = decode(b'{"data":{"a":"\xff","b":"\\ud800x"}}', JSON, CONFIG_MAP)
    assert obj["data"] == {"a": "\ufffd", "b": "\ufffdx"}


def test_keys_that_come_twice_are_told_and_merged_as_go_does() -> None:
    """Golden field-validation-strict-duplicate; unknown fields are told in the same order of the document."""
    body = """{"metadata": {"labels": {"a": "1"}, "name": "m", "nope": 1},
        "data": {"a": "1", "a": "2"}, "data": {"b": "3"}, "metadata": {"labels": {"b": "2"}}}"""
    obj, problems = strict_errors(body)
    assert problems == [
        'unknown field "metadata.nope"',
        'duplicate field "data.a"',
        'duplicate field "data"',
        'duplicate field "metadata"',
    ]
    assert obj["metadata"] == {"labels": {"a": "1", "b": "2"}, "name": "m"}
    assert obj["data"] == {"a": "2", "b": "3"}


def test_in_custom_resources_keys_that_come_twice_are_told_and_the_last_one_counts() -> None:
    body = b'{"kind":"Widget","apiVersion":"example.com/v1","spec":{"a":[{"x":1,"x":2}],"y":1},"spec":{"z":1}}'
    obj, problems = decode(body, JSON, WIDGET)
    assert problems == ['duplicate field "spec.a[0].x"', 'duplicate field "spec"']
    assert obj["spec"] == {"z": 1}


def test_a_custom_resource_must_name_its_kind() -> None:
    assert refusal(b"{}", target=WIDGET) == (
        "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{}' ({})"
    )


def test_yaml_is_another_way_to_write_json() -> None:
    body = b"kind: ConfigMap\ndata: &x\n  a: '1'\n  12: 2020-01-01\n  yes: 12:30:00\n  o: 0o17\nbinaryData: *x\n"
    obj, problems = decode(body, f"{YAML}; charset=utf-8", CONFIG_MAP)
    assert problems == []
    assert obj["data"] == {"a": "1", "12": "2020-01-01", "true": "12:30:00", "o": 15}


def test_keys_that_come_twice_in_yaml_are_told() -> None:
    _, problems = decode(b"data:\n  a: x\n  a: y\n", YAML, CONFIG_MAP)
    assert problems == ['yaml: unmarshal errors:\n  line 3: key "a" already set in map']


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"a: b: c\n", "yaml: line 1: mapping values are not allowed in this context (613a20623a20630a)"),
        (b"a: *x", "yaml: unknown anchor 'x' referenced (613a202a78)"),
        (b"? [1]\n: 2", "yaml: unsupported key of type: list, key: [1] (3f205b315d0a3a2032)"),
    ],
)
def test_malformed_yaml_is_refused_with_the_words_of_go(body: bytes, message: str) -> None:
    assert refusal(body, YAML) == UNRECOGNIZED + message


@pytest.mark.parametrize("content_type", [JSON, YAML])
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 5_000 + b"]" * 5_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b'{"metadata":{"managedFields":[{"fieldsV1":' + b'{"f:x":' * 600 + b"{}" + b"}" * 600 + b"}]}}",
    ],
)
def test_deep_nesting_is_refused(body: bytes, content_type: str) -> None:
    assert "exceeded max depth" in refusal(body, content_type)


def test_a_small_yaml_document_cannot_grow_without_end() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]" for i in range(1, 10)]
    assert "document contains excessive aliasing" in refusal("\n".join(lines).encode(), YAML)


def test_other_media_types_are_refused() -> None:
    with pytest.raises(UnsupportedMediaType, match="accepted media types include: application/json, application/yaml"):
        decode(b"{}", "text/plain", CONFIG_MAP)


def test_delete_options_are_read_in_normal_form() -> None:
    body = b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"dryRun":["All"],"preconditions":null}'
    expected = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "dryRun": ["All"]}
    assert decode_options(body, JSON) == expected
    assert decode_options(b"", JSON) == {}


@pytest.mark.parametrize("body", [b"[]", b"x", b'{"gracePeriodSeconds":"1"}', b'{"kind":"Pod"}'])
def test_broken_delete_options_are_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        decode_options(body, JSON)


@given(
    st.binary(max_size=60) | st.text(alphabet='{}[]":,-&*!?#|> \n\\u0a1x', max_size=60).map(str.encode),
    st.sampled_from([JSON, YAML, PROTOBUF]),
    st.sampled_from([CONFIG_MAP, WIDGET]),
)
def test_no_body_does_more_than_be_refused(body: bytes, content_type: str, target: BodyType) -> None:
    try:
        obj, _ = decode(body, content_type, target)
        if target.definition:
            target.normalise(obj)
        decode_options(body, content_type)
    except ApiError:
        return
    assert obj["apiVersion"] == target.api_version
