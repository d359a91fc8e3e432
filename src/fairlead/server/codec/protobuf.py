"""Reads Kubernetes' protobuf bodies: kubectl and every Go client send them for built-in kinds.

A body is the four bytes `k8s\\0`, then an envelope that names the kind, in which the message lies. Field numbers come
from `wire`, so a reader is put together per type when the first message of that type arrives. What comes out is what
the client would have sent as JSON, not yet in normal form: `normalise` checks quantities and drops Go's zero values.
Answers are JSON always, which all clients accept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from fairlead.api.objects import Obj
from fairlead.golang import base64 as gobase64
from fairlead.golang import times as timestamps
from fairlead.golang.json import MalformedJson, parse
from fairlead.server.codec import wire
from fairlead.server.codec.wire import WireField, WireType

MAGIC: Final = b"k8s\x00"

#: What a wire type holds: a varint is a number, everything else bytes.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_Raw: TypeAlias = "int | bytes"
#: Makes the JSON value of one field out of its wire type and content.
_Reader: TypeAlias = Callable[[int, _Raw], Any]
#: Adds one occurrence of a field to the object.
_Adder: TypeAlias = Callable[[Obj, int, _Raw], None]


class MalformedProtobuf(ValueError):
    """The body is malformed; `str()` is the message of upstream's decoder."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the body says about the message in it."""

    api_version: str
    kind: str
    message: bytes


def open_envelope(body: bytes) -> Envelope:
    """The envelope of a body (runtime.Unknown)."""
    if not body:
        raise MalformedProtobuf("empty data")
    if not body.startswith(MAGIC):
        raise MalformedProtobuf(
            f"provided data does not appear to be a protobuf message, expected prefix [{' '.join(map(str, MAGIC))}]"
        )
    if body == MAGIC:
        raise MalformedProtobuf("empty body")
    outer = {number: _as_bytes(kind, raw) for number, kind, raw in _fields(body[len(MAGIC) :]) if number <= 2}
    meta = {number: _text(kind, raw) for number, kind, raw in _fields(outer.get(1, b""))}
    return Envelope(meta.get(1, ""), meta.get(2, ""), outer.get(2, b""))


def read(message: bytes, definition: str) -> Obj:
    """A message of the type that a definition names, as JSON would say it."""
    try:
        return _message(definition, message)
    except RecursionError:
        raise MalformedProtobuf("message is nested too deeply") from None


# --- the wire -------------------------------------------------------------------------------------------------------


