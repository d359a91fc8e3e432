"""Work, counted in calls of functions: the same on every machine, however busy it is."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def calls(action: Callable[[], object]) -> int:
    """How many functions, of Python and of C, the action calls."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # what others left to be collected would count here
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def growth(action: Callable[[int], object], size: int) -> float:
    """How many times as much work twice the size is: 2 if it is linear, 4 if it is quadratic.

    What does not depend on the size is taken off, as far as an action of size 0 shows it.
    """
    action(size)  # fills the caches of the process
    fixed = calls(lambda: action(0))
    return (calls(lambda: action(2 * size)) - fixed) / (calls(lambda: action(size)) - fixed)


class Compared(str):
    """A text whose comparisons count as calls."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)
