"""What the running containers of a pod put on their machine, kind by kind.

Most usage never changes while a container runs. That is added up once, and only the rest is asked for its amount.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from fairlead.node.volume_media import Medium
from fairlead.sim.usage.declarations import PodUsageModels
from fairlead.sim.usage.measures import Measure
from fairlead.sim.usage.models import Constant, UsageModel

#: Places in a list of amounts.
ANONYMOUS, ACTIVE_FILE, INACTIVE_FILE, ROOTFS, LOGS, VOLUMES, INODES, PROCESSES = range(8)
KINDS: Final = 8
#: More than a kernel can number.
MOST_PROCESSES: Final = 2**62
_KIND: Final[Mapping[Measure, int]] = {
    Measure.MEMORY: ANONYMOUS,
    Measure.CHILD_MEMORY: ANONYMOUS,
    Measure.ACTIVE_FILE: ACTIVE_FILE,
    Measure.INACTIVE_FILE: INACTIVE_FILE,
    Measure.ROOTFS: ROOTFS,
    Measure.LOGS: LOGS,
    Measure.INODES: INODES,
}
#: A claim's file system is no part of the machine.
_MEDIA: Final[Mapping[Medium, int]] = {Medium.DISK: VOLUMES, Medium.MEMORY: ANONYMOUS}

#: Asks a model for its amount, by when its container started: at a moment, or at most within a window.
Read: TypeAlias = Callable[[UsageModel, float], float]


def read_at(now: float) -> Read:
    return lambda model, since: model.at(now, since)


def read_peak(begin: float, end: float) -> Read:
    return lambda model, since: model.peak(begin, end, since)


class PodLoad:
    """The amounts of one pod, in bytes, inodes and processes."""

    __slots__ = ("_fixed", "_processes", "_processes_left", "_varying")

    def __init__(
        self,
        usage: PodUsageModels,
        started: Mapping[str, float],
        without_children: frozenset[str],
        most_processes: int = MOST_PROCESSES,
    ) -> None:
        """`started` says since when each running container runs; those of `without_children` have lost theirs.

        Beyond `most_processes` no process can begin another.
        """
        self._fixed = [0] * KINDS
        self._varying: list[tuple[int, UsageModel, float]] = []
        self._processes: list[tuple[UsageModel, float]] = []
        for name, since in started.items():
            for measure, declaration in usage.containers.get(name, {}).items():
                if measure is Measure.CHILD_MEMORY and name in without_children:
                    continue
                if measure is Measure.PIDS:
                    self._add_processes(declaration.model, since)
                elif (kind := _KIND.get(measure)) is not None:
                    self._add(kind, declaration.model, since)
        if started:
            first = min(started.values())
            for volume in usage.volumes.values():
                if (kind := _MEDIA.get(volume.medium)) is not None:
                    self._add(kind, volume.model, started.get(volume.container, first))

        self._fixed[PROCESSES] = min(self._fixed[PROCESSES], most_processes)
        self._processes_left = most_processes - self._fixed[PROCESSES]

    @property
    def is_steady(self) -> bool:
        return not (self._varying or self._processes)

    @property
    def fixed(self) -> list[int]:
        """What never changes, by place; not to be changed."""
        return self._fixed

    def amounts(self, read: Read) -> list[int]:
        """By place; not to be changed."""
        if self.is_steady:
            return self._fixed
        amounts = list(self._fixed)
        self.add_varying(amounts, read)
        return amounts

    def add_varying(self, amounts: list[int], read: Read) -> None:
        """Add what changes with time to amounts by place."""
        for kind, model, since in self._varying:
            amounts[kind] += int(read(model, since))
        if self._processes:
            processes = sum(int(read(model, since)) for model, since in self._processes)
            amounts[PROCESSES] += min(processes, self._processes_left)

    def _add(self, kind: int, model: UsageModel, since: float) -> None:
        if isinstance(model, Constant):
            self._fixed[kind] += int(model.amount)
        else:
            self._varying.append((kind, model, since))

    def _add_processes(self, model: UsageModel, since: float) -> None:
        """Apart from the rest: together they are limited."""
        if isinstance(model, Constant):
            self._fixed[PROCESSES] += int(model.amount)
        else:
            self._processes.append((model, since))
