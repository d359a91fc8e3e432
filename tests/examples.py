"""How many examples a costly property is tried on: a few in every run, ten times as many where somebody has the time.

`pytest --hypothesis-profile=thorough tests/arbitrator`
"""

from __future__ import annotations

import hypothesis

USUAL = 100


def examples(usual: int) -> int:
    """So many, or as many more as the profile asks for."""
    return usual * hypothesis.settings().max_examples // USUAL
