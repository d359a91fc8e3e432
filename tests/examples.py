"""How many examples are tried: a few in every run, more where somebody has the time.

`pytest --hypothesis-profile=thorough tests/arbitrator` tries ten times as many of a costly property, `pytest -m slow`
the parameters that say about the same again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import hypothesis
import pytest

USUAL = 40


def examples(usual: int) -> int:
    """So many, or as many more as the profile asks for."""
    return usual * hypothesis.settings().max_examples // USUAL


def each_time(chosen: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """The values as parameters of a test (a tuple is several): those that are not chosen are left to the slow run."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    usual = [value if isinstance(value, tuple) else (value,) for value in chosen]
    return [pytest.param(*row, marks=() if row in usual else pytest.mark.slow) for row in rows]
