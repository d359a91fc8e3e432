"""How much cpu is used now: counters know only how much was used since the beginning."""

from __future__ import annotations

from typing import NamedTuple


class _Look(NamedTuple):
    """At one counter."""

    at: float
    nanoseconds: int
    #: Since the look before.
    rate: int


class Rates:
    """Between two looks at the same counter that are at least so many seconds apart: less says little."""

    def __init__(self, least_seconds: float) -> None:
        self._least_seconds = least_seconds
        self._before: dict[str, _Look] = {}  # by cgroup
        self._now: dict[str, _Look] = {}

    def begin(self, set_by: float = 0.0) -> None:
        """A new look at all; what was not looked at the last time is forgotten. `set_by`: the clock, since then."""
        self._before, self._now = self._now, {}
        if set_by:
            self._before = {name: look._replace(at=look.at + set_by) for name, look in self._before.items()}

    def nano_cores(self, cgroup: str, nanoseconds: int, at: float, began: float) -> int:
        """Since the last look; at the first one, since the counter began."""
        before = self._before.get(cgroup)
        if before is not None and 0 <= at - before.at < self._least_seconds:
            self._now[cgroup] = before
            return before.rate
        since, counted = (before.at, before.nanoseconds) if before is not None else (began, 0)
        is_known = at > since and nanoseconds >= counted
        rate = round((nanoseconds - counted) / (at - since)) if is_known else 0
        self._now[cgroup] = _Look(at, nanoseconds, rate)
        return rate
