"""Optional values: `optional.of(x)`, `x.orValue(y)` and so on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.cel.errors import CelError
from fairlead.cel.functions.overloads import Overload, functions, methods
from fairlead.cel.types import BOOL, DYN, A, optional_of
from fairlead.cel.values import NONE, OptionalValue, some


def overloads() -> Iterator[Overload]:
    optional = optional_of(A)
    yield from functions(
        ("optional.of", [A], optional, some),
        ("optional.none", [], optional_of(DYN), lambda: NONE),
        ("optional.ofNonZeroValue", [A], optional, lambda value: NONE if _is_zero(value) else some(value)),
    )
    yield from methods(
        optional,
        ("hasValue", [], BOOL, lambda value: value.is_present),
        ("value", [], A, _value),
        ("or", [optional], optional, lambda value, other: value if value.is_present else other),
        ("orValue", [A], A, lambda value, other: value.value if value.is_present else other),
    )


def _value(value: OptionalValue) -> Any:
    if not value.is_present:
        raise CelError("optional.none() dereference")
    return value.value


def _is_zero(value: Any) -> bool:
    return value is None or value is False or value in (0, "", b"", [], {})
