"""Reads Kubernetes' protobuf bodies: kubectl and every Go client send them for built-in kinds.

A body is the four bytes `k8s\\0`, then an envelope that names the kind, in which the message lies. Field numbers come
from `wire`, so a reader is put together per type when the first message of that type arrives; a field is looked up by
the key that stands before it, and nothing is copied but what is kept. What comes out is what the client would have sent
as JSON, not yet in normal form: `normalise` checks quantities, and drops more of what Go leaves out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.api.objects import Obj
from fairlead.caches import bounded_cache
from fairlead.golang import base64 as gobase64
from fairlead.golang import times as timestamps
from fairlead.golang.json import MalformedJson, parse
from fairlead.server.codec import wire
from fairlead.server.codec.wire import WireField, WireType

MAGIC: Final = b"k8s\x00"

#: What a wire type holds: a varint is a number, everything else bytes.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_Raw: TypeAlias = "int | bytes"
#: Makes the JSON value of a message, text or the like, which lies between two places of a buffer.
_Reader: TypeAlias = Callable[[bytes, int, int], Any]


class MalformedProtobuf(ValueError):
    """The body is malformed; `str()` is the message of upstream's decoder."""


class Envelope(msgspec.Struct, frozen=True):
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
    meta = outer.get(1, b"")
    api_version, kind = ("".join(_texts(meta, number)[-1:]) for number in (1, 2))
    return Envelope(api_version, kind, outer.get(2, b""))


def read(message: bytes, definition: str) -> Obj:
    """A message of the type that a definition names, as JSON would say it."""
    try:
        found: Obj = _message_reader(definition)(message, 0, len(message))
    except RecursionError:
        raise MalformedProtobuf("message is nested too deeply") from None
    return found


# --- the wire -------------------------------------------------------------------------------------------------------


