"""Protobuf for messages that are declared as classes: each field says its number, and its type how it is written.

The server's own reader and writer (`server/codec`) turn the messages of Kubernetes' kinds into JSON and back, by tables
of those kinds; here a message is an object, and what is not declared is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import NoneType
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT: Final = 10
_MASK64: Final = (1 << 64) - 1
#: The most that messages are nested in messages; ours are four deep.
_DEEPEST: Final = 32
#: The most fields, with those of messages in it: an empty one is two bytes, of which a hundred times as many are made.
_MOST_PARTS: Final = 1 << 19


class Malformed(ValueError):
    """The bytes are no such message."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Fields are declared as `name: Annotated[type, number] = default`; what has its type's empty value is not written.

    Types are str, bytes, bool, int, messages (None: not there), lists of these, and maps from str to str.
    """


M = TypeVar("M", bound=Message)


class _Field(NamedTuple):
    name: str
    number: int
    #: What is declared, of a list that of its items.
    kind: Any
    is_list: bool


def encode(message: Message) -> bytes:
    return b"".join(_encoded(message))


def decode(data: bytes, kind: type[M]) -> M:
    """Malformed for bytes that are no message, or one of more fields than anybody has a use for.

    A field takes some microseconds, of which there may be half a million: call it for much beside the event loop.
    """
    return _Reading().message(data, kind, 0)


@cache
def _fields(kind: type[Message]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_field(name, *get_args(hints[name])) for name in kind.__struct_fields__)


def _field(name: str, declared: Any, number: int) -> _Field:
    if get_origin(declared) is list:
        return _Field(name, number, get_args(declared)[0], True)
    kinds = [kind for kind in get_args(declared) if kind is not NoneType]
    is_optional = len(kinds) == 1 and get_origin(declared) is not dict
    return _Field(name, number, kinds[0] if is_optional else declared, False)


# --- writing --------------------------------------------------------------------------------------------------------


def _encoded(message: Message) -> Iterator[bytes]:
    for field in _fields(type(message)):
        value = getattr(message, field.name)
        if field.is_list and field.kind is int and value:
            yield _delimited(field.number, b"".join(map(_varint, value)))
        elif field.is_list:
            for item in value:
                yield _one(field, item)
        elif get_origin(field.kind) is dict:
            for key, text in value.items():
                pair = _delimited(1, key.encode()) + _delimited(2, text.encode())
                yield _delimited(field.number, pair)
        elif value or isinstance(value, Message):
            yield _one(field, value)


def _one(field: _Field, value: Any) -> bytes:
    if isinstance(value, Message):
        return _delimited(field.number, encode(value))
    if isinstance(value, str):
        return _delimited(field.number, value.encode())
    if isinstance(value, bytes):
        return _delimited(field.number, value)
    return _varint(field.number << 3 | _VARINT) + _varint(int(value))


def _delimited(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    left, found = value & _MASK64, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


# --- reading --------------------------------------------------------------------------------------------------------


class _Reading:
    """Of one message, with all that is in it."""

    def __init__(self) -> None:
        self._parts_left = _MOST_PARTS

    def message(self, data: bytes, kind: type[M], depth: int) -> M:
        if depth > _DEEPEST:
            raise Malformed("messages are nested too deeply")
        known = {field.number: field for field in _fields(kind)}
        found: dict[str, Any] = {}
        for number, raw in self._parts(data):
            if (field := known.get(number)) is None:
                continue
            if field.is_list:
                found.setdefault(field.name, []).extend(self._items(field, raw, depth))
            elif get_origin(field.kind) is dict:
                key, value = self._pair(raw)
                found.setdefault(field.name, {})[key] = value
            else:
                found[field.name] = self._value(field.kind, raw, depth)
        return kind(**found)

    def _items(self, field: _Field, raw: int | bytes, depth: int) -> Iterable[Any]:
        """Numbers come one by one, or many at once."""
        if field.kind is int and isinstance(raw, bytes):
            return [_signed(number) for number in self._numbers(raw)]
        return [self._value(field.kind, raw, depth)]

    def _value(self, kind: Any, raw: int | bytes, depth: int) -> Any:
        if isinstance(raw, int):
            if kind is not int and kind is not bool:
                raise Malformed("a number where there is none")
            return kind(_signed(raw))
        if issubclass(kind, Message):
            return self.message(raw, kind, depth + 1)
        if kind is str:
            return raw.decode(errors="replace")
        if kind is bytes:
            return raw
        raise Malformed("bytes where a number belongs")

    def _pair(self, raw: int | bytes) -> tuple[str, str]:
        if isinstance(raw, int):
            raise Malformed("a number where a map belongs")
        parts = dict(self._parts(raw))
        return self._value(str, parts.get(1, b""), 0), self._value(str, parts.get(2, b""), 0)

    def _parts(self, data: bytes) -> Iterator[tuple[int, int | bytes]]:
        """The fields that are there: number and content. Fixed numbers are passed over: no message of ours has one."""
        at = 0
        while at < len(data):
            self._count()
            key, at = _read_varint(data, at)
            number, wire = key >> 3, key & 7
            if wire == _VARINT:
                value, at = _read_varint(data, at)
                yield number, value
            elif wire in _SIZES:
                size, at = _SIZES[wire](data, at)
                if size > len(data) - at:
                    raise Malformed("the message is cut off")
                if wire == _BYTES:
                    yield number, data[at : at + size]
                at += size
            else:
                raise Malformed(f"wire type {wire}")

    def _numbers(self, data: bytes) -> Iterator[int]:
        at = 0
        while at < len(data):
            self._count()
            number, at = _read_varint(data, at)
            yield number

    def _count(self) -> None:
        self._parts_left -= 1
        if self._parts_left < 0:
            raise Malformed(f"the message has more than {_MOST_PARTS} fields")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_LONGEST_VARINT):
        if at + index >= len(data):
            raise Malformed("a number is cut off")
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value & _MASK64, at + index + 1
    raise Malformed("a number is too long")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


#: How long what follows is, and where it begins.
_SIZES: Final[dict[int, Callable[[bytes, int], tuple[int, int]]]] = {
    _BYTES: _read_varint,
    _FIXED32: lambda data, at: (4, at),
    _FIXED64: lambda data, at: (8, at),
}
