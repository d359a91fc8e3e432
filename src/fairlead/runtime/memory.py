"""The garbage collector, for processes that answer: a full collection stops everything for as long as 50 ms.

And for simulations, which otherwise spend one second in twenty-five on looking at what never goes.
"""

from __future__ import annotations

import gc


def tune_collector() -> None:
    """What start-up made lives until the end, and requests leave few cycles behind: look less often, and at less."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
