"""What calls cost beyond one unit, by the sizes of what they work through (cel-go's and Kubernetes' cost models).

And what macros cost, which cel-go has as loops over calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

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


def macro(name: str, bodies: Sequence[int]) -> tuple[int, int, int]:
    """What a macro costs to begin, for each element, and to end; of what its bodies cost."""
    body, condition = bodies[-1], bodies[0] if len(bodies) == 2 else None
    match name:
        case "all":
            return 0, 3 + body, 1
        case "exists":
            return 0, 4 + body, 1
        case "exists_one" | "existsOne":
            return 0, 2 + body, 2
        case "filter":
            return NEW_LIST, 13 + body, 1
        case "map" | "transformList":
            start, step = NEW_LIST, 12 + body
        case "transformMap":
            start, step = NEW_MAP, 3 + body
        case _:
            start, step = NEW_MAP, 2 + body
    return start, step if condition is None else condition + step, 1
