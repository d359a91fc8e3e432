"""When usage will cross a level: found by halving windows, without a sample taken in between."""

from __future__ import annotations

from typing import Final

from fairlead.sim.usage.models import LONGEST_SECONDS, SHORTEST_SECONDS, UsageModel

#: How late an answer may be.
RESOLUTION_SECONDS: Final = 0.001
#: What exceeds a level for less than this is not noticed.
_UNNOTICED_SECONDS: Final = 1e-6
#: How many windows are looked at. One model takes a hundred; only sums, whose peaks are upper bounds, can take more.
_MOST_WINDOWS: Final = 4096


def first_above(model: UsageModel, level: float, since: float, after: float) -> float | None:
    """The first moment from `after` on when the amount exceeds the level, a millisecond late at most, never early.

    None if there is none within a century, or if parts of a sum exceed it together only after very many periods.
    """
    if model.at(after, since) > level:
        return after
    if model.peak(after, after + LONGEST_SECONDS, since) <= level:
        return None
    windows = _doubling_windows(after)  # the next one is the last of the list
    for _ in range(_MOST_WINDOWS):
        if not windows:
            return None
        begin, end = windows.pop()
        if model.peak(begin, end, since) <= level:
            continue
        if end - begin <= RESOLUTION_SECONDS and model.at(end, since) > level:
            return end
        if end - begin > _UNNOTICED_SECONDS:
            middle = (begin + end) / 2
            windows += [(middle, end), (begin, middle)]
    return None


def _doubling_windows(after: float) -> list[tuple[float, float]]:
    """The next second, the one after it, the next two, four…: the latest window first."""
    windows, begin, width = [], 0.0, SHORTEST_SECONDS
    while begin < LONGEST_SECONDS:
        windows.append((after + begin, after + begin + width))
        begin += width
        width = begin
    return windows[::-1]
