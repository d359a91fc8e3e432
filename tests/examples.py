"""How many examples are tried: a few in every run, more where somebody has the time.

`pytest --hypothesis-profile=thorough tests/arbitrator` tries ten times what a property says and more, `pytest -m slow`
the parameters that say about the same again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import hypothesis
import pytest

#: How many examples a property has that says nothing of it.
PLENTY = 40
#: Of so many as many are tried in a run: others in the next.
USUAL = 20


def examples(plenty: int) -> int:
    """How many the profile tries of so many."""
    return max(1, plenty * hypothesis.settings().max_examples // PLENTY)


def each_time(chosen: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """The values as parameters of a test (a tuple is several): those that are not chosen are left to the slow run."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    usual = [value if isinstance(value, tuple) else (value,) for value in chosen]
    return [pytest.param(*row, marks=() if row in usual else pytest.mark.slow) for row in rows]
