"""For how long cpu quotas hold the containers of a machine back.

Nobody looks while time passes: how much a container wanted is read from its model when it ends, changes, or when
somebody asks.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from fairlead.sim.usage.models import Constant, UsageModel

#: How closely a stretch of time is looked at, and in how many parts at most.
_STEP_SECONDS: Final = 1.0
_MOST_STEPS: Final = 1000


class Throttled(NamedTuple):
    """A container that may want more cpu than its quota."""

    model: UsageModel
    quota_cores: float
    since: float


class Throttling:
    """What comes together on one machine."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[tuple[Throttled, ...], float]] = {}  # by uid; up to when it is counted
        self._seconds = 0.0

    def put(self, uid: str, containers: tuple[Throttled, ...], now: float) -> None:
        """These run of the pod from now on."""
        self.remove(uid, now)
        if containers:
            self._counted[uid] = containers, now

    def remove(self, uid: str, now: float) -> None:
        containers, begin = self._counted.pop(uid, ((), now))
        self._seconds += sum(_seconds_above_quota(container, begin, now) for container in containers)

    def seconds(self, now: float) -> float:
        """Of all containers together, up to now."""
        for uid, (containers, _) in list(self._counted.items()):
            self.put(uid, containers, now)
        return self._seconds


def _seconds_above_quota(container: Throttled, begin: float, end: float) -> float:
    model, quota, since = container
    if end <= begin or model.peak(begin, end, since) <= quota:
        return 0.0
    if isinstance(model, Constant):
        return end - begin
    steps = min(_MOST_STEPS, max(1, math.ceil((end - begin) / _STEP_SECONDS)))
    width = (end - begin) / steps
    return width * sum(model.at(begin + (step + 0.5) * width, since) > quota for step in range(steps))
