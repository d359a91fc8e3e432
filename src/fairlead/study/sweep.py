"""One value tried over a range, and the smallest or largest that meets the rules.

Bisection takes it for granted that what meets the rules at one value meets them at every value on its better side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from fairlead.study.changes.document import Change, step_of
from fairlead.study.changes.errors import Origin

_RANGE: Final = re.compile(r"(?P<what>[^=]+)=(?P<first>\d+)\.\.(?P<last>\d+)(?::(?P<step>\d+))?(?P<unit>[A-Za-z]*)")
_MOST_VALUES: Final = 1000


class Sweep(msgspec.Struct, frozen=True):
    """`WHAT=FIRST..LAST[:STEP]`, as in nodes=90..110 and quota/team/requests.memory=10..40:5Gi."""

    what: str
    values: tuple[str, ...]

    def variant(self, value: str, base: Change) -> Change:
        """The change with the value set on top of it."""
        text = f"{self.what}={value}"
        step = step_of(Origin(f"--sweep {text}"), "set", text)
        name = text if not base.steps else f"{base.name} {text}"
        return Change(name, (step, *base.steps), base.scheduler, base.origin)


def parse_sweep(text: str) -> Sweep:
    """Raises ValueError."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ValueError(f"--sweep {text}: write WHAT=FIRST..LAST[:STEP], as in nodes=90..110")
    first, last, step = int(found["first"]), int(found["last"]), int(found["step"] or 1)
    if step < 1 or last < first or (last - first) // step >= _MOST_VALUES:
        raise ValueError(f"--sweep {text}: from the smaller to the larger value, in {_MOST_VALUES} steps at most")
    return Sweep(found["what"], tuple(f"{value}{found['unit']}" for value in range(first, last + 1, step)))


def bisect(values: Sequence[str], is_met: Callable[[str], bool], *, smallest: bool) -> str | None:
    """The first value from that side of a sorted range which meets; None if not even the best does."""
    ordered = list(values) if smallest else list(reversed(values))
    if not is_met(ordered[-1]):
        return None
    low, high = 0, len(ordered) - 1  # the answer is in [low, high]
    while low < high:
        middle = (low + high) // 2
        if is_met(ordered[middle]):
            high = middle
        else:
            low = middle + 1
    return ordered[high]
