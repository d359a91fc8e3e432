"""Values while an expression is evaluated.

JSON as it was decoded is used as it is: `int`, `float`, `str`, `bool`, `None`, `list` and `dict` are CEL's int,
double, string, bool, null, list and map. The other types are below. Two things differ from Python: a bool is no
number, and keys of a map may be of several types (`map_key`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, Final

import msgspec

from fairlead.cel.errors import CelError

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1
NANOS: Final = 1_000_000_000


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


@total_ordering
@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time."""

    nanos: int

    def __lt__(self, other: Duration) -> bool:
        return self.nanos < other.nanos


@total_ordering
@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment, in nanoseconds since 1970 (UTC)."""

    nanos: int

    def __lt__(self, other: Timestamp) -> bool:
        return self.nanos < other.nanos


class OptionalValue(msgspec.Struct, frozen=True):
    """A value that may be missing."""

    value: Any = None
    is_present: bool = False


NONE: Final = OptionalValue()


def some(value: Any) -> OptionalValue:
    return OptionalValue(value, True)


class KeyedList(list[Any]):
    """A list whose order means nothing (`x-kubernetes-list-type`): no two elements are alike in those fields.

    Without fields they are told apart by themselves: a set. Two are equal in any order; `+` puts what the other has in
    the place of what is alike, and the rest behind.
    """

    __slots__ = ("keys",)

    def __init__(self, values: Iterable[Any], keys: tuple[str, ...] = ()) -> None:
        super().__init__(values)
        self.keys = keys

    def by_identity(self, values: Iterable[Any]) -> dict[Any, Any]:
        """Values by what tells them apart."""
        if not self.keys:
            return {_hashable(value): value for value in values}
        return {tuple(_hashable(value.get(key)) for key in self.keys): value for value in values}

    def merged(self, other: list[Any]) -> KeyedList:
        mine, more = self.by_identity(self), self.by_identity(other)
        return KeyedList((mine | (more if self.keys else more | mine)).values(), self.keys)

    def equals(self, other: list[Any]) -> bool:
        if len(self) != len(other):
            return False
        mine = self.by_identity(self)
        return all(key in mine and equal(mine[key], value) for key, value in self.by_identity(other).items())


def _hashable(value: Any) -> Any:
    """A value as a key of a dict; 1 and true are two."""
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return (value,) if type(value) is bool else value


class TypeName(msgspec.Struct, frozen=True):
    """A type as a value, as `type(x)` gives it."""

    name: str


class Opaque:
    """A value of a type that Kubernetes adds. Two are equal if their classes and keys are."""

    __slots__ = ()
    type_name: str = ""

    def key(self) -> Any:
        raise NotImplementedError


class _BoolKey(msgspec.Struct, frozen=True):
    """A bool among the keys of a map, where Python would take it for 0 or 1."""

    value: bool


_BOOL_KEYS: Final = {False: _BoolKey(False), True: _BoolKey(True)}


def map_key(value: Any) -> Any:
    """How a key is held in a dict."""
    if type(value) is bool:
        return _BOOL_KEYS[value]
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, int | str):
        return value
    raise CelError(f"unsupported key type: {type_name(value)}")


def from_map_key(key: Any) -> Any:
    """The key that a dict holds so."""
    return key.value if isinstance(key, _BoolKey) else key


def keys_of(value: Mapping[Any, Any]) -> Iterable[Any]:
    return map(from_map_key, value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and type(value) is not bool


def equal(left: Any, right: Any) -> bool:
    """CEL's equality: numbers by value whatever their type, lists and maps by what is in them; never an error."""
    if is_number(left):
        return is_number(right) and bool(left == right)
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        if isinstance(left, KeyedList):
            return left.equals(right)
        return all(equal(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        return all(key in right and equal(value, right[key]) for key, value in left.items())
    if isinstance(left, OptionalValue):
        if not isinstance(right, OptionalValue) or left.is_present != right.is_present:
            return False
        return equal(left.value, right.value)
    if isinstance(left, Opaque):
        return type(left) is type(right) and bool(left.key() == right.key())
    return type(left) is type(right) and bool(left == right)


def contains(values: Sequence[Any], wanted: Any) -> bool:
    """Whether a list has an element that is equal."""
    if isinstance(wanted, str):
        return wanted in values
    return any(equal(value, wanted) for value in values)


_NAMES: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    KeyedList: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    OptionalValue: "optional_type",
    TypeName: "type",
}


def type_name(value: Any) -> str:
    """The name of a value's type."""
    return value.type_name if isinstance(value, Opaque) else _NAMES[type(value)]


def checked_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def checked_uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


def size_of(value: Any) -> int:
    """What the cost of working through a value depends on."""
    return len(value) if isinstance(value, str | bytes | list | dict) else 1
