"""What calls cost beyond one unit, by the sizes of what they work through (cel-go's and Kubernetes' cost models)."""

from __future__ import annotations

from typing import Any, Final

from fairlead.cel.values import size_of

#: What a list costs that a function makes, whatever is in it.
NEW_LIST: Final = 10


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
