"""Types of JSON as a structural schema or an OpenAPI definition declares it (apiserver/pkg/cel/common/schemas.go)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from fairlead.cel.errors import CelError
from fairlead.cel.functions.times import read_duration, read_timestamp
from fairlead.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    ObjectField,
    ObjectType,
    Type,
    list_of,
    map_of,
)
from fairlead.cel.values import Duration, KeyedList, Timestamp

Schema: TypeAlias = Mapping[str, Any]
Reader: TypeAlias = Callable[[Any], Any]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-/]*")
_KEYWORDS: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_META: Final = ObjectType.named("metadata", {name: ObjectField(name, STRING) for name in ("name", "generateName")})


def escaped(name: str) -> str | None:
    """A property as an expression names it; None: it cannot be named."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    for text, escape in (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(text, escape)
    return name


def declared(schema: Schema, *, is_root: bool = False) -> Type | None:
    """The type of what a schema declares; None for what expressions cannot name."""
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    match schema.get("type"):
        case "object":
            return _object(schema, is_root or bool(schema.get("x-kubernetes-embedded-resource")))
        case "array":
            items = schema.get("items")
            element = declared(items) if isinstance(items, dict) else None
            return list_of(element) if element is not None else None
        case "string":
            return _FORMATS.get(schema.get("format") or "", STRING)
        case "boolean":
            return BOOL
        case "integer":
            return INT
        case "number":
            return DOUBLE
    return None


def _object(schema: Schema, is_resource: bool) -> Type | None:
    values = schema.get("additionalProperties")
    if isinstance(values, dict) and not schema.get("properties"):
        value = declared(values)
        return map_of(STRING, value) if value is not None else None
    fields: dict[str, ObjectField] = {}
    for key, below in (schema.get("properties") or {}).items():
        name, type_ = escaped(key), declared(below)
        if name is not None and type_ is not None:
            fields[name] = ObjectField(key, type_, reader(below))
            if key in _KEYWORDS:  # after a dot none is mistaken for a keyword: since 1.31 it need not be escaped
                fields[key] = fields[name]
    if is_resource:
        fields |= {name: ObjectField(name, STRING) for name in ("apiVersion", "kind")}
        fields["metadata"] = ObjectField("metadata", _META)
    return ObjectType.named("object", fields)


def reader(schema: Schema) -> Reader | None:
    """How JSON of that schema becomes a value; None if it is one. Fields of objects are read when they are selected."""
    if schema.get("x-kubernetes-int-or-string"):
        return None
    match schema.get("type"):
        case "string":
            return _READERS.get(schema.get("format") or "")
        case "number":
            return _double
        case "array":
            items = schema.get("items")
            return _list(schema, reader(items)) if isinstance(items, dict) else None
        case "object" if not schema.get("properties"):
            values = schema.get("additionalProperties")
            return _each_value(reader(values)) if isinstance(values, dict) else None
    return None


def _list(schema: Schema, read: Reader | None) -> Reader | None:
    type_, keys = schema.get("x-kubernetes-list-type"), tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if type_ not in ("set", "map"):
        return None if read is None else lambda values: [read(value) for value in values]
    if read is None:
        return lambda values: KeyedList(values, keys)
    return lambda values: KeyedList([read(value) for value in values], keys)


def _each_value(read: Reader | None) -> Reader | None:
    return None if read is None else lambda values: {key: read(value) for key, value in values.items()}


def _double(value: Any) -> Any:
    """JSON writes whole doubles as integers."""
    return float(value) if type(value) is int else value


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(value)
    except binascii.Error as error:
        raise CelError(str(error)) from None


def _timestamp(value: Any) -> Timestamp:
    return read_timestamp(value)


def _date(value: Any) -> Timestamp:
    return read_timestamp(f"{value}T00:00:00Z")


def _duration(value: Any) -> Duration:
    return read_duration(value)


_FORMATS: Final[dict[str, Type]] = {
    "byte": BYTES,
    "duration": DURATION,
    "date": TIMESTAMP,
    "date-time": TIMESTAMP,
}
_READERS: Final[dict[str, Reader]] = {
    "byte": _bytes,
    "duration": _duration,
    "date": _date,
    "date-time": _timestamp,
}
