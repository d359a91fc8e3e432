"""Types of CEL for objects of the kinds that are served, built-in and custom (apiserver/pkg/cel/openapi, 1.36)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.cel.schema import declared, escaped
from fairlead.cel.types import DYN, STRING, ObjectField, ObjectType, Type, list_of, map_of
from fairlead.server.codec import schemas
from fairlead.server.storage.catalogue import Served

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_REF: Final = "#/$defs/"


def type_of(served: Served, row: Resource) -> Type:
    """What an object of that kind looks like in that version; `dyn` if that is not known."""
    if served.crd is None:
        return of_definition(row.definition) if row.definition else DYN
    for each in served.crd["spec"]["versions"]:
        if each["name"] == row.version:
            found = declared((each.get("schema") or {}).get("openAPIV3Schema") or {}, is_root=True)
            if isinstance(found, ObjectType):
                meta = ObjectField("metadata", of_definition(_META))
                return ObjectType.named(found.name, {**found.fields, "metadata": meta})
    return DYN


def of_definition(name: str) -> Type:
    """The type of a definition of the OpenAPI of built-in kinds; `dyn` where there is none of that name."""
    return _definition(name) if name in schemas.definitions() else DYN


def _definition(name: str) -> Type:
    if name == _INT_OR_STRING:
        return DYN
    body = schemas.definition(name)
    if body.get("properties"):
        return ObjectType.named("object", _Fields(body["properties"]))
    return _type(body)


class _Fields(Mapping[str, ObjectField]):
    """The fields of an object, each worked out when it is asked for: definitions are many, and some hold themselves."""

    def __init__(self, properties: Obj) -> None:
        names = ((escaped(key), key) for key in properties)
        self._keys = {name: key for name, key in names if name is not None}
        self._properties = properties
        self._known: dict[str, ObjectField] = {}

    def __getitem__(self, name: str) -> ObjectField:
        known = self._known.get(name)
        if known is None:
            key = self._keys[name]
            known = self._known[name] = ObjectField(key, _type(self._properties[key]))
        return known

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _type(node: Mapping[str, Any]) -> Type:
    if (reference := node.get("$ref")) is not None:
        return of_definition(str(reference).removeprefix(_REF))
    names = node.get("type", "")
    name = names if isinstance(names, str) else next((each for each in names if each != "null"), "")
    if node.get("format") == "int-or-string":
        return DYN
    if name == "array":
        return list_of(_type(node.get("items") or {}))
    if name == "object":
        values = node.get("additionalProperties")
        return map_of(STRING, _type(values)) if isinstance(values, dict) else DYN
    if "oneOf" in node:  # a quantity: text, though a number is taken, too
        return STRING
    return declared({"type": name, "format": node.get("format") or ""}) or DYN
