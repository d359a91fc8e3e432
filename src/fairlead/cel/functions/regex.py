"""Regular expressions, on RE2 as in Go: `matches`, and Kubernetes' `find` and `findAll`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import re2

from fairlead.caches import LruCache
from fairlead.cel.errors import CelError
from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload, methods
from fairlead.cel.types import INT, STRING, list_of

_MOST_REMEMBERED: Final = 256
_LONGEST: Final = 4096
_compiled: LruCache[str, Any] = LruCache(_MOST_REMEMBERED)


def compiled(pattern: str) -> Any:
    """The compiled pattern; CelError says what is wrong with it."""
    found = _compiled.get(pattern)
    if found is None:
        if len(pattern) > _LONGEST:
            raise CelError(f"error parsing regexp: longer than {_LONGEST} characters")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = 1 << 20
        try:
            found = re2.compile(pattern, options)
        except re2.error as error:
            text = error.args[0] if error.args else ""
            told = text.decode() if isinstance(text, bytes) else str(text)
            raise CelError(f"error parsing regexp: {told}") from None
        _compiled.put(pattern, found)
    return found


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern matches anywhere in the text."""
    return compiled(pattern).search(text) is not None


def overloads() -> Iterator[Overload]:
    yield from methods(
        STRING,
        ("find", [STRING], STRING, _find),
        ("findAll", [STRING], list_of(STRING), lambda text, pattern: _find_all(text, pattern, -1)),
        ("findAll", [STRING, INT], list_of(STRING), lambda text, pattern, limit: _find_all(text, pattern, limit)),
        cost=costs.matching,
    )


def _find(text: str, pattern: str) -> str:
    found = compiled(pattern).search(text)
    return str(found[0]) if found else ""


def _find_all(text: str, pattern: str, limit: int) -> list[str]:
    found: list[str] = []
    for match in compiled(pattern).finditer(text):
        if len(found) == limit:
            break
        found.append(match[0])
    return found
