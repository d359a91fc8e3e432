"""A structural schema, compiled once per version so that no write walks raw JSON Schema.

A `SchemaNode` holds what decides about *fields*: which exist, which are kept although unknown, what fills them in.
What decides about *values* is compiled beside it in `values.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.objects import Obj


class Absent:
    """The type of `ABSENT`."""


#: No value at all, where null would be one.
ABSENT: Final = Absent()


class SchemaNode(msgspec.Struct):
    """One place in an object."""

    type: str = ""
    properties: dict[str, SchemaNode] = msgspec.field(default_factory=dict)
    items: SchemaNode | None = None
    is_map: bool = False  # has additionalProperties, whatever they say
    values: SchemaNode | None = None  # their schema, if they have one
    preserves_unknown: bool = False
    is_embedded: bool = False
    is_nullable: bool = False
    default: Any = ABSENT
    default_bytes: int = 0
    #: Those of the properties that have a default.
    defaulted: dict[str, SchemaNode] = msgspec.field(default_factory=dict)
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()

    def child(self, key: str) -> SchemaNode | None:
        return self.properties.get(key) or self.values


def compile_schema(schema: Mapping[str, Any]) -> SchemaNode:
    """The node of a schema and everything below it."""
    additional = schema.get("additionalProperties")
    items, default = schema.get("items"), schema.get("default")
    properties = {key: compile_schema(below) for key, below in (schema.get("properties") or {}).items()}
    return SchemaNode(
        type=schema.get("type", ""),
        properties=properties,
        items=compile_schema(items) if isinstance(items, dict) else None,
        is_map=additional is not None,
        values=compile_schema(additional) if isinstance(additional, dict) else None,
        preserves_unknown=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        is_embedded=bool(schema.get("x-kubernetes-embedded-resource")),
        is_nullable=bool(schema.get("nullable")),
        default=ABSENT if default is None else default,
        defaulted={key: below for key, below in properties.items() if below.default is not ABSENT},
        default_bytes=0 if default is None else len(encode(default)),
        list_type=schema.get("x-kubernetes-list-type", ""),
        list_map_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
    )


def each_schema(schema: Obj | None) -> Iterator[Obj]:
    """A raw schema and all schemas in it, in value validations too (SchemaHas); each before what is in it."""
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(schemas_within(node))


def schemas_within(schema: Obj) -> Iterator[Any]:
    """What stands in a raw schema where another may stand."""
    for key in ("items", "not", "additionalProperties", "additionalItems"):
        below = schema.get(key)
        yield from below if isinstance(below, list) else [below]
    for key in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(key) or ()
    for key in ("properties", "patternProperties", "definitions", "dependencies"):
        yield from (schema.get(key) or {}).values()
