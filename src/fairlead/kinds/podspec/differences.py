"""Whether two specifications mean the same, and how they differ.

The server compares amounts, not texts: `1e3` is `1k`. What is sent and what is stored are both in normal form, so
everything else can be compared as it stands.
"""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from fairlead.api.quantity import parse

_AMOUNTS = frozenset({"limits", "requests", "overhead"})
_encode = msgspec.json.Encoder(order="sorted").encode


def is_same(one: Any, other: Any) -> bool:
    """Go's semantic equality."""
    if one == other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _is_same_amounts(value, other[key]) if key in _AMOUNTS else is_same(value, other[key])
            for key, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return False


def _is_same_amounts(one: dict[str, str], other: dict[str, str]) -> bool:
    return one.keys() == other.keys() and all(parse(amount) == parse(other[name]) for name, amount in one.items())


def difference(old: Any, new: Any) -> str:
    """A unified diff for people."""
    before, after = (msgspec.json.format(_encode(one), indent=2).decode().splitlines() for one in (old, new))
    return "\n".join(list(difflib.unified_diff(before, after, lineterm=""))[2:]) + "\n"
