"""The Go types that a setting can have: how each is read from a configuration file and from a flag.

Both ways have words of their own for what they do not take, and a person who mistypes a setting sees these.
Sources: sigs.k8s.io/json, k8s.io/component-base/cli/flag, github.com/spf13/pflag.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec

from fairlead.golang.durations import parse_seconds
from fairlead.golang.numbers import parse_literal_int, parse_strict_bool
from fairlead.golang.quoting import go_quote
from fairlead.golang.values import JSON_TYPES, printed, unmarshal_error

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class ValueType(msgspec.Struct, frozen=True):
    """`decode` takes a JSON value and where it stands; `parse` the text of a flag and what that flag gave before."""

    zero: Any
    decode: Callable[[Any, str], Any]
    parse: Callable[[str, Any], Any]
    #: What a flag without a value means; None if it needs one.
    bare_flag: str | None = None


def _mismatch(value: Any, where: str, go_type: str, *, is_shown: bool = False) -> ValueError:
    shown = f" {printed(value)}" if is_shown else ""
    kind = JSON_TYPES[type(value)]
    return ValueError(f"json: cannot unmarshal {kind}{shown} into Go struct field {where} of type {go_type}")


def _decode_plain(go_type: str, accepted: type, value: Any, where: str) -> Any:
    if type(value) is not accepted:
        raise _mismatch(value, where, go_type)
    return value


def _decode_int(go_type: str, value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(value, where, go_type)
    half = 2 ** (int(go_type.removeprefix("int")) - 1)
    if not float(value).is_integer() or not -half <= int(value) < half:
        raise _mismatch(value, where, go_type, is_shown=True)
    return int(value)


def _decode_float(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch(value, where, "float64")
    return float(value)


def _decode_duration(value: Any, _where: str) -> float:
    if not isinstance(value, str):
        raise ValueError(unmarshal_error(value, "string"))
    return parse_seconds(value)


def _decode_list(value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _mismatch(value, where, "[]string")
    for item in value:
        if not isinstance(item, str):
            raise _mismatch(item, where, "string")
    return tuple(value)


def _decode_map(go_type: str, accepted: type, value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _mismatch(value, where, f"map[string]{go_type}")
    empty = accepted()
    return {
        name: empty if item is None else _decode_plain(go_type, accepted, item, where) for name, item in value.items()
    }


def _parse_list(text: str, before: tuple[str, ...] | None) -> tuple[str, ...]:
    return (*(before or ()), *(next(csv.reader([text]), []) if text else ()))


def _parse_map(
    separator: str, text: str, before: Mapping[str, str] | None, *, is_split: bool = True
) -> Mapping[str, str]:
    entries = dict(before or {})
    for pair in filter(None, text.split(",")) if is_split else (text,):
        name, found, value = pair.partition(separator)
        if not found:
            raise ValueError(f"malformed pair, expect string{separator}string")
        entries[name.strip()] = value.strip()
    return entries


def _parse_bool_map(text: str, before: Mapping[str, bool] | None) -> Mapping[str, bool]:
    entries = dict(before or {})
    for pair in filter(None, text.split(",")):
        name, found, value = (part.strip() for part in pair.partition("="))
        if not found:
            raise ValueError("malformed pair, expect string=bool")
        try:
            entries[name] = parse_strict_bool(value)
        except ValueError as problem:
            raise ValueError(f"invalid value of {name}: {value}, err: {problem}") from None
    return entries


def _parse_nothing(text: str, _before: Any) -> Any:
    raise ValueError(f"cannot be given as a flag: {go_quote(text)}")


STRING: Final = ValueType("", partial(_decode_plain, "string", str), lambda text, _: text)
BOOL: Final = ValueType(False, partial(_decode_plain, "bool", bool), lambda text, _: parse_strict_bool(text), "true")
INT32: Final = ValueType(0, partial(_decode_int, "int32"), lambda text, _: parse_literal_int(text, 32))
INT64: Final = ValueType(0, partial(_decode_int, "int64"), lambda text, _: parse_literal_int(text, 64))
FLOAT64: Final = ValueType(0.0, _decode_float, _parse_nothing)
#: In seconds.
DURATION: Final = ValueType(0.0, _decode_duration, lambda text, _: parse_seconds(text))
STRINGS: Final = ValueType(None, _decode_list, _parse_list)
STRING_MAP: Final = ValueType(None, partial(_decode_map, "string", str), partial(_parse_map, "="))
#: One pair each time that the flag is given: the values may have commas.
OPTIONS: Final = ValueType(None, partial(_decode_map, "string", str), partial(_parse_map, "=", is_split=False))
THRESHOLDS: Final = ValueType(None, partial(_decode_map, "string", str), partial(_parse_map, "<"))
BOOL_MAP: Final = ValueType(None, partial(_decode_map, "bool", bool), _parse_bool_map)
#: What is checked to be an object or a list, and kept as it is: nothing here reads it.
OBJECT: Final = ValueType(None, partial(_decode_plain, "object", dict), _parse_nothing)
OBJECTS: Final = ValueType(None, partial(_decode_plain, "array", list), _parse_nothing)
