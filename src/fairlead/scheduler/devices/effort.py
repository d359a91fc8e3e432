"""How much a decision about devices may cost: claims, selectors and pools come from anybody."""

from __future__ import annotations

from typing import Final

#: In the units of CEL, of which Python does about a million a second: a turn of the loop, no more.
MOST: Final = 200_000
#: What trying a device takes, and for each constraint that it has to meet, each counter that it takes from.
_PER_TRY: Final = 5
_PER_CHECK: Final = 2


class TooMuchEffort(Exception):
    """Devices were looked for as long as one decision may; what was found out about them until then is kept."""


class Effort:
    """What is left of it for one decision."""

    __slots__ = ("_left",)

    def __init__(self, most: int = MOST) -> None:
        self._left = most

    def spend(self, amount: int) -> None:
        self._left -= amount

    def check(self) -> None:
        """Raises TooMuchEffort once it is used up."""
        if self._left <= 0:
            raise TooMuchEffort

    def look_at(self, things: int = 1) -> None:
        """So many slices, devices or answers are looked at."""
        self._left -= things
        self.check()

    def try_one(self, checks: int) -> None:
        """One device more is tried, by so many constraints and counters."""
        self.look_at(_PER_TRY + _PER_CHECK * checks)
