"""Regular expressions, as in Go: `matches`, and Kubernetes' `find` and `findAll`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from fairlead.caches import LruCache
from fairlead.cel.errors import CelError
from fairlead.cel.functions import costs
from fairlead.cel.functions.overloads import Overload, methods
from fairlead.cel.types import BOOL, INT, STRING, list_of
from fairlead.golang.patterns import BadPattern, Pattern

_MOST_REMEMBERED: Final = 256
_LONGEST: Final = 4096
#: How many instructions of a new pattern cost one unit to compile. Go's model has no such cost; without it, an
#: expression that makes a pattern for each element of a list would take minutes.
_INSTRUCTIONS_A_UNIT: Final = 4
#: What a pattern costs that cannot be compiled, which for one that is too large shows late.
_BAD_PATTERN: Final = 20_000
_compiled: LruCache[str, Pattern | CelError] = LruCache(_MOST_REMEMBERED)


def compiled(pattern: str) -> Pattern:
    """The compiled pattern; CelError says what is wrong with it."""
    found = _compiled.get(pattern) or _compile(pattern)
    if isinstance(found, CelError):
        raise CelError(str(found))
    return found


def _compile(pattern: str) -> Pattern | CelError:
    found: Pattern | CelError
    try:
        if len(pattern) > _LONGEST:
            raise CelError(f"error parsing regexp: longer than {_LONGEST} characters")
        found = Pattern(pattern)
    except (BadPattern, CelError) as error:
        found = CelError(str(error))
    if len(pattern) <= _LONGEST:
        _compiled.put(pattern, found)
    return found


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern matches anywhere in the text."""
    return compiled(pattern).matches(text)


def overloads() -> Iterator[Overload]:
    for is_method in (True, False):
        yield Overload("matches", (STRING, STRING), BOOL, matches, is_method, _cost, prepare=_prepared)
    yield from methods(
        STRING,
        ("find", [STRING], STRING, lambda text, pattern: next(compiled(pattern).each_in(text), "")),
        ("findAll", [STRING], list_of(STRING), lambda text, pattern: list(compiled(pattern).each_in(text))),
        ("findAll", [STRING, INT], list_of(STRING), _find_some),
        cost=_cost,
    )


def _cost(text: str, pattern: str, *_: int) -> int:
    cost = costs.matching(text, pattern)
    if pattern not in _compiled:
        found = _compile(pattern)
        cost += _BAD_PATTERN if isinstance(found, CelError) else found.instructions // _INSTRUCTIONS_A_UNIT
    return cost


def _prepared(pattern: str) -> tuple[Callable[[str], bool], Callable[[str], int]]:
    found = compiled(pattern)
    return found.matches, lambda text: costs.matching(text, pattern)


def _find_some(text: str, pattern: str, limit: int) -> list[str]:
    found = compiled(pattern).each_in(text)
    return list(found) if limit < 0 else list(islice(found, limit))
