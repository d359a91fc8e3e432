"""Whether two specifications mean the same, and how they differ.

The server compares amounts, not texts: `1e3` is `1k`. What is sent and what is stored are both in normal form, so
everything else can be compared as it stands.
"""

from __future__ import annotations

import difflib
from typing import Any, Final

import msgspec

from fairlead.api.quantity import parse
from fairlead.golang.json import printed

_AMOUNTS = frozenset({"limits", "requests", "overhead"})
#: So many lines are matched one by one; the time for that grows with their square, and faster.
_MOST_MATCHED: Final = 2_000
#: Lines that are the same around those that differ.
_CONTEXT: Final = 3


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
    """A unified diff for people, of what Go prints of both. Of long ones all from the first line that differs to the
    last is shown as changed.
    """
    before, after = (msgspec.json.format(printed(form), indent=1).splitlines() for form in (old, new))
    if max(len(before), len(after)) > _MOST_MATCHED:
        lines = _in_one_piece(before, after)
    else:
        lines = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    return "\n".join(lines) + "\n"


def _in_one_piece(before: list[str], after: list[str]) -> list[str]:
    """A single hunk, as of two texts that have nothing in common but their beginnings and ends."""
    shorter = min(len(before), len(after))
    head = next((place for place in range(shorter) if before[place] != after[place]), shorter)
    most = shorter - head
    tail = next((place for place in range(most) if before[-1 - place] != after[-1 - place]), most)
    begin, end = max(head - _CONTEXT, 0), len(before) - tail
    above, below = before[begin:head], before[end : end + _CONTEXT]
    removed, added = before[head:end], after[head : len(after) - tail]
    same = len(above) + len(below)
    return [
        f"@@ -{begin + 1},{same + len(removed)} +{begin + 1},{same + len(added)} @@",
        *(f" {line}" for line in above),
        *(f"-{line}" for line in removed),
        *(f"+{line}" for line in added),
        *(f" {line}" for line in below),
    ]
