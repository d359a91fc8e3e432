"""The built-in types as OpenAPI v3 and v2 describe them.

The PyPI package `kubernetes-validate` ships the published definitions, made ready for a JSON Schema validator: types
are nullable, kinds are enums, references point elsewhere. Here they get their own form back, with the enums and
defaults that a real server adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from fairlead.api.objects import Obj
from fairlead.server.codec import schemas, wire
from fairlead.server.codec.wire import META, WireField
from fairlead.server.crds.schema import ABSENT
from fairlead.server.openapi.facts import default_of, enum_of

V2, V3 = "v2", "v3"
PREFIX = {V2: "#/definitions/", V3: "#/components/schemas/"}
_SHIPPED = "#/$defs/"

_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
#: Types with a JSON form of their own, in the two versions.
_SPECIAL: dict[tuple[str, str], Obj] = {
    (_INT_OR_STRING, V2): {"type": "string", "format": "int-or-string"},
    (_INT_OR_STRING, V3): {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    (_QUANTITY, V2): {"type": "string"},
    (_QUANTITY, V3): {"oneOf": [{"type": "string"}, {"type": "number"}]},
}


@cache
def definition(name: str, version: str) -> Obj:
    """One type. Shared: not to be changed."""
    raw = schemas.definition(name)
    if (special := _SPECIAL.get((name, version))) is not None:
        return {"description": raw.get("description", "")} | special
    fields = wire.fields(name) if wire.is_known(name) and raw.get("properties") else {}
    out = _restored(raw, version)
    if properties := raw.get("properties"):
        out["properties"] = {key: _property(below, fields.get(key), name, version) for key, below in properties.items()}
    return out


def closure(names: Iterable[str], version: str) -> dict[str, Obj]:
    """The types named and all that they refer to, sorted by name."""
    found: dict[str, Obj] = {}
    shipped = schemas.definitions()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found and name in shipped:
            found[name] = definition(name, version)
            waiting.extend(references(found[name], version))
    return {name: found[name] for name in sorted(found)}


def references(schema: Any, version: str) -> list[str]:
    """The names of all types that a schema refers to."""
    if isinstance(schema, list):
        return [name for value in schema for name in references(value, version)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].removeprefix(PREFIX[version])] if isinstance(schema.get("$ref"), str) else []
    return own + [name for key, value in schema.items() if key != "description" for name in references(value, version)]


def reference(name: str, version: str, **more: Any) -> Obj:
    """A reference; v3 allows nothing beside one, so there it is wrapped."""
    ref = {"$ref": PREFIX[version] + name}
    if not more:
        return ref
    return {"allOf": [ref], **more} if version == V3 else ref | more


def type_meta(version: str) -> dict[str, Obj]:
    """The properties `apiVersion` and `kind`, as every kind has them."""
    properties = definition(f"{META}.Status", version)["properties"]
    return {key: properties[key] for key in ("apiVersion", "kind")}


def _property(raw: Obj, field: WireField | None, struct: str, version: str) -> Obj:
    out = _restored(raw, version)
    out.pop("enum", None)  # the package pins apiVersion and kind; OpenAPI does not
    if field is not None:
        package = struct.rpartition(".")[0]
        if values := enum_of(field.shape, package):
            out["enum"] = values
        element = field.shape.element
        if element is not None and field.shape.form == "list" and (values := enum_of(element, package)):
            out["items"] = out["items"] | {"enum": values}
        default = default_of(struct, field)
        if version == V3 and default is not ABSENT:
            out["default"] = default
    return _wrapped(out) if version == V3 else out


def _restored(raw: Obj, version: str) -> Obj:
    """A schema without the package's changes, its properties left out."""
    out: Obj = {}
    for key, value in raw.items():
        if key == "type":
            out[key] = value[0] if isinstance(value, list) else value
        elif key == "$ref":
            out[key] = PREFIX[version] + value.removeprefix(_SHIPPED)
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            below = _restored(value, version)
            out[key] = _wrapped(below) if version == V3 else below
        elif key != "properties":
            out[key] = value
    return out


def _wrapped(schema: Obj) -> Obj:
    if "$ref" not in schema or len(schema) == 1:
        return schema
    return {"allOf": [{"$ref": schema["$ref"]}]} | {key: value for key, value in schema.items() if key != "$ref"}
