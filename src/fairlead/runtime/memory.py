"""The garbage collector, for processes that answer: a full collection stops everything for as long as 50 ms.

And for simulations, which otherwise spend one second in twenty-five on looking at what never goes, and for whoever
starts: it looks 170 times at modules that stay.
"""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Modules stay, and requests leave few cycles behind."""
    gc.set_threshold(20_000, 20, 50)


def keep_started() -> None:
    """What start-up made lives until the end: look at it once more and never again."""
    gc.collect()
    gc.freeze()
