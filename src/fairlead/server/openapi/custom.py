"""The types of custom kinds: the schema of the CRD, with what every object has.

v3 shows the schema as it is, v2 without what it has no words for (apiextensions-apiserver/pkg/controller/openapi).
"""

from __future__ import annotations

from typing import Any

from fairlead.api.encoded import copied
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.server.codec.wire import META
from fairlead.server.openapi.definitions import PREFIX, V2, V3, reference, type_meta

_METADATA_TEXT = (
    "Standard object's metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
_LIST_TEXT = (
    "Standard list metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
#: What v2 has no words for, and defaults, which it says of no kind.
_NOT_IN_V2 = frozenset({"allOf", "anyOf", "default", "example", "not", "nullable", "oneOf"})


def definition_name(row: Resource) -> str:
    """`com.example.v1.Widget`."""
    return ".".join([*reversed(row.group.split(".")), row.version, row.kind])


def definitions(row: Resource, crd: Obj, version: str) -> dict[str, Obj]:
    """The kind and its list."""
    spec = next(version for version in crd["spec"]["versions"] if version["name"] == row.version)
    schema = (spec.get("schema") or {}).get("openAPIV3Schema")
    name = definition_name(row)
    return {name: _kind(schema, row, spec, version), f"{name}List": _list(row, name, version)}


def _kind(schema: Obj | None, row: Resource, spec: Obj, version: str) -> Obj:
    if schema is None or (version == V2 and schema.get(_PRESERVE)):
        out: Obj = {"type": "object"}
    else:
        out = _v2(schema) if version == V2 else _v3(schema)
        metadata = reference(f"{META}.ObjectMeta", version, description=_METADATA_TEXT)
        out["properties"] = (out.get("properties") or {}) | {"metadata": metadata} | type_meta(version)
    out["x-kubernetes-group-version-kind"] = [{"group": row.group, "kind": row.kind, "version": row.version}]
    if fields := spec.get("selectableFields"):
        paths = [{"fieldPath": field["jsonPath"].removeprefix(".")} for field in fields]
        out["x-kubernetes-selectable-fields"] = paths
    return out


def _list(row: Resource, name: str, version: str) -> Obj:
    text = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
    items = {
        "description": f"List of {row.plural}. {text}",
        "type": "array",
        "items": {"$ref": PREFIX[version] + name},
    }
    metadata = reference(f"{META}.ListMeta", version, description=_LIST_TEXT)
    return {
        "description": f"{row.list_kind} is a list of {row.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {"items": items, "metadata": metadata} | type_meta(version),
        "x-kubernetes-group-version-kind": [{"group": row.group, "kind": row.list_kind, "version": row.version}],
    }


def _v3(schema: Obj) -> Obj:
    """A copy in which what the extensions imply is spelled out."""
    out: Obj = copied(schema)
    _spell_out(out)
    return out


def _spell_out(schema: Any) -> None:
    if not isinstance(schema, dict):
        return
    if schema.get("x-kubernetes-int-or-string") and not schema.get("anyOf") and not schema.get("allOf"):
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    for below in (schema.get("properties") or {}).values():
        _spell_out(below)
    _spell_out(schema.get("items"))
    _spell_out(schema.get("additionalProperties"))
    if schema.get("x-kubernetes-embedded-resource"):
        _embed(schema, V3)


def _v2(schema: Obj) -> Obj:
    """Without what clients of v2 misunderstand: kubectl takes an untyped value with properties for a closed object."""
    out = {key: value for key, value in schema.items() if key not in _NOT_IN_V2}
    if schema.get("nullable") or schema.get(_PRESERVE):
        out.pop("items", None)
        out.pop("properties", None)
    is_untyped = schema.get("nullable") or (schema.get(_PRESERVE) and schema.get("type") == "object")
    if is_untyped or (schema.get("type") == "array" and "items" not in out):
        out.pop("type", None)
    if required := _required_in_v2(out):
        out["required"] = required
    else:
        out.pop("required", None)
    if "properties" in out:
        out["properties"] = {key: _v2(below) for key, below in out["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(out.get(key), dict):
            out[key] = _v2(out[key])
    if schema.get("x-kubernetes-embedded-resource") and not schema.get(_PRESERVE):
        _embed(out, V2)
    return out


def _required_in_v2(out: Obj) -> list[str]:
    """Null is no value to clients of v2, so nothing is required that may be null."""
    values = out.get("additionalProperties")
    if isinstance(values, dict) and values.get("nullable"):
        return []
    properties = out.get("properties") or {}
    return [name for name in out.get("required") or () if not (properties.get(name) or {}).get("nullable")]


def _embed(schema: Obj, version: str) -> None:
    """An embedded object has the fields that every object has."""
    metadata = reference(f"{META}.ObjectMeta", version, description=_METADATA_TEXT)
    schema["properties"] = (schema.get("properties") or {}) | {"metadata": metadata} | type_meta(version)
    required = list(schema.get("required") or ())
    schema["required"] = required + [key for key in ("kind", "apiVersion") if key not in required]
