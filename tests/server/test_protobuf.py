"""Protobuf bodies: those that kubectl 1.36 sends, and everything else that the wire table describes."""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api import builtin
from fairlead.api.errors import ApiError, BadRequest
from fairlead.api.resources import Resource
from fairlead.server.codec import wire
from fairlead.server.codec.body_types import body_type_of
from fairlead.server.codec.decode import PROTOBUF, decode, decode_options
from fairlead.server.codec.protobuf import MAGIC, MalformedProtobuf, read

SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
#: Bodies captured from kubectl 1.36.
CREATE_DEPLOYMENT = (  # kubectl create deployment web --image=nginx:1 --replicas=3 --port=80 -- sleep 1
    "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50EsQBCh8KA3dlYhIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViEpIBCAMSDAoKCgNhcHASA3dlYhp4"
    "ChwKABIAGgAiACoAMgA4AEIAWgoKA2FwcBIDd2ViElgSOgoFbmdpbngSB25naW54OjEaBXNsZWVwGgExKgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCI"
    "AQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA="
)
CREATE_SECRET = (  # kubectl create secret generic s --from-literal=a=b
    "azhzAAoMCgJ2MRIGU2VjcmV0Eh0KEQoBcxIAGgAiACoAMgA4AEIAEgYKAWESAWIaABoAIgA="
)
CREATE_BUDGET = (  # kubectl create poddisruptionbudget pdb --selector=a=b --min-available=50%
    "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSOAoTCgNwZGISABoAIgAqADIAOABCABIVCgkIARAAGgM1MCUSCAoGCgFhEgFi"
    "GgoIABgAIAAoADAAGgAiAA=="
)
#: Fields that show every shape there is, as JSON.
EVERY_SHAPE = [
    (
        "io.k8s.api.core.v1.Pod",
        {
            "metadata": {
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "generation": -1,
                "labels": {"a": "b", "c": ""},
                "managedFields": [{"manager": "m", "fieldsV1": {"f:a": {}}}],
            },
            "spec": {
                "containers": [{"name": "c", "resources": {"limits": {"cpu": "500m"}}}],
                "securityContext": {"supplementalGroups": [1, -2, 2**40], "runAsNonRoot": False},
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
                "priority": -5,
            },
        },
    ),
    (
        "io.k8s.api.core.v1.Probe",
        {"httpGet": {"port": -3}, "timeoutSeconds": 7},
    ),
    ("io.k8s.api.coordination.v1.LeaseSpec", {"renewTime": "1969-12-31T23:59:59.000001Z", "holderIdentity": "é"}),
    ("io.k8s.api.core.v1.Secret", {"data": {"a": "AP8=", "b": ""}}),
    ("io.k8s.api.apps.v1.ControllerRevision", {"data": {"spec": {"a": [1, None]}}, "revision": 2}),
    ("io.k8s.api.authorization.v1.SubjectAccessReviewSpec", {"extra": {"scopes": ["a", "b"]}}),
    (
        SCHEMA,
        {
            "items": {"type": "string"},
            "additionalProperties": False,
            "maximum": 1.5,
            "default": {"a": None},
            "dependencies": {"a": ["b"], "c": {"type": "object"}},
            "x-kubernetes-validations": [{"rule": "r"}],
            "anyOf": [{"type": "x"}, {"additionalProperties": {"type": "y"}}],
        },
    ),
]


@pytest.mark.parametrize(
    ("body", "resource", "expected"),
    [
        (
            CREATE_DEPLOYMENT,
            builtin.DEPLOYMENTS,
            {
                "metadata": {"name": "web", "labels": {"app": "web"}},
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {
                            "containers": [
                                {
                                    "name": "nginx",
                                    "image": "nginx:1",
                                    "command": ["sleep", "1"],
                                    "ports": [{"containerPort": 80}],
                                    "resources": {},
                                }
                            ]
                        },
                    },
                    "strategy": {},
                },
                "status": {},
            },
        ),
        (CREATE_SECRET, builtin.SECRETS, {"metadata": {"name": "s"}, "data": {"a": "Yg=="}}),
        (
            CREATE_BUDGET,
            builtin.POD_DISRUPTION_BUDGETS,
            {
                "metadata": {"name": "pdb"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
                "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
            },
        ),
    ],
)
def test_what_kubectl_sends_is_read_as_if_it_were_json(body: str, resource: Resource, expected: dict[str, Any]) -> None:
    target = body_type_of(resource)
    obj, problems = decode(b64decode(body), PROTOBUF, target)
    assert (problems, target.normalise(obj)) == ([], [])
    assert obj == {"kind": resource.kind, "apiVersion": resource.api_version, **expected}


