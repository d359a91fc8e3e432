"""Writes objects as Kubernetes' protobuf: what Go components ask for in answers, byte for byte as Go writes it.

Go's generated code writes fields in the order of their numbers, every scalar and struct that is no pointer even if
nobody has set it, pointers only if they are set, and maps by their keys. So a message of a type is a row of parts, most
of which are constants: a writer copies that row and replaces the parts of the fields that the object has. Writers are
closures over the types of `wire`, made when a type is first written; fields are compiled when they are first seen.

Objects are expected in normal form, as they are stored.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, TypeAlias

from fairlead.api.encoded import Encoded, encode
from fairlead.api.objects import Obj
from fairlead.caches import bounded_cache
from fairlead.golang import base64 as gobase64
from fairlead.server.codec import wire
from fairlead.server.codec.body_types import definition_of
from fairlead.server.codec.protobuf import MAGIC
from fairlead.server.codec.wire import WireField, WireType

_VARINT, _FIXED64, _BYTES = 0, 1, 2

#: Makes the content of a value: all but its tag and length.
_Content: TypeAlias = Callable[[Any], bytes]
#: Makes a whole field of a value.
_Put: TypeAlias = Callable[[Any], bytes]


def object_message(obj: Obj) -> bytes:
    """An object as an answer: its message in an envelope that names its kind."""
    kind, api_version = obj.get("kind", ""), obj.get("apiVersion", "")
    return enveloped(kind, api_version, message_writer(message_type(kind, api_version))(obj))


def message_type(kind: str, api_version: str) -> str:
    """The definition of a kind, be it of the API or of what every group has in common (Status, discovery); "": none."""
    group, _, version = api_version.rpartition("/")
    if wire.is_known(found := definition_of(group, version, kind)):
        return found
    if group in _COMMON_GROUPS:
        for package in (f"{wire.META.rpartition('.')[0]}.{version}", wire.META):
            if wire.is_known(found := f"{package}.{kind}"):
                return found
    return ""


_COMMON_GROUPS: Final = ("", "meta.k8s.io")


def enveloped(kind: str, api_version: str, message: bytes) -> bytes:
    """A message as a body of its own (runtime.Unknown)."""
    head, tail = envelope(kind, api_version, len(message))
    return head + message + tail


def envelope(kind: str, api_version: str, size: int) -> tuple[bytes, bytes]:
    """What stands around a message of that size."""
    type_meta = delimited(1, api_version.encode()) + delimited(2, kind.encode())
    return MAGIC + delimited(1, type_meta) + delimited_head(2, size), _END_OF_ENVELOPE


def message_of(item: Encoded, definition: str) -> bytes:
    """The message of an encoded object, written once and kept with it: lists and watches share it."""
    return item.kept(_encoded_writer(definition))


@cache
def _encoded_writer(definition: str) -> Callable[[Encoded], bytes]:
    write = message_writer(definition)
    if definition == f"{wire.META}.PartialObjectMetadata":  # the rest of the object need not be read
        return lambda item: write({"metadata": item.metadata()})
    return lambda item: write(item.obj())


# --- the wire -------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def key(number: int, kind: int) -> bytes:
    """What stands before every field."""
    return varint(number << 3 | kind)


def delimited(number: int, content: bytes) -> bytes:
    """A field of bytes, text or a message."""
    return delimited_head(number, len(content)) + content


def delimited_head(number: int, size: int) -> bytes:
    """What stands before so many bytes of such a field."""
    return key(number, _BYTES) + varint(size)


_END_OF_ENVELOPE: Final = delimited(3, b"") + delimited(4, b"")  # contentEncoding, contentType

#: So long are most texts.
_SHORT: Final = 128


@cache
def _heads(number: int) -> list[bytes]:
    """Tag and length of short contents."""
    return [key(number, _BYTES) + varint(size) for size in range(_SHORT)]


# --- structs --------------------------------------------------------------------------------------------------------

#: Of a field: the index of its part, and what makes it.
_Rule: TypeAlias = "tuple[int, _Put]"


@cache
def message_writer(definition: str) -> Callable[[Obj], bytes]:
    """Writes objects of the type that a definition names as messages."""
    fields = sorted((field for field in wire.declared(definition) if field.number), key=lambda field: field.number)
    absent = [_absent(field) for field in fields]
    places = {field.name: (index, field) for index, field in enumerate(fields) if field.name}
    inlined = [(index, _put(field)) for index, field in enumerate(fields) if not field.name]
    #: The parts of what has none here: the fields of inlined structs, kind and apiVersion.
    nowhere = len(absent)
    absent.append(b"")
    rules: dict[str, _Rule] = {name: (nowhere, _empty) for name in wire.fields(definition) if name not in places}

    def compiled(name: str) -> _Rule:
        if (place := places.get(name)) is None:  # a field that only other types have
            return nowhere, _empty
        index, field = place
        rules[name] = rule = (index, _put(field))
        return rule

    def write(obj: Obj) -> bytes:
        parts = absent.copy()
        for name, value in obj.items():
            if value is not None:
                index, put = rules.get(name) or compiled(name)
                parts[index] = put(value)
        for index, put in inlined:
            parts[index] = put(obj)
        return b"".join(parts)

    return write


def _absent(field: WireField) -> bytes:
    """The part of a field that an object does not have."""
    shape = field.shape
    if shape.pointer or shape.element is not None or shape.form == "bytes":
        return b""
    return _ZERO_PARTS[shape.form](field.number) if shape.form in _ZERO_PARTS else _put(field)(_ZEROS[shape.form])


_ZEROS: Final[dict[str, Any]] = {
    "string": "", "bool": False, "float64": 0.0, "quantity": "0", "intstr": 0, **dict.fromkeys(wire.INTEGERS, 0),
    "struct": {}, "schema-or-bool": False,
}  # fmt: skip
#: Forms whose zero value is an empty message.
_ZERO_PARTS: Final[dict[str, Callable[[int], bytes]]] = dict.fromkeys(
    ("time", "microtime", "raw", "fields", "json", "schema-or-array", "schema-or-strings"),
    lambda number: delimited(number, b""),
)


# --- fields ---------------------------------------------------------------------------------------------------------


def _put(field: WireField) -> _Put:
    shape = field.shape
    if shape.element is None or shape.wrapped:
        return _single(field.number, shape)
    return _list(field.number, shape.element) if shape.form == "list" else _map(field.number, shape.element)


def _single(number: int, shape: WireType) -> _Put:
    form = shape.form
    if form == "string":
        return _text(number)
    if form == "bool":
        parts = [key(number, _VARINT) + varint(value) for value in (0, 1)]
        return lambda value: parts[value]
    if form in wire.INTEGERS:
        return _integer(number)
    if form == "float64":
        head = key(number, _FIXED64)
        return lambda value: head + struct.pack("<d", value)
    return _delimited(number, _content(shape))


def _text(number: int) -> _Put:
    tag, heads = key(number, _BYTES), _heads(number)

    def put(value: str) -> bytes:
        content = value.encode()
        size = len(content)
        return heads[size] + content if size < _SHORT else b"%b%b%b" % (tag, varint(size), content)

    return put


def _integer(number: int) -> _Put:
    tag = key(number, _VARINT)
    small = [tag + varint(value) for value in range(_SHORT)]
    return lambda value: small[value] if 0 <= value < _SHORT else tag + varint(value & 0xFFFFFFFFFFFFFFFF)


def _delimited(number: int, make: _Content) -> _Put:
    tag, heads = key(number, _BYTES), _heads(number)

    def put(value: Any) -> bytes:
        content = make(value)
        size = len(content)
        return heads[size] + content if size < _SHORT else b"%b%b%b" % (tag, varint(size), content)

    return put


def _list(number: int, element: WireType) -> _Put:
    """Every element as a field of its own; Kubernetes packs nothing."""
    put = _single(number, element)
    zero = _delimited(number, _empty)(None)
    return lambda values: b"".join([zero if value is None else put(value) for value in values])


def _map(number: int, element: WireType) -> _Put:
    """Every entry as a message with the key in field 1 and the value in field 2, in the order of their keys."""
    put_key, put_value, put_entry = _text(1), _single(2, element), _delimited(number, _joined)
    zero = b"" if element.form == "bytes" else _delimited(2, _empty)(None)

    def put(values: dict[str, Any]) -> bytes:
        parts = []
        for name in sorted(values):
            value = values[name]
            parts.append(put_entry((put_key(name), zero if value is None else put_value(value))))
        return b"".join(parts)

    return put


_joined: Final[_Content] = b"".join


def _empty(value: Any) -> bytes:
    return b""


# --- contents -------------------------------------------------------------------------------------------------------


def _content(shape: WireType) -> _Content:
    if shape.wrapped:
        assert shape.element is not None
        return _list(1, shape.element)
    if shape.form == "struct":
        return message_writer(shape.definition)
    return _CONTENTS[shape.form]


def _quantity(value: str) -> bytes:
    return _TEXT_1(value)


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00" + _TEXT_3(value)
    return b"\x08\x00" + _NUMBER_2(value) + b"\x1a\x00"


@bounded_cache(maxsize=4096)
def _moment(text: str) -> bytes:
    """Seconds and nanoseconds since 1970. Go never writes more than the decimals that JSON has, too."""
    moment = datetime.fromisoformat(text)
    seconds = (moment - _EPOCH) // _SECOND
    return _NUMBER_1(seconds) + _NUMBER_2(1000 * moment.microsecond)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


def _json(value: Any) -> bytes:
    return _BYTES_1(encode(value))


_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def _schema(value: Obj) -> bytes:
    return message_writer(_SCHEMA)(value)


def _schema_or_bool(value: Obj | bool) -> bytes:
    if isinstance(value, bool):
        return _FLAG_1(value)
    return _FLAG_1(True) + _SCHEMA_2(value)


def _schema_or_many(put_one: _Put) -> _Content:
    """One schema in field 1, or many values in field 2."""
    return lambda value: _SCHEMA_1(value) if isinstance(value, dict) else b"".join(map(put_one, value))


def _flag(number: int) -> _Put:
    return _single(number, WireType("bool", "bool"))


_TEXT_1, _TEXT_3 = _text(1), _text(3)
_NUMBER_1, _NUMBER_2 = _integer(1), _integer(2)
_BYTES_1: Final = _delimited(1, bytes)
_FLAG_1: Final = _flag(1)
_SCHEMA_1, _SCHEMA_2 = _delimited(1, _schema), _delimited(2, _schema)
_CONTENTS: Final[dict[str, _Content]] = {
    "bytes": gobase64.decode,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "time": _moment,
    "microtime": _moment,
    "raw": _json,
    "fields": _json,
    "json": _json,
    "schema-or-bool": _schema_or_bool,
    "schema-or-array": _schema_or_many(_SCHEMA_2),
    "schema-or-strings": _schema_or_many(_text(2)),
}
