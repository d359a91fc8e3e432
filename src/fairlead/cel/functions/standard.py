"""CEL's standard library: operators, conversions, sizes (cel-spec, doc/langdef.md#list-of-standard-definitions)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from fairlead.cel.errors import CelError
from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload, functions, methods
from fairlead.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    PRIMITIVES,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    A,
    B,
    list_of,
    map_of,
)
from fairlead.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    KeyedList,
    TypeName,
    Uint,
    checked_int,
    checked_uint,
    contains,
    equal,
    map_key,
    type_name,
)
from fairlead.golang.numbers import parse_bool

_LIST: Final = list_of(A)
_MAP: Final = map_of(A, B)


def overloads() -> Iterator[Overload]:
    yield from _equality()
    yield from _order()
    yield from _arithmetic()
    yield from _conversions()
    yield from functions(
        ("size", [STRING], INT, len),
        ("size", [BYTES], INT, len),
        ("size", [_LIST], INT, len),
        ("size", [_MAP], INT, len),
        ("_[_]", [_LIST, INT], A, item),
        ("_[_]", [_MAP, A], B, value_of),
        ("@in", [A, _MAP], BOOL, lambda key, values: map_key(key) in values),
        ("!_", [BOOL], BOOL, operator.not_),
        ("type", [DYN], TYPE, _type),
        ("dyn", [DYN], DYN, lambda value: value),
    )
    yield Overload("@in", (A, _LIST), BOOL, lambda wanted, values: contains(values, wanted), cost=_in_cost)
    for type_ in (STRING, BYTES, _LIST, _MAP):
        yield Overload("size", (type_,), INT, len, is_method=True)
    yield from methods(
        STRING,
        ("startsWith", [STRING], BOOL, str.startswith),
        ("endsWith", [STRING], BOOL, str.endswith),
        cost=lambda _, part: costs.traversal(part),
    )
    yield Overload("contains", (STRING, STRING), BOOL, operator.contains, True, costs.traversal)


def _in_cost(_: Any, values: list[Any]) -> int:
    return len(values)


# -- comparisons


def _equality() -> Iterator[Overload]:
    yield Overload("_==_", (A, A), BOOL, equal, cost=_smaller)
    yield Overload("_!=_", (A, A), BOOL, lambda left, right: not equal(left, right), cost=_smaller)


def _smaller(left: Any, right: Any) -> int:
    return min(costs.traversal(left), costs.traversal(right))


def _order() -> Iterator[Overload]:
    comparisons: dict[str, Callable[[Any, Any], bool]] = {
        "_<_": operator.lt,
        "_<=_": operator.le,
        "_>_": operator.gt,
        "_>=_": operator.ge,
    }
    numbers = (INT, UINT, DOUBLE)
    for name, compare in comparisons.items():
        for type_ in PRIMITIVES:
            cost = _smaller if type_ in (STRING, BYTES) else None
            yield Overload(name, (type_, type_), BOOL, compare, cost=cost)
        yield from functions(*((name, [a, b], BOOL, compare) for a in numbers for b in numbers if a != b))


# -- arithmetic


def _arithmetic() -> Iterator[Overload]:
    yield from functions(
        ("_+_", [INT, INT], INT, lambda a, b: checked_int(a + b)),
        ("_-_", [INT, INT], INT, lambda a, b: checked_int(a - b)),
        ("_*_", [INT, INT], INT, lambda a, b: checked_int(a * b)),
        ("_/_", [INT, INT], INT, _divided),
        ("_%_", [INT, INT], INT, _remainder),
        ("-_", [INT], INT, lambda a: checked_int(-a)),
        ("_+_", [UINT, UINT], UINT, lambda a, b: checked_uint(a + b)),
        ("_-_", [UINT, UINT], UINT, lambda a, b: checked_uint(a - b)),
        ("_*_", [UINT, UINT], UINT, lambda a, b: checked_uint(a * b)),
        ("_/_", [UINT, UINT], UINT, lambda a, b: Uint(int(a) // _not_zero(b, "division by zero"))),
        ("_%_", [UINT, UINT], UINT, lambda a, b: Uint(int(a) % _not_zero(b, "modulus by zero"))),
        ("_+_", [DOUBLE, DOUBLE], DOUBLE, operator.add),
        ("_-_", [DOUBLE, DOUBLE], DOUBLE, operator.sub),
        ("_*_", [DOUBLE, DOUBLE], DOUBLE, operator.mul),
        ("_/_", [DOUBLE, DOUBLE], DOUBLE, _quotient),
        ("-_", [DOUBLE], DOUBLE, operator.neg),
        ("_+_", [_LIST, _LIST], _LIST, _listed),
        cost=None,
    )
    yield from functions(
        ("_+_", [STRING, STRING], STRING, operator.add),
        ("_+_", [BYTES, BYTES], BYTES, operator.add),
        cost=costs.traversal,
    )


def _listed(left: list[Any], right: list[Any]) -> list[Any]:
    return left.merged(right) if isinstance(left, KeyedList) else left + right


def _not_zero(value: int, otherwise: str) -> int:
    if value == 0:
        raise CelError(otherwise)
    return int(value)


def _divided(a: int, b: int) -> int:
    """Towards zero, as Go divides."""
    quotient = abs(a) // abs(_not_zero(b, "division by zero"))
    return checked_int(quotient if (a < 0) == (b < 0) else -quotient)


def _remainder(a: int, b: int) -> int:
    """With the sign of the dividend."""
    found = abs(a) % abs(_not_zero(b, "modulus by zero"))
    return -found if a < 0 else found


def _quotient(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


# -- indexing


def item(values: list[Any], index: int) -> Any:
    """The element of a list."""
    if 0 <= index < len(values):
        return values[index]
    raise CelError(f"index out of bounds: {index}")


def value_of(values: dict[Any, Any], key: Any) -> Any:
    """The value of a map."""
    try:
        return values[map_key(key)]
    except KeyError:
        raise CelError(f"no such key: {_printed(key)}") from None


def _printed(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _type(value: Any) -> TypeName:
    return TypeName(type_name(value))


# -- conversions


def _conversions() -> Iterable[Overload]:
    yield from functions(
        *((name, [type_], type_, _same) for name, type_ in _BY_NAME.items()),
        ("int", [UINT], INT, _int_of_uint),
        ("int", [DOUBLE], INT, _int_of_double),
        ("int", [TIMESTAMP], INT, lambda moment: moment.nanos // 1_000_000_000),
        ("uint", [INT], UINT, checked_uint),
        ("uint", [DOUBLE], UINT, _uint_of_double),
        ("double", [INT], DOUBLE, float),
        ("double", [UINT], DOUBLE, float),
        ("string", [INT], STRING, str),
        ("string", [UINT], STRING, str),
        ("string", [BOOL], STRING, lambda value: "true" if value else "false"),
        ("string", [DOUBLE], STRING, go_double),
        ("bool", [STRING], BOOL, _bool),
    )
    yield from functions(
        ("int", [STRING], INT, _int_of_string),
        ("uint", [STRING], UINT, _uint_of_string),
        ("double", [STRING], DOUBLE, _double_of_string),
        ("string", [BYTES], STRING, _decoded),
        ("bytes", [STRING], BYTES, str.encode),
        cost=costs.target,
    )


_BY_NAME: Final = {"int": INT, "uint": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES, "bool": BOOL}


def _same(value: Any) -> Any:
    return value


def _int_of_uint(value: int) -> int:
    return checked_int(int(value))


def _int_of_double(value: float) -> int:
    if not INT_MIN < value < INT_MAX:  # also of NaN
        raise CelError("integer overflow")
    return int(value)


def _uint_of_double(value: float) -> Uint:
    if not 0 <= value < UINT_MAX:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _int_of_string(text: str) -> int:
    if len(text) <= 20 and text.lstrip("+-").isascii() and text[text[:1] in ("+", "-") :].isdigit():
        value = int(text)
        if INT_MIN <= value <= INT_MAX:
            return value
        raise CelError(f'strconv.ParseInt: parsing "{text}": value out of range')
    raise CelError(f'strconv.ParseInt: parsing "{text[:100]}": invalid syntax')


def _uint_of_string(text: str) -> Uint:
    if len(text) <= 20 and text.isascii() and text.isdigit() and int(text) <= UINT_MAX:
        return Uint(text)
    raise CelError(f'strconv.ParseUint: parsing "{text[:100]}": invalid syntax')


def _double_of_string(text: str) -> float:
    try:
        if "_" in text or text != text.strip():
            raise ValueError(text)
        return float(text)
    except ValueError:
        raise CelError(f'strconv.ParseFloat: parsing "{text[:100]}": invalid syntax') from None


def _bool(text: str) -> bool:
    try:
        return parse_bool(text)
    except ValueError as error:
        raise CelError(str(error)) from None


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def go_double(value: float) -> str:
    """A double as Go's `strconv.FormatFloat(v, 'g', -1, 64)` prints it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent and value.is_integer() and abs(value) < 1e21:
        return f"{value:.0f}"
    if not exponent:
        return digits
    size = int(exponent)
    return f"{digits}e{'-' if size < 0 else '+'}{abs(size):02}"
