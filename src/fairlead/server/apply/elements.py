"""Path elements: how one step into an object is spelled in `fieldsV1` and in messages, and ordered.

    f:image                                    a field of a struct, or a key of a map
    k:{"containerPort":80,"protocol":"TCP"}    an element of a list of type map
    v:"example.com/a"                          an element of a list of type set
    i:0                                        an element of any other list

Elements stay in this spelling wherever they are worked with, because two of them are the same step exactly if their
spelling is the same. Source: structured-merge-diff `fieldpath/serialize-pe.go`, `fieldpath/element.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from fairlead.caches import bounded_cache
from fairlead.golang.json import MARKUP
from fairlead.golang.numbers import atoi
from fairlead.golang.quoting import go_quote


class MalformedFields(ValueError):
    """The `fieldsV1` of a client is malformed."""


def field(name: str) -> str:
    return f"f:{name}"


def key(pairs: Iterable[tuple[str, Any]]) -> str:
    """The element of a list of type map. `pairs` are its key fields with their values, sorted."""
    return f"k:{{{','.join(f'{text(name)}:{text(value)}' for name, value in pairs)}}}"


def value(item: Any) -> str:
    """The element of a set."""
    return f"v:{text(item)}"


def text(item: Any) -> str:
    """A value as Go's JSON encoder writes it."""
    return _quoted(item) if type(item) is str else _number(item)


@bounded_cache(maxsize=4096)
def _quoted(item: str) -> str:
    return html_safe(msgspec.json.encode(item).decode())


def html_safe(json: str) -> str:
    """JSON with the escapes that Go adds."""
    return json.translate(MARKUP)


def _number(item: Any) -> str:
    if type(item) is float and item.is_integer() and abs(item) < 1e21:
        item = int(item)
    return msgspec.json.encode(item).decode()


def canonical(element: str) -> str | None:
    """An element as a client spelled it, in canonical spelling; None if its kind is unknown."""
    if len(element) < 2:
        raise MalformedFields("key must be 2 characters long:")
    if element[1] != ":":
        raise MalformedFields(f"missing colon: {element}")
    kind, rest = element[0], element[2:]
    if kind == "f":
        return element
    if kind not in "kvi":
        return None
    try:
        found = atoi(rest) if kind == "i" else msgspec.json.decode(rest)
    except ValueError as error:
        raise MalformedFields(str(error)) from None
    if kind == "i":
        return f"i:{found}"
    if kind == "v":
        return value(found)
    if not isinstance(found, dict):
        raise MalformedFields(f"expected an object: {element}")
    return key(sorted(found.items()))


def path_text(element: str) -> str:
    """`.image`, `[name="x"]`, `[="example.com/a"]`, `[0]`: as paths in error texts have it."""
    kind, rest = element[0], element[2:]
    if kind == "f":
        return f".{rest}"
    if kind == "i":
        return f"[{rest}]"
    found = msgspec.json.decode(rest)
    if kind == "v":
        return f"[={_plain(found)}]"
    return f"[{','.join(f'{name}={_plain(value)}' for name, value in found.items())}]"


def _plain(item: Any) -> str:
    return go_quote(item) if isinstance(item, str) else msgspec.json.encode(item).decode()


def order(element: str) -> tuple[Any, ...]:
    """Sorts elements as upstream does: fields, keys, values, indices."""
    kind, rest = element[0], element[2:]
    if kind == "f":
        return (0, rest)
    if kind == "i":
        return (3, int(rest))
    found = msgspec.json.decode(rest)
    if kind == "v":
        return (2, _rank(found))
    return (1, [(name, _rank(value)) for name, value in found.items()])


def _rank(item: Any) -> tuple[int, Any]:
    """Numbers before strings before booleans; nothing else can be a key."""
    if isinstance(item, bool):
        return (2, item)
    if isinstance(item, str):
        return (1, item)
    return (0, item) if isinstance(item, int | float) else (3, text(item))