def _fields(buffer: bytes) -> Iterator[tuple[int, int, _Raw]]:
    """The fields of a small message in order: number, wire type, content."""
    at, end = 0, len(buffer)
    while at < end:
        key, at = _varint(buffer, at, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise MalformedProtobuf(f"proto: illegal tag 0 (wire type {kind})")
        if kind == _VARINT:
            value, at = _varint(buffer, at, end)
            yield number, kind, value
            continue
        size, at = _varint(buffer, at, end) if kind == _BYTES else (_fixed_size(kind), at)
        if at + size > end:
            raise MalformedProtobuf("unexpected EOF")
        yield number, kind, buffer[at : at + size]
        at += size


def _fixed_size(kind: int) -> int:
    if kind not in _SIZES:
        raise MalformedProtobuf(f"proto: illegal wireType {kind}")
    return _SIZES[kind]


_SIZES: Final = {_FIXED64: 8, _FIXED32: 4}


def _varint(buffer: bytes, at: int, end: int) -> tuple[int, int]:
    """The number at this place and where it ends."""
    value = shift = 0
    while True:
        if shift > 63:
            raise MalformedProtobuf("proto: integer overflow")
        if at >= end:
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


#: What becomes of a value that was read: it is a field, or one if it is not zero, an item of a list, several of them in
#: one piece, an entry of a map, the fields of an inlined struct, or nothing, for a newer client knows other fields.
_FIELD, _SET_FIELD, _ITEM, _ITEMS, _ENTRY, _FIELDS, _NOTHING = range(7)
#: Of a key: the name of its field, what becomes of its value, and what makes that of a number or of bytes.
_Rule: TypeAlias = "tuple[str, int, Callable[[int], Any], _Reader]"


@cache
def _message_reader(definition: str) -> _Reader:
    """Reads messages of the type that a definition names."""
    fields = {field.number: field for field in wire.declared(definition) if field.number}
    rules: dict[int, _Rule] = {}

    def compiled(key: int) -> _Rule:
        number, kind = key >> 3, key & 7
        if number == 0:
            raise MalformedProtobuf(f"proto: illegal tag 0 (wire type {kind})")
        if (field := fields.get(number)) is None:
            return _IGNORED
        rules[key] = rule = _rule(field, kind)
        return rule

    def read_message(buffer: bytes, at: int, end: int) -> Obj:
        obj: Obj = {}
        while at < end:  # most numbers have one byte, and most keys two at most
            key = buffer[at]
            at += 1
            if key > 0x7F:
                if at < end and (high := buffer[at]) < 0x80:
                    key, at = key & 0x7F | high << 7, at + 1
                else:
                    key, at = _varint(buffer, at - 1, end)
            name, mode, of_number, of_bytes = rules.get(key) or compiled(key)
            kind = key & 7
            if kind == _VARINT:
                if at < end and (number := buffer[at]) < 0x80:
                    at += 1
                else:
                    number, at = _varint(buffer, at, end)
                value = of_number(number)
            else:
                if kind != _BYTES:
                    size = _fixed_size(kind)
                elif at < end and (size := buffer[at]) < 0x80:
                    at += 1
                else:
                    size, at = _varint(buffer, at, end)
                start, at = at, at + size
                if at > end:
                    raise MalformedProtobuf("unexpected EOF")
                value = of_bytes(buffer, start, at)
            if mode == _FIELD or (mode == _SET_FIELD and value):
                obj[name] = value
            elif mode == _ITEM:
                obj.setdefault(name, []).append(value)
            elif mode == _ENTRY:
                obj.setdefault(name, {})[value[0]] = value[1]
            elif mode == _FIELDS:
                obj.update(value)
            elif mode == _ITEMS:
                obj.setdefault(name, []).extend(value)
            elif mode == _SET_FIELD:  # the last one counts
                obj.pop(name, None)
        return obj

    return read_message


def _rule(field: WireField, kind: int) -> _Rule:
    """What to do with the field if it comes as that wire type."""
    name, shape = field.name, field.shape
    element = None if shape.wrapped else shape.element
    if element is None:
        is_left_out = field.omit_empty and not shape.pointer and shape.form in wire.BASIC  # when it is zero
        return name, (_SET_FIELD if is_left_out else _FIELD) if name else _FIELDS, *_values(shape, kind)
    if shape.form == "map":
        return name, _ENTRY, _wrong_number, _entry(element) if kind == _BYTES else _wrong_bytes(kind)
    if element.form in wire.INTEGERS and kind == _BYTES:
        return name, _ITEMS, _wrong_number, _packed(_NUMBERS[element.form])
    return name, _ITEM, *_values(element, kind)


def _values(shape: WireType, kind: int) -> tuple[Callable[[int], Any], _Reader]:
    """What makes values of a type of a number, and of bytes; one of them refuses."""
    if (of_number := _NUMBERS.get(shape.form)) is not None:
        return of_number, _wrong_bytes(kind)
    if shape.form == "float64":
        return _wrong_number, _float if kind == _FIXED64 else _wrong_bytes(kind)
    return _wrong_number, _reader(shape) if kind == _BYTES else _wrong_bytes(kind)


def _wrong_number(number: int) -> Any:
    raise MalformedProtobuf(f"proto: wrong wireType = {_VARINT}")


@cache
def _wrong_bytes(kind: int) -> _Reader:
    def refuse(buffer: bytes, start: int, stop: int) -> Any:
        raise MalformedProtobuf(f"proto: wrong wireType = {kind}")

    return refuse


def _packed(of_number: Callable[[int], Any]) -> _Reader:
    def read_numbers(buffer: bytes, at: int, stop: int) -> list[Any]:
        found = []
        while at < stop:
            number, at = _varint(buffer, at, stop)
            found.append(of_number(number))
        return found

    return read_numbers


def _entry(element: WireType) -> _Reader:
    """An entry of a map is a message with the key in field 1 and the value in field 2."""
    read_value = _reader(element)

    def read_entry(buffer: bytes, start: int, stop: int) -> tuple[str, Any]:
        key, value = "", None
        for number, kind, inner in _fields(buffer[start:stop]):
            if number == 1:
                key = _as_bytes(kind, inner).decode("utf-8", "replace")
            elif number == 2:
                content = _as_bytes(kind, inner)
                value = read_value(content, 0, len(content))
        return key, value

    return read_entry


# --- values ---------------------------------------------------------------------------------------------------------


def _reader(shape: WireType) -> _Reader:
    if shape.wrapped:
        return lambda buffer, start, stop: _texts(buffer[start:stop], 1)
    if shape.form == "struct":
        return _message_reader(shape.definition)
    return _READERS[shape.form]


def _text(buffer: bytes, start: int, stop: int) -> str:
    return buffer[start:stop].decode("utf-8", "replace")


def _texts(buffer: bytes, field_number: int) -> list[str]:
    parts = (_as_bytes(kind, raw) for number, kind, raw in _fields(buffer) if number == field_number)
    return [part.decode("utf-8", "replace") for part in parts]


def _signed(bits: int) -> Callable[[int], int]:
    """Negative numbers come as 64 bits, of which the lower ones count."""
    modulus, half = 1 << bits, 1 << (bits - 1)
    return lambda number: (number + half) % modulus - half


def _float(buffer: bytes, start: int, stop: int) -> float:
    value: float = struct.unpack_from("<d", buffer, start)[0]
    return value


def _base64(buffer: bytes, start: int, stop: int) -> str:
    return gobase64.encode(buffer[start:stop])


def _whole(read_content: Callable[[bytes], Any]) -> _Reader:
    """Of a small message, which is read as a whole."""
    return lambda buffer, start, stop: read_content(buffer[start:stop])


@bounded_cache(maxsize=4096)
def _quantity(content: bytes) -> str:
    return next(iter(_texts(content, 1)), "0")


@bounded_cache(maxsize=4096)
def _int_or_string(content: bytes) -> int | str:
    parts = {number: (kind, inner) for number, kind, inner in _fields(content)}
    if _as_number(*parts.get(1, (_VARINT, 0))):
        return _as_bytes(*parts.get(3, (_BYTES, b""))).decode("utf-8", "replace")
    return _INT32(_as_number(*parts.get(2, (_VARINT, 0))))


def _moment(precision: str) -> Callable[[bytes], str | None]:
    """A time as the text that JSON has for it; an empty message is Go's zero time."""

    @bounded_cache(maxsize=4096)
    def read_moment(content: bytes) -> str | None:
        if not content:
            return None
        parts = {number: _INT64(_as_number(kind, inner)) for number, kind, inner in _fields(content)}
        try:
            return timestamps.written(timestamps.of_epoch(parts.get(1, 0), parts.get(2, 0)), precision)
        except ValueError:
            raise MalformedProtobuf("Time.MarshalJSON: year outside of range [0,9999]") from None

    return read_moment


def _json(content: bytes) -> Any:
    """A message whose only field holds JSON."""
    parts = {number: (kind, inner) for number, kind, inner in _fields(content)}
    body = _as_bytes(*parts.get(1, (_BYTES, b"")))
    try:
        return parse(body) if body else None
    except MalformedJson as error:
        raise MalformedProtobuf(str(error)) from None


_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def _schema(content: bytes) -> Obj:
    found: Obj = _message_reader(_SCHEMA)(content, 0, len(content))
    return found


def _schema_or_bool(content: bytes) -> Any:
    parts = {number: (kind, inner) for number, kind, inner in _fields(content)}
    if 2 in parts:
        return _schema(_as_bytes(*parts[2]))
    return _as_number(*parts.get(1, (_VARINT, 0))) != 0


def _schema_or_many(read_one: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """One schema in field 1, or many values in field 2."""

    def read_union(content: bytes) -> Any:
        parts = [(number, _as_bytes(kind, inner)) for number, kind, inner in _fields(content) if number in (1, 2)]
        many = [read_one(inner) for number, inner in parts if number == 2]
        single = [_schema(inner) for number, inner in parts if number == 1]
        return many or (single[0] if single else None)

    return read_union


_INT32: Final = _signed(32)
_INT64: Final = _signed(64)
_NUMBERS: Final[dict[str, Callable[[int], Any]]] = {"bool": bool, "int32": _INT32, "int64": _INT64}
_READERS: Final[dict[str, _Reader]] = {
    "string": _text,
    "bytes": _base64,
    "quantity": _whole(_quantity),
    "intstr": _whole(_int_or_string),
    "time": _whole(_moment("seconds")),
    "microtime": _whole(_moment("microseconds")),
    "raw": _whole(_json),
    "fields": _whole(_json),
    "json": _whole(_json),
    "schema-or-bool": _whole(_schema_or_bool),
    "schema-or-array": _whole(_schema_or_many(_schema)),
    "schema-or-strings": _whole(_schema_or_many(lambda content: content.decode("utf-8", "replace"))),
}
_IGNORED: Final[_Rule] = ("", _NOTHING, lambda number: None, lambda buffer, start, stop: None)