def test_a_body_of_another_kind_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"Secret in version .* cannot be handled as a ConfigMap: converting"):
        decode(b64decode(CREATE_SECRET), PROTOBUF, body_type_of(builtin.CONFIG_MAPS))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "empty data (<empty>)"),
        (MAGIC, "empty body (6b387300)"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})"),
        (MAGIC + b"\x12\x7f", "unexpected EOF (6b387300127f)"),
        (MAGIC + b"\xff" * 11, "proto: integer overflow (6b387300ffffffffffffffffffffff)"),
        (MAGIC + b"\x0f", "proto: illegal wireType 7 (6b3873000f)"),
    ],
)
def test_malformed_bodies_are_refused(body: bytes, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode(body, PROTOBUF, body_type_of(builtin.PODS))
    assert refused.value.message == f"the object provided is unrecognized (must be of type Pod): {message}"


def test_a_malformed_message_is_refused_by_its_kind() -> None:
    with pytest.raises(BadRequest) as refused:
        decode(MAGIC + b"\x12\x02\x0a\x7f", PROTOBUF, body_type_of(builtin.PODS))
    assert refused.value.message == 'Pod in version "v1" cannot be handled as a Pod: unexpected EOF'


def test_unknown_fields_are_skipped() -> None:
    """A newer client knows fields that we do not: of every wire type."""
    strange = b"\xf8\x3f\x01" + b"\xf9\x3f" + bytes(8) + b"\xfa\x3f\x01x" + b"\xfd\x3f" + bytes(4)
    assert read(strange + b"\x0a\x01n", "io.k8s.api.core.v1.Container") == {"name": "n"}


def test_numbers_may_be_packed() -> None:
    context = "io.k8s.api.core.v1.PodSecurityContext"
    number = wire.fields(context)["supplementalGroups"].number
    assert read(delimited(number, b"\x01\xac\x02"), context) == {"supplementalGroups": [1, 300]}


def test_delete_options_are_read() -> None:
    message = encoded({"gracePeriodSeconds": 5, "preconditions": {"uid": "u"}}, f"{wire.META}.DeleteOptions")
    assert decode_options(MAGIC + delimited(2, message), PROTOBUF) == {
        "gracePeriodSeconds": 5,
        "preconditions": {"uid": "u"},
    }


@pytest.mark.parametrize(("definition", "obj"), EVERY_SHAPE)
def test_every_shape_is_read_back_as_it_was_written(definition: str, obj: dict[str, Any]) -> None:
    assert read(encoded(obj, definition), definition) == obj


def test_deep_nesting_is_refused() -> None:
    message = b""
    for _ in range(2000):
        message = delimited(wire.fields(SCHEMA)["not"].number, message)
    with pytest.raises(MalformedProtobuf, match="nested"):
        read(message, SCHEMA)


@given(st.binary(max_size=40), st.integers(0, 255), st.integers(0, 200))
def test_no_body_does_more_than_be_refused(noise: bytes, byte: int, at: int) -> None:
    whole = bytearray(b64decode(CREATE_DEPLOYMENT))
    whole[at] = byte
    target = body_type_of(builtin.DEPLOYMENTS)
    for body in (bytes(whole), MAGIC + noise, MAGIC + delimited(2, noise)):
        try:
            obj, _ = decode(body, PROTOBUF, target)
            target.normalise(obj)
        except ApiError:
            continue


# --- an encoder for the tests ---------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def delimited(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def encoded(obj: dict[str, Any], definition: str) -> bytes:
    """The message for an object, as Go would write it (field by field, inlined structs as messages)."""
    out = b""
    for field in wire.declared(definition):
        if not field.number:
            continue
        if not field.name:
            out += delimited(field.number, encoded(obj, field.shape.definition))
        elif field.name in obj:
            out += occurrences(field.number, obj[field.name], field.shape)
    return out


def occurrences(number: int, value: Any, shape: wire.WireType) -> bytes:
    if shape.wrapped:
        return delimited(number, b"".join(delimited(1, item.encode()) for item in value))
    if shape.form == "list" and shape.element:
        return b"".join(occurrences(number, item, shape.element) for item in value)
    if shape.form == "map" and shape.element:
        entries = [delimited(1, key.encode()) + occurrences(2, item, shape.element) for key, item in value.items()]
        return b"".join(delimited(number, entry) for entry in entries)
    if shape.form in ("int32", "int64", "bool"):
        return varint(number << 3) + varint(int(value))
    if shape.form == "float64":
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return delimited(number, content_of(value, shape))


def content_of(value: Any, shape: wire.WireType) -> bytes:
    if shape.form == "struct":
        return encoded(value, shape.definition)
    if shape.form == "string":
        return str(value).encode()
    if shape.form == "bytes":
        return b64decode(value)
    if shape.form == "quantity":
        return delimited(1, value.encode())
    if shape.form == "intstr":
        return varint(1 << 3) + varint(0) + varint(2 << 3) + varint(value)
    if shape.form in ("time", "microtime"):
        moment = datetime.fromisoformat(value)
        whole = int(moment.replace(microsecond=0).timestamp())
        return varint(1 << 3) + varint(whole) + varint(2 << 3) + varint(moment.microsecond * 1000)
    if shape.form in ("raw", "fields", "json"):
        return delimited(1, json.dumps(value).encode())
    if shape.form == "schema-or-bool":
        return varint(1 << 3) + varint(value) if isinstance(value, bool) else delimited(2, encoded(value, SCHEMA))
    if isinstance(value, list):
        return b"".join(delimited(2, item.encode()) for item in value)
    return delimited(1, encoded(value, SCHEMA))
