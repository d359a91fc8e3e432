"""Decodes the body of a request, in any of its formats, to an object.

A body may be JSON, YAML or protobuf, name its kind or leave it out, or be no object at all. All of this is settled
here, so that the registry only sees objects of the kind that it serves. What comes out is not yet in normal form: the
registry normalises whatever it is going to write, patched objects too. Every refusal is an `ApiError` in upstream's
words (serializer/json and serializer/protobuf of k8s.io/apimachinery).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fairlead.api.errors import BadRequest, UnsupportedMediaType
from fairlead.api.objects import Obj
from fairlead.golang import yaml as goyaml
from fairlead.golang.json import MalformedJson, may_have_duplicates, parse, parse_pairs
from fairlead.golang.values import unmarshal_error
from fairlead.golang.yaml import MalformedYaml
from fairlead.server.codec import duplicates, protobuf, wire
from fairlead.server.codec.body_types import BodyType, definition_of
from fairlead.server.codec.normalise import normalise
from fairlead.server.codec.protobuf import MalformedProtobuf

__all__ = ["JSON", "PROTOBUF", "YAML", "BodyType", "decode", "decode_options", "media_type"]

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_OPTIONS: Final = f"{wire.META}.DeleteOptions"
_OPTIONS_SCHEME: Final = "pkg/apis/meta/internalversion/scheme/register.go:27"
#: What Go decodes to see which kind a body is of; users see the type in errors.
_KIND_AND_VERSION: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_NO_KIND: Final = "couldn't get version/kind; json parse error: "


def decode(body: bytes, content_type: str, target: BodyType) -> tuple[Obj, list[str]]:
    """The object in a body, and what strict decoding objects to so far (keys that come twice).

    Unknown fields are told by `normalise`, later; but where keys come twice, both are told here, in the order of the
    document, and unknown fields are gone already.
    """
    form = media_type(content_type)
    if form == PROTOBUF:
        return _from_protobuf(body, target), []
    try:
        value, problems = (parse(body), []) if form == JSON else goyaml.parse(body)
    except MalformedJson as error:
        raise target.unrecognized(f"{_NO_KIND}{error}", body) from None
    except MalformedYaml as error:
        raise target.unrecognized(str(error), body) from None
    obj, kind, api_version = _identified(value, target, lambda why: target.unrecognized(why, body))
    if not target.definition and not kind:
        raise target.unrecognized(f"Object 'Kind' is missing in '{body.decode('utf-8', 'replace')}'", body)
    if form == JSON and obj and may_have_duplicates(body, obj):
        obj, problems = duplicates.merged(parse_pairs(body), target.definition)
    return _checked(obj, kind, api_version, target), problems


def decode_options(body: bytes, content_type: str) -> Obj:
    """The DeleteOptions in a body, in normal form; an empty body has none."""
    if not body:
        return {}
    form = media_type(content_type)
    try:
        if form == PROTOBUF:
            obj = protobuf.read(protobuf.open_envelope(body).message, _OPTIONS)
        else:
            obj = _options(parse(body) if form == JSON else goyaml.parse(body)[0])
        normalise(obj, _OPTIONS)
    except MalformedJson as error:
        raise BadRequest(f"{_NO_KIND}{error}") from None
    except (MalformedYaml, MalformedProtobuf) as error:
        raise BadRequest(str(error)) from None
    return obj


def media_type(content_type: str) -> str:
    """The format of a body: JSON, YAML or protobuf; JSON if the client does not say."""
    form = content_type.partition(";")[0].strip().lower() or JSON
    if form not in (JSON, YAML, PROTOBUF):
        raise _unsupported(JSON, YAML, PROTOBUF)
    return form


def _unsupported(*accepted: str) -> UnsupportedMediaType:
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    )


def _checked(obj: Obj, kind: str, api_version: str, target: BodyType) -> Obj:
    """The object with its kind and apiVersion, if it is what the endpoint takes.

    The kind of a custom resource stays as it is sent: there it is a rule of the object, broken with a 422.
    """
    kind, api_version = kind or target.kind, api_version or target.api_version
    target.check(obj, kind, api_version)
    obj["kind"] = target.kind if target.definition else kind
    obj["apiVersion"] = target.api_version
    return obj


# --- JSON and YAML --------------------------------------------------------------------------------------------------


def _identified(value: Any, target: BodyType, refusal: Callable[[str], BadRequest]) -> tuple[Obj, str, str]:
    """The value as an object, and which kind and apiVersion it claims to have, if any."""
    if value is None:
        return {}, "", ""
    if not isinstance(value, dict):
        raise refusal(f"{_NO_KIND}{unmarshal_error(value, _KIND_AND_VERSION)}")
    api_version = _word(value, "apiVersion", refusal)
    if api_version.count("/") > 1:
        raise refusal(f"unexpected GroupVersion string: {api_version}")
    if api_version == f"{target.group}/":
        api_version = ""
    return value, _word(value, "kind", refusal), api_version.removeprefix("/")


def _word(obj: Obj, name: str, refusal: Callable[[str], BadRequest]) -> str:
    """A field by which Go tells kinds apart; here, and only here, it does not mind the case of the key."""
    value = obj.get(name)
    if name not in obj:
        value = next((item for key, item in obj.items() if key.lower() == name.lower()), None)
    if value is not None and not isinstance(value, str):
        why = unmarshal_error(value, "string").replace("Go value", f"Go struct field .{name}")
        raise refusal(f"{_NO_KIND}{why}")
    return value or ""


def _options(value: Any) -> Obj:
    target = BodyType("", "v1", "DeleteOptions", _OPTIONS)
    obj, kind, api_version = _identified(value, target, BadRequest)
    if kind not in ("", target.kind):
        raise BadRequest(
            f'no kind "{kind}" is registered for version "{api_version or "v1"}" in scheme "{_OPTIONS_SCHEME}"'
        )
    return obj


# --- protobuf -------------------------------------------------------------------------------------------------------


def _from_protobuf(body: bytes, target: BodyType) -> Obj:
    if not target.definition:
        raise _unsupported(JSON, YAML)
    try:
        envelope = protobuf.open_envelope(body)
    except MalformedProtobuf as error:
        raise target.unrecognized(str(error), body) from None
    kind, api_version = envelope.kind or target.kind, envelope.api_version or target.api_version
    group, _, version = api_version.rpartition("/")
    sent = definition_of(group, version, kind)
    try:
        obj = protobuf.read(envelope.message, sent if wire.is_known(sent) else target.definition)
    except MalformedProtobuf as error:
        raise target.refusal(str(error), kind, version) from None
    return _checked(obj, kind, api_version, target)
