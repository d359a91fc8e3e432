"""The strings extension of cel-go, in its second version."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from fairlead.cel.errors import CelError
from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload, functions, methods
from fairlead.cel.functions.standard import go_double
from fairlead.cel.functions.times import duration_text, timestamp_text
from fairlead.cel.types import DYN, INT, STRING, list_of
from fairlead.cel.values import Duration, Timestamp, TypeName, from_map_key, is_number

_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
#: What Go takes for a space.
_SPACES: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip
#: The longest text that formatting or replacing may make, as many times as it is.
_LONGEST: Final = 10_000_000


def overloads() -> Iterator[Overload]:
    texts = list_of(STRING)
    yield from methods(
        STRING,
        ("charAt", [INT], STRING, _char_at),
        ("lowerAscii", [], STRING, lambda text: text.translate(_LOWER)),
        ("upperAscii", [], STRING, lambda text: text.translate(_UPPER)),
        ("substring", [INT], STRING, lambda text, start: _substring(text, start, len(text))),
        ("substring", [INT, INT], STRING, lambda text, start, end: _substring(text, start, end)),
        ("trim", [], STRING, lambda text: text.strip(_SPACES)),
        ("replace", [STRING, STRING], STRING, lambda text, old, new: _replaced(text, old, new, -1)),
        ("replace", [STRING, STRING, INT], STRING, lambda text, old, new, limit: _replaced(text, old, new, limit)),
        ("split", [STRING], texts, lambda text, by: _split(text, by, -1)),
        ("split", [STRING, INT], texts, lambda text, by, limit: _split(text, by, limit)),
        ("format", [list_of(DYN)], STRING, _formatted),
        cost=lambda text, *_: costs.traversal(text),
    )
    yield from methods(
        STRING,
        ("indexOf", [STRING], INT, lambda text, part: text.find(part)),
        ("indexOf", [STRING, INT], INT, _index_of),
        ("lastIndexOf", [STRING], INT, lambda text, part: text.rfind(part)),
        ("lastIndexOf", [STRING, INT], INT, _last_index_of),
        cost=lambda text, part, *_: costs.traversal(text) * max(1, len(part) // 10),
    )
    yield from methods(
        texts,
        ("join", [], STRING, lambda values: _joined(values, "")),
        ("join", [STRING], STRING, lambda values, between: _joined(values, between)),
        cost=lambda values, *_: sum(costs.traversal(value) for value in values) + len(values),
    )
    yield from functions(("strings.quote", [STRING], STRING, _quoted), cost=costs.target)


def _char_at(text: str, index: int) -> str:
    if 0 <= index <= len(text):
        return text[index : index + 1]
    raise CelError(f"index out of range: {index}")


def _substring(text: str, start: int, end: int) -> str:
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise CelError(f"index out of range: {index}")
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _index_of(text: str, part: str, start: int) -> int:
    if start < 0:
        raise CelError(f"index out of range: {start}")
    return text.find(part, start) if part else start


def _last_index_of(text: str, part: str, last: int) -> int:
    if last < 0:
        raise CelError(f"index out of range: {last}")
    return text.rfind(part, 0, last + len(part)) if part else min(last, len(text))


def _replaced(text: str, old: str, new: str, limit: int) -> str:
    most = len(text) + 1 if not old else len(text) // len(old)
    most = most if limit < 0 else min(most, limit)
    if len(text) + most * len(new) > _LONGEST:
        raise CelError("the result of replace() would be too long")
    return text.replace(old, new, limit)


def _split(text: str, by: str, limit: int) -> list[str]:
    if limit == 0:
        return []
    if not by:
        characters = list(text)
        if limit < 0 or limit >= len(characters):
            return characters
        return [*characters[: limit - 1], "".join(characters[limit - 1 :])]
    return text.split(by, -1 if limit < 0 else limit - 1)


def _joined(values: list[Any], between: str) -> str:
    for value in values:
        if not isinstance(value, str):
            raise CelError("no such overload")
    if sum(map(len, values)) + len(between) * len(values) > _LONGEST:
        raise CelError("the result of join() would be too long")
    return between.join(values)


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


# -- format()


def _formatted(pattern: str, arguments: list[Any]) -> str:
    """`"%s has %d".format([name, count])` (ext/formatting_v2.go)."""
    made: list[str] = []
    used, position = 0, 0
    while position < len(pattern):
        found = pattern.find("%", position)
        if found < 0:
            break
        made.append(pattern[position:found])
        position = found + 1
        if pattern[position : position + 1] == "%":
            made.append("%")
            position += 1
            continue
        precision, position = _precision(pattern, position)
        verb = pattern[position : position + 1]
        position += 1
        if not verb:
            raise CelError("unexpected end of string")
        if used >= len(arguments):
            raise CelError(f"index {used} out of range")
        made.append(_verb(verb, arguments[used], precision))
        used += 1
    made.append(pattern[position:])
    text = "".join(made)
    if len(text) > _LONGEST:
        raise CelError("the result of format() would be too long")
    return text


def _precision(pattern: str, position: int) -> tuple[int, int]:
    """The digits after the point, 6 unless said, and where the verb stands."""
    if pattern[position : position + 1] != ".":
        return 6, position
    end = position + 1
    while end < len(pattern) and pattern[end].isdigit() and end - position < 5:
        end += 1
    digits = pattern[position + 1 : end]
    if not digits or int(digits) > 308:
        raise CelError("error while building precision")
    return int(digits), end


def _verb(verb: str, value: Any, precision: int) -> str:
    if verb == "s":
        return text_of(value)
    if verb == "d" and is_number(value):
        return go_double(value) if isinstance(value, float) else str(int(value))
    if verb in "fe" and is_number(value):
        return _decimal(float(value), verb, precision)
    if verb == "b" and isinstance(value, int):
        return f"{int(value):b}"
    if verb == "o" and is_number(value) and isinstance(value, int):
        return f"{int(value):o}"
    if verb in "xX":
        return _hexadecimal(value, verb)
    if verb not in "sdfebox":
        raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    raise CelError(f"error during formatting: {verb} clause does not take such a value")


def _decimal(value: float, verb: str, precision: int) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"{value:.{precision}{verb}}"


def _hexadecimal(value: Any, verb: str) -> str:
    if isinstance(value, str | bytes):
        text = (value.encode() if isinstance(value, str) else value).hex()
        return text.upper() if verb == "X" else text
    if is_number(value) and isinstance(value, int):
        return f"{int(value):{verb}}"
    raise CelError("error during formatting: only integers, byte buffers, and strings can be formatted as hex")


def text_of(value: Any) -> str:
    """A value as `%s` shows it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return go_double(value)
        case bytes():
            return value.decode("utf-8", "replace")
        case Timestamp():
            return timestamp_text(value)
        case Duration():
            return duration_text(value)
        case TypeName():
            return value.name
        case list():
            return f"[{', '.join(map(text_of, value))}]"
        case dict():
            entries = sorted((text_of(from_map_key(key)), text_of(held)) for key, held in value.items())
            return f"{{{', '.join(f'{key}: {held}' for key, held in entries)}}}"
    return str(value)
