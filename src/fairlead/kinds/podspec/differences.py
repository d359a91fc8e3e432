"""Whether two specifications mean the same, and how they differ.

The server compares amounts, not texts: `1e3` is `1k`. What is sent and what is stored are both in normal form, so
everything else can be compared as it stands.
"""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from fairlead.api.quantity import parse
from fairlead.golang.json import printed

_AMOUNTS = frozenset({"limits", "requests", "overhead"})


def is_same(left: Any, right: Any) -> bool:
    """Go's semantic equality."""
    if left == right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            _is_same_amounts(value, right[key]) if key in _AMOUNTS else is_same(value, right[key])
            for key, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return False


def _is_same_amounts(left: dict[str, str], right: dict[str, str]) -> bool:
    return left.keys() == right.keys() and all(parse(amount) == parse(right[name]) for name, amount in left.items())


def difference(old: Any, new: Any) -> str:
    """A unified diff for people, of what Go prints of both."""
    before, after = (msgspec.json.format(printed(form), indent=1).splitlines() for form in (old, new))
    return "\n".join(list(difflib.unified_diff(before, after, lineterm=""))[2:]) + "\n"
