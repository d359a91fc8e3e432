"""Types of expressions, and which fit where. `dyn` fits everywhere: what it is, the evaluation finds out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fairlead.cel.values import Duration, KeyedList, Opaque, OptionalValue, Timestamp, TypeName, Uint


@dataclass(frozen=True, slots=True)
class Type:
    """A type by name, with what it holds. Names are printed in errors as cel-go prints them."""

    name: str
    of: tuple[Type, ...] = ()
    #: What a value of it looks like in Python; empty for `dyn` and for parameters of functions.
    classes: tuple[type, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.of))})" if self.of else self.name


@dataclass(frozen=True, slots=True, eq=False)
class ObjectType(Type):
    """An object with declared fields. Keys are names as expressions spell them."""

    fields: Mapping[str, ObjectField] = field(default_factory=dict)

    @classmethod
    def named(cls, name: str, fields: Mapping[str, ObjectField]) -> ObjectType:
        return cls(name, (), (dict,), fields)


class ObjectField(msgspec.Struct, frozen=True):
    """A field of an object: its key in JSON, its type, and how its JSON becomes a value if it is none already."""

    key: str
    type: Type
    read: Callable[[Any], Any] | None = None


DYN: Final = Type("dyn")
#: Of what nothing is known yet, as of the elements of `[]`. It is equal to `dyn`, and anything may stand beside it.
OPEN: Final = Type("dyn")
BOOL: Final = Type("bool", (), (bool,))
INT: Final = Type("int", (), (int,))
UINT: Final = Type("uint", (), (Uint,))
DOUBLE: Final = Type("double", (), (float,))
STRING: Final = Type("string", (), (str,))
BYTES: Final = Type("bytes", (), (bytes,))
NULL: Final = Type("null", (), (type(None),))
TIMESTAMP: Final = Type("timestamp", (), (Timestamp,))
DURATION: Final = Type("duration", (), (Duration,))
TYPE: Final = Type("type", (), (TypeName,))

#: Parameters of functions: any type, the same wherever the letter stands.
A: Final = Type("A")
B: Final = Type("B")
_PARAMETERS: Final = (A, B)

#: Types of Python that are a type of CEL by themselves: numbers compare by it.
PRIMITIVES: Final = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION)
#: Whose values may be null although they are not declared so.
_NEVER_NULL: Final = (BOOL, INT, UINT, DOUBLE, STRING, BYTES)


def list_of(element: Type) -> Type:
    return Type("list", (element,), (list, KeyedList))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value), (dict,))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,), (OptionalValue,))


def opaque(class_: type[Opaque]) -> Type:
    """The type of a class of opaque values."""
    return Type(class_.type_name, (), (class_,))


def accepts(type_: Type, value: Any) -> bool:
    """Whether a value is of that type, as far as can be seen without looking into it."""
    if not type_.classes:
        return True
    return type(value) in type_.classes


class Bindings:
    """Which types the parameters of a function stand for, while a call is checked."""

    def __init__(self) -> None:
        self._types: dict[Type, Type] = {}

    def fit(self, wanted: Type, given: Type) -> bool:
        """Whether a value of the given type may stand where the other is wanted."""
        if wanted in _PARAMETERS:
            return self._bind(wanted, given)
        if wanted == DYN or given == DYN:
            return True
        if wanted == NULL or given == NULL:
            return wanted == given or (wanted if given == NULL else given) not in _NEVER_NULL
        if wanted.name == given.name and len(wanted.of) == len(given.of) and type(wanted) is type(given):
            if isinstance(wanted, ObjectType):
                return wanted is given
            return all(self.fit(a, b) for a, b in zip(wanted.of, given.of, strict=True))
        return False

    def _bind(self, parameter: Type, given: Type) -> bool:
        known = self._types.get(parameter)
        if known is None:
            self._types[parameter] = given
            return True
        if not self.fit(known, given):
            return False
        self._types[parameter] = more_general(known, given)
        return True

    def resolved(self, type_: Type) -> Type:
        """The type with its parameters put in."""
        if type_ in _PARAMETERS:
            return self._types.get(type_, OPEN)
        if type_.of:
            return Type(type_.name, tuple(self.resolved(part) for part in type_.of), type_.classes)
        return type_


def fits(wanted: Type, given: Type) -> bool:
    return Bindings().fit(wanted, given)


def are_alike(left: Type, right: Type) -> bool:
    """Whether both may be elements of one literal: what is known of the one is known of the other."""
    if left is OPEN or right is OPEN:
        return True
    return fits(left, right) and (left in (DYN, NULL)) == (right in (DYN, NULL))


def more_general(left: Type, right: Type) -> Type:
    """The one of two types that fit that says less; null says nothing where something else may stand."""
    if left is OPEN or right is OPEN:
        return right if left is OPEN else left
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if DYN in (left, right) or isinstance(left, ObjectType):
        return DYN if left is not right else left
    parts = tuple(more_general(a, b) for a, b in zip(left.of, right.of, strict=True))
    return Type(left.name, parts, left.classes)


def shown(types: Sequence[Type], target: Type | None = None) -> str:
    """The types of a call as an error prints them."""
    listed = f"({', '.join(map(str, types))})"
    return f"{target}.{listed}" if target is not None else listed