def _fields(buffer: bytes) -> Iterator[tuple[int, int, _Raw]]:
    """The fields of a message in order: number, wire type, content."""
    at, end = 0, len(buffer)
    while at < end:
        key, at = _varint(buffer, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise MalformedProtobuf(f"proto: illegal tag 0 (wire type {kind})")
        if kind == _VARINT:
            value, at = _varint(buffer, at)
            yield number, kind, value
            continue
        if kind == _BYTES:
            size, at = _varint(buffer, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise MalformedProtobuf(f"proto: illegal wireType {kind}")
        if at + size > end:
            raise MalformedProtobuf("unexpected EOF")
        yield number, kind, buffer[at : at + size]
        at += size


_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}


def _varint(buffer: bytes, at: int) -> tuple[int, int]:
    """The number at this place and where it ends."""
    value = shift = 0
    while True:
        if shift > 63:
            raise MalformedProtobuf("proto: integer overflow")
        if at >= len(buffer):
            raise MalformedProtobuf("unexpected EOF")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7


def _as_number(kind: int, raw: _Raw) -> int:
    if not isinstance(raw, int):
        raise MalformedProtobuf(f"proto: wrong wireType = {kind}")
    return raw


def _as_bytes(kind: int, raw: _Raw) -> bytes:
    if kind != _BYTES or isinstance(raw, int):
        raise MalformedProtobuf(f"proto: wrong wireType = {kind}")
    return raw


# --- messages -------------------------------------------------------------------------------------------------------


def _message(definition: str, buffer: bytes) -> Obj:
    obj: Obj = {}
    adders = _adders(definition)
    for number, kind, raw in _fields(buffer):
        add = adders.get(number)
        if add is not None:
            add(obj, kind, raw)
    return obj


@cache
def _adders(definition: str) -> dict[int, _Adder]:
    return {field.number: _adder(field) for field in wire.declared(definition) if field.number}


def _adder(field: WireField) -> _Adder:
    name, shape = field.name, field.shape
    if shape.element is not None and not shape.wrapped:
        return _list_adder(name, shape.element) if shape.form == "list" else _map_adder(name, shape.element)
    read_value = _reader(shape)

    def add(obj: Obj, kind: int, raw: _Raw) -> None:
        obj[name] = read_value(kind, raw)

    def add_inlined(obj: Obj, kind: int, raw: _Raw) -> None:
        obj.update(read_value(kind, raw))

    return add if name else add_inlined


def _list_adder(name: str, element: WireType) -> _Adder:
    read_value = _reader(element)
    is_number = element.form in wire.INTEGERS

    def add(obj: Obj, kind: int, raw: _Raw) -> None:
        items = obj.setdefault(name, [])
        if is_number and isinstance(raw, bytes):
            items.extend(_packed(raw, read_value))
        else:
            items.append(read_value(kind, raw))

    return add


def _packed(buffer: bytes, read_value: _Reader) -> Iterator[Any]:
    at = 0
    while at < len(buffer):
        value, at = _varint(buffer, at)
        yield read_value(_VARINT, value)


def _map_adder(name: str, element: WireType) -> _Adder:
    """A map is a list of messages with the key in field 1 and the value in field 2."""
    read_value = _reader(element)

    def add(obj: Obj, kind: int, raw: _Raw) -> None:
        key, value = "", None
        for number, inner_kind, inner in _fields(_as_bytes(kind, raw)):
            if number == 1:
                key = _text(inner_kind, inner)
            elif number == 2:
                value = read_value(inner_kind, inner)
        obj.setdefault(name, {})[key] = value

    return add


# --- values ---------------------------------------------------------------------------------------------------------


def _reader(shape: WireType) -> _Reader:
    if shape.wrapped:
        return lambda kind, raw: _texts(_as_bytes(kind, raw), 1)
    if shape.form == "struct":
        return lambda kind, raw: _message(shape.definition, _as_bytes(kind, raw))
    return _READERS[shape.form]


def _text(kind: int, raw: _Raw) -> str:
    return _as_bytes(kind, raw).decode("utf-8", "replace")


def _texts(buffer: bytes, field_number: int) -> list[str]:
    return [_text(kind, raw) for number, kind, raw in _fields(buffer) if number == field_number]


def _signed(bits: int) -> _Reader:
    """Negative numbers come as 64 bits, of which the lower ones count."""
    modulus, half = 1 << bits, 1 << (bits - 1)
    return lambda kind, raw: (_as_number(kind, raw) + half) % modulus - half


def _bool(kind: int, raw: _Raw) -> bool:
    return _as_number(kind, raw) != 0


def _float(kind: int, raw: _Raw) -> float:
    if kind != _FIXED64 or isinstance(raw, int):
        raise MalformedProtobuf(f"proto: wrong wireType = {kind}")
    value: float = struct.unpack("<d", raw)[0]
    return value


def _base64(kind: int, raw: _Raw) -> str:
    return gobase64.encode(_as_bytes(kind, raw))


def _quantity(kind: int, raw: _Raw) -> str:
    return next(iter(_texts(_as_bytes(kind, raw), 1)), "0")


def _int_or_string(kind: int, raw: _Raw) -> int | str:
    parts = {number: (inner_kind, inner) for number, inner_kind, inner in _fields(_as_bytes(kind, raw))}
    is_string = _as_number(*parts.get(1, (_VARINT, 0)))
    if is_string:
        return _text(*parts.get(3, (_BYTES, b"")))
    number: int = _INT32(*parts.get(2, (_VARINT, 0)))
    return number


def _moment(precision: str) -> _Reader:
    """A time as the text that JSON has for it; an empty message is Go's zero time."""

    def read_moment(kind: int, raw: _Raw) -> str | None:
        buffer = _as_bytes(kind, raw)
        if not buffer:
            return None
        parts = {number: _INT64(inner_kind, inner) for number, inner_kind, inner in _fields(buffer)}
        try:
            return timestamps.written(timestamps.of_epoch(parts.get(1, 0), parts.get(2, 0)), precision)
        except ValueError:
            raise MalformedProtobuf("Time.MarshalJSON: year outside of range [0,9999]") from None

    return read_moment


def _json(kind: int, raw: _Raw) -> Any:
    """A message whose only field holds JSON."""
    parts = {number: (inner_kind, inner) for number, inner_kind, inner in _fields(_as_bytes(kind, raw))}
    body = _as_bytes(*parts.get(1, (_BYTES, b"")))
    try:
        return parse(body) if body else None
    except MalformedJson as error:
        raise MalformedProtobuf(str(error)) from None


_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def _schema(kind: int, raw: _Raw) -> Obj:
    return _message(_SCHEMA, _as_bytes(kind, raw))


def _schema_or_bool(kind: int, raw: _Raw) -> Any:
    parts = {number: (inner_kind, inner) for number, inner_kind, inner in _fields(_as_bytes(kind, raw))}
    if 2 in parts:
        return _schema(*parts[2])
    return _bool(*parts.get(1, (_VARINT, 0)))


def _schema_or_many(read_one: _Reader) -> _Reader:
    """One schema in field 1, or many values in field 2."""

    def read_union(kind: int, raw: _Raw) -> Any:
        parts = list(_fields(_as_bytes(kind, raw)))
        many = [read_one(inner_kind, inner) for number, inner_kind, inner in parts if number == 2]
        single = [_schema(inner_kind, inner) for number, inner_kind, inner in parts if number == 1]
        return many or (single[0] if single else None)

    return read_union


_INT32: Final = _signed(32)
_INT64: Final = _signed(64)
_READERS: Final[dict[str, _Reader]] = {
    "string": _text,
    "bool": _bool,
    "int32": _INT32,
    "int64": _INT64,
    "float64": _float,
    "bytes": _base64,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "time": _moment("seconds"),
    "microtime": _moment("microseconds"),
    "raw": _json,
    "fields": _json,
    "json": _json,
    "schema-or-bool": _schema_or_bool,
    "schema-or-array": _schema_or_many(_schema),
    "schema-or-strings": _schema_or_many(_text),
}
