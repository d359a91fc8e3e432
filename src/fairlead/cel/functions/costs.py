"""What calls cost beyond one unit, by the sizes of what they work through (cel-go's and Kubernetes' cost models).

And what macros cost, which cel-go has as loops over calls.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fairlead.cel.values import size_of

#: What a list, a map and an object cost that an expression makes, whatever is in it.
NEW_LIST: Final = 10
NEW_MAP: Final = 30
NEW_OBJECT: Final = 40


def _tenth(size: int) -> int:
    return -(-size // 10)


def traversal(*arguments: Any) -> int:
    """Every argument is read once; ten characters are one unit."""
    return sum(_tenth(len(value)) if isinstance(value, str | bytes) else size_of(value) for value in arguments)


def target(value: Any, *_: Any) -> int:
    """The first argument alone is read."""
    return traversal(value)


def matching(text: str, pattern: str, *_: Any) -> int:
    """A regular expression over a text: every part of the one at ten characters of the other."""
    return _tenth(len(text) + 1) * -(-len(pattern) // 4)


def product(left: Any, right: Any) -> int:
    """Each element of the one is looked for in the other."""
    return size_of(left) * size_of(right)


def copying(values: Any) -> int:
    """A list is made of another one."""
    return NEW_LIST + size_of(values)


def comparing_all(values: Any) -> int:
    """Each element is compared with each, and a list is made of them."""
    factor = 2.1 if values and isinstance(values[0], str | bytes) else 2.0
    return NEW_LIST + int(len(values) ** 2 * factor)


class MacroCost(NamedTuple):
    """What a macro costs beside what its bodies cost. It is a loop that asks whether to go on, and adds to a result."""

    #: To begin, as it is estimated: an empty list or map, which is made once.
    start: int
    #: For each element.
    each: int
    #: For each element that fulfils its condition, or if it has none.
    chosen: int = 0
    #: To end before the last element.
    early: int = 0
    #: To give its result.
    end: int = 1


_LIST_MADE: Final = MacroCost(NEW_LIST, 1, NEW_LIST + 1)
_MACROS: Final = {
    "all": MacroCost(0, 3, early=2),
    "exists": MacroCost(0, 4, early=3),
    "exists_one": MacroCost(0, 1, 1, end=2),
    "existsOne": MacroCost(0, 1, 1, end=2),
    "filter": MacroCost(NEW_LIST, 1, NEW_LIST + 2),
    "map": _LIST_MADE,
    "transformList": _LIST_MADE,
    "transformMap": MacroCost(NEW_MAP, 1, 2),
    "transformMapEntry": MacroCost(NEW_MAP, 1, 1),
}


def macro(name: str) -> MacroCost:
    return _MACROS[name]
