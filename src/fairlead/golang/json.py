"""JSON as Go reads it, for the bodies that a fast parser refuses or reads differently.

Go is more lenient than the standard in three ways that clients get away with: broken UTF-8 becomes U+FFFD, so do lone
surrogates, and a key may come twice. What Go refuses too is refused in its words. An ordinary body never gets past the
first line of `parse`.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final

import msgspec

from fairlead.golang.json_errors import json_error


class MalformedJson(ValueError):
    """The body is no JSON; `str()` of it is Go's message."""


#: Deeper nesting is refused (Go's limit is 10000), so that whoever walks over an object may recurse.
_MOST_NESTED: Final = 200

#: Python refuses to read integers of more digits, for that takes time in the square of their number.
_LONGEST_INTEGER: Final = 4300

_encode = msgspec.json.Encoder().encode

#: What Go writes in JSON for characters that HTML and JavaScript would take for something else.
MARKUP: Final = str.maketrans({
    "<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029",
})  # fmt: skip


def finite(text: str) -> float:
    """The number; for decoders of what strangers send.

    msgspec itself takes up to 30 µs for one near the ends of what a float can be (1e308), and nobody else runs
    meanwhile: a body of them would hold a server for seconds.
    """
    value = float(text)
    if not isfinite(value):
        raise MalformedJson(f"json: cannot unmarshal number {text} into Go value of type float64")
    return value


#: What msgspec raises for bytes of others that it cannot read, whatever is to be made of them.
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
#: The value of JSON as the standard has it; raises `UNREADABLE`.
decode = msgspec.json.Decoder(float_hook=finite).decode


def parse(body: bytes) -> Any:
    """The value; of a key that comes twice, the last one."""
    try:
        value = decode(body)
    except UNREADABLE:
        value = _slow(body, dict)
    if body.count(b"{") + body.count(b"[") > _MOST_NESTED and _depth(value) > _MOST_NESTED:
        raise MalformedJson("exceeded max depth")
    return value


def printed(value: Any) -> str:
    """The text that Go writes for a value."""
    return _encode(value).decode().translate(MARKUP)


class Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in order, duplicates included."""


def parse_pairs(body: bytes) -> Any:
    """The value, with a `Pairs` for every object, so that no key is lost."""
    return _slow(body, Pairs)


def may_have_duplicates(body: bytes, value: Any) -> bool:
    """Whether a key may come twice in some object of the body that was parsed to `value`.

    A lost key's colon is missing when the value is written again, while colons inside of strings come back. Counting
    them costs a fraction of parsing without losing keys.
    """
    return body.count(b":") != _encode(value).count(b":") or b"\\u003" in body


def _depth(value: Any) -> int:
    depth, level = 0, [value] if type(value) in (dict, list) else []
    while level:
        depth += 1
        members = (item for value in level for item in (value.values() if type(value) is dict else value))
        level = [item for item in members if type(item) in (dict, list)]
    return depth


def _slow(body: bytes, hook: type) -> Any:
    if refusal := json_error(body):
        raise MalformedJson(refusal)
    try:
        text = body.decode("utf-8", "replace")
        return _mended(json.loads(text, object_pairs_hook=hook, parse_int=_integer, parse_float=finite))
    except RecursionError:
        raise MalformedJson("exceeded max depth") from None
    except ValueError as error:
        raise MalformedJson(str(error)) from None


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _LONGEST_INTEGER else finite(text)


def _mended(value: Any) -> Any:
    """The value with U+FFFD for the halves of broken surrogate pairs."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Pairs):
        return Pairs((_mended(key), _mended(item)) for key, item in value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value
