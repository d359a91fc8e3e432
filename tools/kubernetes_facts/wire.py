"""Writes `wire.txt`: what Go and protobuf know of the built-in types and OpenAPI does not say."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tools.kubernetes_facts.gosource import GoField, GoSourceError
from tools.kubernetes_facts.sources import Sources, by_package, names_in

HEADER: Final = """\
# Interface facts of the built-in types of Kubernetes {release}, read by wire.py. Made by tools/kubernetes_facts.
# The types are those of the published OpenAPI, some that only answers have, and what they consist of. Names, numbers,
# order, Go types and flags come from the Go declarations, which generated.proto is made from too; the names of special
# forms come from the tool.
# A line without indentation is a Go package by its OpenAPI name. Below it, one line a type:
#   Name: field, field, ...     a struct; a field is `jsonName protobufNumber goType [flags]`, flags e (omitempty) and
#                               z (omitzero); `^ protobufNumber goType` inlines a struct, `^meta` is kind and apiVersion
#   Name = goType               a named type
#   Name ~ goType               a named type that protobuf wraps in a message with the single field `items = 1`
#   Name ! special              a type with a JSON form of its own
# A bare type name is of the same package, `meta.` is io.k8s.apimachinery.pkg.apis.meta.v1.
"""
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
#: Types that write their own JSON, and what the reader of the table calls their form.
_SPECIAL: Final = {
    f"{_EXTENSIONS}.JSON": "json",
    f"{_EXTENSIONS}.JSONSchemaPropsOrArray": "schema-or-array",
    f"{_EXTENSIONS}.JSONSchemaPropsOrBool": "schema-or-bool",
    f"{_EXTENSIONS}.JSONSchemaPropsOrStringArray": "schema-or-strings",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    f"{_META}.FieldsV1": "fields",
    f"{_META}.MicroTime": "microtime",
    f"{_META}.Time": "time",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "raw",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intstr",
}
#: What is only answered, and of which OpenAPI says nothing.
BESIDE_OPENAPI: Final = (
    f"{_META}.PartialObjectMetadata",
    f"{_META}.PartialObjectMetadataList",
    f"{_META}beta1.PartialObjectMetadataList",
    "io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList",
)
#: Marks a list that protobuf puts into a message of its own.
_WRAPPED: Final = "protobuf.nullable"


def wire_lines(rows: Mapping[str, str]) -> Iterator[str]:
    """The table as it is written."""
    package = ""
    for definition in sorted(rows, key=by_package):
        here, _, name = definition.rpartition(".")
        if here != package:
            package = here
            yield package
        yield f" {name}{_short(rows[definition], package)}"


def wire_rows(sources: Sources, definitions: Collection[str]) -> dict[str, str]:
    """What there is to say of these definitions and of all types that they consist of, by name."""
    if missing := [name for name in definitions if not sources.declares(name)]:
        raise GoSourceError(f"the OpenAPI is of another release than the sources, which lack {', '.join(missing)}")
    rows: dict[str, str] = {}
    waiting = [f"{_META}.TypeMeta", *(name for name in definitions if _is_in_protobuf(sources, name))]
    while waiting:
        definition = waiting.pop()
        if definition not in rows:
            rows[definition] = row = _row(sources, definition)
            waiting += names_in(row)
    return rows


def _is_in_protobuf(sources: Sources, definition: str) -> bool:
    """Whether a type is of the API; what `/version` answers is not."""
    fields = sources.type(definition).fields
    return not fields or definition in _SPECIAL or any("protobuf" in field.tags for field in fields)


def _row(sources: Sources, definition: str) -> str:
    if form := _SPECIAL.get(definition):
        return f" ! {form}"
    package, _, name = definition.rpartition(".")
    if name in sources.package(package).marshalers:
        raise GoSourceError(f"{definition} writes its own JSON in a form that this tool does not know")
    declared = sources.type(definition)
    if declared.is_struct:
        return ": " + ", ".join(_field(sources, definition, field) for field in declared.fields if _is_shown(field))
    sign = "~" if declared.markers.get(_WRAPPED) == "true" else "="
    return f" {sign} {sources.full(declared.underlying, definition)}"


def _is_shown(field: GoField) -> bool:
    return field.tags.get("json") != "-"


def _field(sources: Sources, struct: str, field: GoField) -> str:
    name, *options = field.tags.get("json", "").split(",")
    is_inlined = not field.name and not name
    if is_inlined and "protobuf" not in field.tags and sources.full(field.type, struct) == f"{_META}.TypeMeta":
        return "^meta"
    number = field.tags.get("protobuf", "").split(",")[1:2]
    if not number or not (name or is_inlined):
        raise GoSourceError(f"{struct} has a field without a number or a name: {field.name or field.type}")
    type_ = sources.full(field.type, struct)
    flags = ("e" if "omitempty" in options else "") + ("z" if "omitzero" in options else "")
    return " ".join(filter(None, [name or "^", *number, type_, flags]))


def _short(line: str, package: str) -> str:
    """A row without the names that a reader of this package needs not be told."""
    bare = re.sub(rf"(?<![\w.-]){re.escape(package)}\.(?=\w+(?![\w.]))", "", line)
    return bare.replace(f"{_META}.", "meta.")
