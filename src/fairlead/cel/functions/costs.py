"""What calls cost beyond one unit, by the sizes of what they work through (cel-go's and Kubernetes' cost models)."""

from __future__ import annotations

from typing import Any

from fairlead.cel.values import size_of


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
