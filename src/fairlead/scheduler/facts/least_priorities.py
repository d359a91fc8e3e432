"""How unimportant the least important pod of each node is: below that, nobody there can be driven away."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead.scheduler.columns import Ints, grown

#: Of a node without pods: more than any pod has.
NOBODY: Final = 2**62


class LeastPriorities:
    """A column over nodes, kept up to date pod by pod; a cluster has few priorities."""

    def __init__(self, size: int) -> None:
        self.column: Ints = np.full(size, NOBODY, dtype=np.int64)
        self._counts: dict[int, dict[int, int]] = {}  # by row: how many pods of each priority

    def grow(self, size: int) -> None:
        self.column = grown(self.column, size, NOBODY)

    def add(self, row: int, priority: int) -> None:
        counts = self._counts.setdefault(row, {})
        counts[priority] = counts.get(priority, 0) + 1
        if priority < self.column[row]:
            self.column[row] = priority

    def remove(self, row: int, priority: int) -> None:
        counts = self._counts[row]
        counts[priority] -= 1
        if not counts[priority]:
            del counts[priority]
            self.column[row] = min(counts, default=NOBODY)
