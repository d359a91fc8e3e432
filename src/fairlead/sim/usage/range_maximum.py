"""The greatest of any run of numbers at once, however long the run: a table of the maxima of all runs of 1, 2, 4, 8…"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class RangeMaximum:
    def __init__(self, numbers: Sequence[float] | NDArray[np.float64]) -> None:
        """The numbers must be at least one."""
        level = np.asarray(numbers, dtype=np.float64)
        self._numbers = level.data  # whose numbers are floats of Python at once
        self._levels = [level]
        while len(level) > (length := 2 ** (len(self._levels) - 1)):
            level = np.maximum(level[:-length], level[length:])
            self._levels.append(level)

    def __len__(self) -> int:
        return len(self._numbers)

    def at(self, position: int) -> float:
        number: float = self._numbers[position]
        return number

    def of(self, first: int, last: int) -> float:
        """The greatest of the numbers from the first to the last position, both included."""
        level = (last - first + 1).bit_length() - 1
        maxima = self._levels[level]
        return float(max(maxima[first], maxima[last + 1 - 2**level]))
