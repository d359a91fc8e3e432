"""Lists: Kubernetes' `isSorted`, `sum`, `min`, `max`, `indexOf`, and the sets extension of cel-go."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

from fairlead.cel.errors import CelError
from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload, functions, methods
from fairlead.cel.types import (
    BOOL,
    DOUBLE,
    DURATION,
    INT,
    PRIMITIVES,
    UINT,
    A,
    Type,
    accepts,
    list_of,
)
from fairlead.cel.values import Duration, Uint, checked_int, checked_uint, contains, equal

_ZEROS: Final[dict[Type, Any]] = {INT: 0, UINT: Uint(0), DOUBLE: 0.0, DURATION: Duration(0)}
_LIST: Final = list_of(A)


def overloads() -> Iterator[Overload]:
    for type_ in PRIMITIVES:
        yield from methods(
            list_of(type_),
            ("isSorted", [], BOOL, _is_sorted),
            ("min", [], type_, _least),
            ("max", [], type_, _most),
            cost=costs.target,
        )
    for type_ in _ZEROS:
        yield Overload("sum", (list_of(type_),), type_, functools.partial(_sum, type_), True, costs.target)
    yield from methods(
        _LIST,
        ("indexOf", [A], INT, _index_of),
        ("lastIndexOf", [A], INT, _last_index_of),
        cost=lambda values, _: len(values),
    )
    yield from functions(
        ("sets.contains", [_LIST, _LIST], BOOL, _has_all),
        ("sets.equivalent", [_LIST, _LIST], BOOL, lambda a, b: _has_all(a, b) and _has_all(b, a)),
        ("sets.intersects", [_LIST, _LIST], BOOL, lambda a, b: any(contains(a, value) for value in b)),
        cost=costs.product,
    )


def _is_sorted(values: list[Any]) -> bool:
    return all(not _less(after, before) for before, after in pairwise(values))


def _less(left: Any, right: Any) -> bool:
    try:
        return bool(left < right)
    except TypeError:
        raise CelError("no such overload") from None


def _chosen(values: list[Any], name: str, is_better: Callable[[Any, Any], bool]) -> Any:
    if not values:
        raise CelError(f"{name} called on empty list")
    found = values[0]
    for value in values[1:]:
        if is_better(value, found):
            found = value
    return found


def _least(values: list[Any]) -> Any:
    return _chosen(values, "min", _less)


def _most(values: list[Any]) -> Any:
    return _chosen(values, "max", lambda value, found: _less(found, value))


def _sum(type_: Type, values: list[Any]) -> Any:
    if type_ == DURATION:
        return Duration(checked_int(sum(value.nanos for value in values)))
    if not all(accepts(type_, value) for value in values) and type_ != DOUBLE:
        raise CelError("no such overload")
    found = sum(values)
    if type_ == UINT:
        return checked_uint(found)
    return float(found) if type_ == DOUBLE else checked_int(found)


def _index_of(values: list[Any], wanted: Any) -> int:
    return next((index for index, value in enumerate(values) if equal(value, wanted)), -1)


def _last_index_of(values: list[Any], wanted: Any) -> int:
    return next((index for index in reversed(range(len(values))) if equal(values[index], wanted)), -1)


def _has_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(contains(values, value) for value in wanted)
