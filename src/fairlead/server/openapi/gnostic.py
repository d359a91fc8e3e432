"""The v2 document as protobuf: the only form in which kubectl's Go client takes it.

kubectl asks for it when v3 knows nothing of a kind (`apply` of a kind that is not served, of a List, of a CRD together
with its objects); without an answer it ends before it has said what is wrong. The messages are those of gnostic
(openapi.v2 in github.com/google/gnostic-models); each table says under which number and in which form a member of the
JSON document goes into its message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.api.encoded import encode
from fairlead.server.codec.protobuf_writer import delimited, key, varint

MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
#: How clients asked for it before Kubernetes 1.24, and ask still.
OLD_MEDIA_TYPE: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

#: Writes a JSON value as the field of that number, with its tag.
_Write: TypeAlias = Callable[[int, Any], bytes]
#: The members of a JSON object that have a field of their own: its number and form.
_Table: TypeAlias = Mapping[str, tuple[int, _Write]]
_EXTENSION: Final = "x-"


def document(json: bytes) -> bytes:
    """The same document as protobuf."""
    return _message(_DOCUMENT, msgspec.json.decode(json))


# --- forms ----------------------------------------------------------------------------------------------------------


def _text(number: int, value: str) -> bytes:
    return delimited(number, value.encode())


def _flag(number: int, value: bool) -> bytes:
    return key(number, 0) + (b"\1" if value else b"\0")


def _integer(number: int, value: int) -> bytes:
    return key(number, 0) + varint(value & 0xFFFFFFFFFFFFFFFF)


def _double(number: int, value: float) -> bytes:
    return key(number, 1) + struct.pack("<d", value)


def _any(number: int, value: object) -> bytes:
    """Any value: as YAML, which JSON is."""
    return delimited(number, _text(2, encode(value).decode() + "\n"))


def _each(write: _Write) -> _Write:
    """A list: its elements one after the other."""
    return lambda number, values: b"".join(write(number, value) for value in values)


def _within(inner: int, write: _Write) -> _Write:
    """A message with nothing in it but this field."""
    return lambda number, value: delimited(number, write(inner, value))


def _named(inner: int, write: _Write) -> _Write:
    """A message that stands for a map: entries with a name and a value."""

    def written(number: int, values: Mapping[str, Any]) -> bytes:
        entries = (delimited(inner, _text(1, name) + write(2, value)) for name, value in values.items())
        return delimited(number, b"".join(entries))

    return written


def _of(table: _Table) -> _Write:
    """A message with the fields of a table."""
    return lambda number, value: delimited(number, _message(table, value))


def _message(table: _Table, value: Mapping[str, Any]) -> bytes:
    """The content of a message. Members that begin with `x-` are extensions; others without a field are left out."""
    extensions, _ = table[_EXTENSION]
    parts = []
    for name, member in value.items():
        if (field := table.get(name)) is not None:
            number, write = field
            parts.append(write(number, member))
        elif name.startswith(_EXTENSION):
            parts.append(delimited(extensions, _text(1, name) + _any(2, member)))
    return b"".join(parts)


# --- messages -------------------------------------------------------------------------------------------------------


def _schema(number: int, value: Mapping[str, Any]) -> bytes:
    return delimited(number, _message(_SCHEMA, value))


def _or_list(write: _Write) -> _Write:
    """One value, or a list of them."""
    return lambda number, value: _each(write)(number, value if isinstance(value, list) else [value])


def _additional(number: int, value: Any) -> bytes:
    return delimited(number, _flag(2, value) if isinstance(value, bool) else _schema(1, value))


_SCHEMA: Final[_Table] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _flag),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _flag),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _text),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _flag),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, _each(_text)),
    "enum": (20, _each(_any)),
    "additionalProperties": (21, _additional),
    "type": (22, _within(1, _or_list(_text))),
    "items": (23, _within(1, _or_list(_schema))),
    "allOf": (24, _each(_schema)),
    "properties": (25, _named(1, _schema)),
    "readOnly": (27, _flag),
    "example": (30, _any),
    _EXTENSION: (31, _any),
}
_BODY: Final[_Table] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, _schema),
    _EXTENSION: (6, _any),
}
_SIMPLE: Final[_Table] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
}
_QUERY: Final[_Table] = {**_SIMPLE, "type": (6, _text), "uniqueItems": (20, _flag), _EXTENSION: (23, _any)}
_PATH: Final[_Table] = {**_SIMPLE, "type": (5, _text), "uniqueItems": (19, _flag), _EXTENSION: (22, _any)}
#: Where a parameter is: which of the kinds of parameters its message is of.
_PARAMETERS: Final[Mapping[str, _Write]] = {
    "body": _within(1, _of(_BODY)),
    "header": _within(2, _within(1, _of(_PATH))),
    "formData": _within(2, _within(2, _of(_QUERY))),
    "query": _within(2, _within(3, _of(_QUERY))),
    "path": _within(2, _within(4, _of(_PATH))),
}
_REFERENCE: Final = _within(2, _within(1, _text))


def _parameter(number: int, value: Mapping[str, Any]) -> bytes:
    return _PARAMETERS[value["in"]](number, value)


def _parameter_or_reference(number: int, value: Mapping[str, Any]) -> bytes:
    if "$ref" in value:
        return _REFERENCE(number, value["$ref"])
    return delimited(number, _parameter(1, value))


_RESPONSE: Final[_Table] = {"description": (1, _text), "schema": (2, _within(1, _schema)), _EXTENSION: (5, _any)}
_OPERATION: Final[_Table] = {
    "tags": (1, _each(_text)),
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _each(_text)),
    "consumes": (7, _each(_text)),
    "parameters": (8, _each(_parameter_or_reference)),
    "responses": (9, _named(1, _within(1, _of(_RESPONSE)))),
    _EXTENSION: (13, _any),
}
_PATH_ITEM: Final[_Table] = {
    "get": (2, _of(_OPERATION)),
    "put": (3, _of(_OPERATION)),
    "post": (4, _of(_OPERATION)),
    "delete": (5, _of(_OPERATION)),
    "patch": (8, _of(_OPERATION)),
    "parameters": (9, _each(_parameter_or_reference)),
    _EXTENSION: (10, _any),
}
_INFO: Final[_Table] = {"title": (1, _text), "version": (2, _text), _EXTENSION: (7, _any)}
_API_KEY: Final[_Table] = {
    "type": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "description": (4, _text),
    _EXTENSION: (5, _any),
}
_DOCUMENT: Final[_Table] = {
    "swagger": (1, _text),
    "info": (2, _of(_INFO)),
    "paths": (8, _named(2, _of(_PATH_ITEM))),
    "definitions": (9, _named(1, _schema)),
    "parameters": (10, _named(1, _parameter)),
    "security": (12, _each(_named(1, _within(1, _each(_text))))),
    "securityDefinitions": (13, _named(1, _within(2, _of(_API_KEY)))),
    _EXTENSION: (16, _any),
}
