"""Optional values: `optional.of(x)`, `x.orValue(y)` and so on (cel-go's optional types in their second version)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fairlead.cel.errors import CelError
from fairlead.cel.functions.overloads import Overload, functions, methods
from fairlead.cel.types import BOOL, A, list_of, optional_of
from fairlead.cel.values import NONE, Duration, OptionalValue, some, type_name


def overloads() -> Iterator[Overload]:
    optional = optional_of(A)
    yield from functions(
        ("optional.of", [A], optional, some),
        ("optional.none", [], optional, lambda: NONE),
        ("optional.ofNonZeroValue", [A], optional, lambda value: NONE if _is_zero(value) else some(value)),
        ("optional.unwrap", [list_of(optional)], list_of(A), _unwrapped),
    )
    yield from methods(list_of(optional), ("unwrapOpt", [], list_of(A), _unwrapped))
    yield from methods(
        list_of(A),
        ("first", [], optional, lambda values: some(values[0]) if values else NONE),
        ("last", [], optional, lambda values: some(values[-1]) if values else NONE),
    )
    yield from methods(
        optional,
        ("hasValue", [], BOOL, lambda value: value.is_present),
        ("value", [], A, _value),
    )
    yield Overload("or", (optional, optional), optional, _or, True, is_lazy=True)
    yield Overload("orValue", (optional, A), A, _or_value, True, is_lazy=True)


def _value(value: OptionalValue) -> Any:
    if not value.is_present:
        raise CelError("optional.none() dereference")
    return value.value


def _or(value: Any, other: Callable[[], Any]) -> Any:
    if _checked(value).is_present:
        return value
    return _checked(other())


def _or_value(value: Any, other: Callable[[], Any]) -> Any:
    return value.value if _checked(value).is_present else other()


def _checked(value: Any) -> OptionalValue:
    if isinstance(value, OptionalValue):
        return value
    raise CelError("no such overload")


def _is_zero(value: Any) -> bool:
    return value is None or value is False or value in (0, "", b"", [], {}, Duration(0), NONE)


def _unwrapped(values: list[Any]) -> list[Any]:
    for value in values:
        if not isinstance(value, OptionalValue):
            raise CelError(f"value of type {type_name(value)} is not optional")
    return [value.value for value in values if value.is_present]
