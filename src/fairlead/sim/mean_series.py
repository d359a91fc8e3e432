"""A level that changes with time, remembered in bounded space: how high it was on average in each part of a run.

Nobody knows beforehand how long a run takes. So cells of a second are filled, and when they are full, every two become
one that is twice as long.
"""

from __future__ import annotations

from typing import Final

#: So many times the parts that are asked for at most that their bounds are met well enough.
_MOST_CELLS: Final = 512
_FIRST_SECONDS: Final = 1.0


class MeanSeries:
    def __init__(self, began: float) -> None:
        self._began = self._at = began
        self._level = 0.0
        self._width = _FIRST_SECONDS
        self._areas: list[float] = []  # by cell: level times seconds

    @property
    def area(self) -> float:
        return sum(self._areas)

    def change(self, moment: float, level: float) -> None:
        """From that moment on it is so high; moments come in order."""
        self.advance(moment)
        self._level = level

    def advance(self, moment: float) -> None:
        """It has stayed as it is until that moment."""
        end = moment - self._began
        while end > self._width * _MOST_CELLS:
            self._halve()
        at = self._at - self._began
        while at < end:
            cell = min(int(at / self._width), _MOST_CELLS - 1)
            until = end if cell == _MOST_CELLS - 1 else min((cell + 1) * self._width, end)
            self._areas += [0.0] * (cell + 1 - len(self._areas))
            self._areas[cell] += self._level * (until - at)
            at = until
        self._at = max(moment, self._at)

    def means(self, parts: int) -> list[float]:
        """On average in each of so many equal parts of the time until now."""
        length = self._at - self._began
        if length <= 0:
            return []
        found = [0.0] * parts
        for number, area in enumerate(self._areas):
            start, end = number * self._width, min((number + 1) * self._width, length)
            for part in range(int(start / length * parts), parts):
                low, high = length * part / parts, length * (part + 1) / parts
                if low >= end:
                    break
                found[part] += area * max(min(high, end) - max(low, start), 0.0) / (end - start)
        return [round(area * parts / length, 4) for area in found]

    def _halve(self) -> None:
        self._areas = [sum(self._areas[cell : cell + 2]) for cell in range(0, len(self._areas), 2)]
        self._width *= 2
