"""Lists: Kubernetes' `isSorted`, `sum`, `min`, `max`, `indexOf`, and the sets and lists extensions of cel-go."""

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
    DYN,
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
#: What the macro `sortBy` calls with a list and the keys of its elements.
SORT_BY_KEYS: Final = "@sortByAssociatedKeys"


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
    yield from _extension()


def _extension() -> Iterator[Overload]:
    """cel-go's lists extension in its third version."""
    yield from methods(
        _LIST,
        ("slice", [INT, INT], _LIST, _slice),
        cost=lambda _, start, end: costs.NEW_LIST + max(0, end - start),
    )
    yield from methods(_LIST, ("reverse", [], _LIST, lambda values: values[::-1]), cost=costs.copying)
    yield from methods(_LIST, ("distinct", [], _LIST, _distinct), cost=costs.comparing_all)
    yield from methods(list_of(_LIST), ("flatten", [], _LIST, lambda values: _flat(values, 1)), cost=costs.copying)
    yield Overload(
        "flatten",
        (list_of(DYN), INT),
        list_of(DYN),
        _flat,
        True,
        lambda values, depth: costs.NEW_LIST + len(values) * max(0, depth),
    )
    yield from functions(
        ("lists.range", [INT], list_of(INT), lambda end: list(range(end))),
        cost=lambda end: costs.NEW_LIST + max(0, end),
    )
    for type_ in PRIMITIVES:
        list_type = list_of(type_)
        yield from methods(list_type, ("sort", [], list_type, sorted_), cost=costs.comparing_all)
        yield Overload(
            SORT_BY_KEYS, (_LIST, list_type), _LIST, sorted_, True, lambda _, keys: costs.comparing_all(keys)
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


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(values):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flat(values: list[Any], depth: int) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    if depth == 0:
        return values
    found: list[Any] = []
    for value in values:
        found += _flat(value, depth - 1) if isinstance(value, list) else [value]
    return found


def _distinct(values: list[Any]) -> list[Any]:
    if all(type(value) is str for value in values):
        return list(dict.fromkeys(values))
    found: list[Any] = []
    for value in values:
        if not contains(found, value):
            found.append(value)
    return found


def sorted_(values: list[Any], keys: list[Any] | None = None) -> list[Any]:
    """The values in the order of their keys, which are of one type; by themselves if there are none."""
    keys = values if keys is None else keys
    if not keys:
        return values
    if not any(accepts(type_, keys[0]) for type_ in PRIMITIVES):
        raise CelError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise CelError("list elements must have the same type")
    return [values[index] for index in sorted(range(len(keys)), key=keys.__getitem__)]
