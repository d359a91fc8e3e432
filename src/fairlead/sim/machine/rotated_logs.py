"""What lies on the disk of all that a container prints: its kubelet rotates the log, packs what has ended, and removes
what is too old.

A kubelet looks at logs when it looks at what the node is short of, and after that: whole multiples of its interval.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead.node.log_rotation import LogPolicy
from fairlead.sim.usage.declarations import Declaration, PodUsageModels
from fairlead.sim.usage.measures import Measure
from fairlead.sim.usage.models import Constant, UsageModel

#: What is left of a log when it is packed: measured of what verify's player prints, which repeats itself as logs do.
PACKED: Final = 0.104
#: How long after a look the room is there that packing gains.
_PACKING_SECONDS: Final = 1.0
#: So many looks that have passed are worked out one by one; of those before them only what has come together by then.
_MOST_LOOKS_BACK: Final = 2000
#: The same of looks ahead: beyond, nothing is taken to be rotated. Ten minutes of the shortest interval.
_MOST_LOOKS_AHEAD: Final = 200


class _Files:
    """The log of one run of a container: how much had been printed in all, each time that it was rotated.

    What files hold together is the difference of two of these, however many files there are.
    """

    __slots__ = ("_count", "_even", "_even_bytes", "_later", "_policy", "look", "since")

    def __init__(self, policy: LogPolicy, since: float, look: int, printed: float) -> None:
        """As if all that was printed before that look had been rotated in files of one length, the shortest ones."""
        self._policy, self.since, self.look = policy, since, look
        most, looks = policy.max_bytes, max(look - math.floor(since / policy.interval_seconds), 0)
        full = int(printed // most) if most else 0
        self._even = self._count = min(full, looks)  # how often it was rotated: in those files, and in all
        self._even_bytes = most if full <= looks else printed / max(looks, 1)
        self._later: deque[float] = deque(maxlen=policy.most_packed + 2)

    def is_due(self, printed: float, ahead: Sequence[float] = ()) -> bool:
        """`ahead`: as rotated after the last look, too."""
        return printed - self._ended(self._count + len(ahead), ahead) >= self._policy.max_bytes

    def rotate_if_due(self, look: int, printed: float) -> None:
        self.look = look
        if self.is_due(printed):
            self._count += 1
            self._later.append(printed)

    def bytes(self, printed: float, ahead: Sequence[float] = ()) -> float:
        count = self._count + len(ahead)
        oldest, packed = self._ended(count - 1 - self._policy.most_packed, ahead), self._ended(count - 1, ahead)
        return (packed - oldest) * PACKED + printed - packed

    def _ended(self, number: int, ahead: Sequence[float]) -> float:
        """How much had been printed when it was rotated for that time."""
        if number <= self._even:
            return max(number, 0) * self._even_bytes
        if number > self._count:
            return ahead[number - self._count - 1]
        return self._later[number - self._count - 1]


class RotatedLogs:
    """A model of usage; it remembers the last look, since whoever asks goes on in time."""

    def __init__(self, printed: UsageModel, policy: LogPolicy) -> None:
        """`printed` is how much there would be if nothing was removed: nobody takes back what was printed."""
        self._model, self._policy = printed, policy
        self._files: _Files | None = None

    def at(self, now: float, since: float) -> float:
        return self._files_at(now, since).bytes(self._printed(now, since))

    def peak(self, begin: float, end: float, since: float) -> float:
        """An upper bound, where the window is a long one."""
        files, last = self._files_at(begin, since), self._look_before(end)
        if last - files.look > _MOST_LOOKS_AHEAD:
            return files.bytes(self._printed(end, since))
        ahead, most = list[float](), 0.0
        for look in range(files.look + 1, last + 1):
            moment = look * self._policy.interval_seconds
            most = max(most, files.bytes(self._printed(moment + _PACKING_SECONDS, since), ahead))
            if files.is_due(printed := self._printed(moment, since), ahead):
                ahead.append(printed)
        return max(most, files.bytes(self._printed(end, since), ahead))

    def _files_at(self, now: float, since: float) -> _Files:
        look, interval = self._look_before(now), self._policy.interval_seconds
        files = self._files
        if files is None or files.since != since or not 0 <= look - files.look <= _MOST_LOOKS_BACK:
            first = max(math.ceil(since / interval) - 1, look - _MOST_LOOKS_BACK)
            files = self._files = _Files(self._policy, since, first, self._printed(first * interval, since))
        for each in range(files.look + 1, look + 1):
            files.rotate_if_due(each, self._printed(each * interval, since))
        return files

    def _look_before(self, moment: float) -> int:
        """The last one by which something was gained."""
        return math.floor((moment - _PACKING_SECONDS) / self._policy.interval_seconds)

    def _printed(self, moment: float, since: float) -> float:
        return self._model.peak(since, moment, since) if moment >= since else 0.0


def with_rotation(usage: PodUsageModels, policy: LogPolicy) -> PodUsageModels:
    """The same, with logs as they are on the disk. What never changes is rotated once, and stays."""
    if policy.max_bytes < 0 or not any(map(_grows, usage.containers.values())):
        return usage
    containers = dict(usage.containers)
    for name, measures in usage.containers.items():
        if _grows(measures):
            model = RotatedLogs(measures[Measure.LOGS].model, policy)
            containers[name] = {**measures, Measure.LOGS: Declaration(model, "", "")}
    return msgspec.structs.replace(usage, containers=containers)


def _grows(measures: Mapping[Measure, Declaration]) -> bool:
    logs = measures.get(Measure.LOGS)
    return logs is not None and not isinstance(logs.model, Constant)
