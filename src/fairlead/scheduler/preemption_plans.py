"""Who would have to leave which node so that a more important pod fits there."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np

from fairlead.api.scheduling import Pod
from fairlead.runtime import clock
from fairlead.scheduler.columns import Ints, Mask, Rows
from fairlead.scheduler.snapshot import Placed, Snapshot

#: A pod that has not started yet is the youngest of all.
NOT_STARTED: Final = 2**62
#: Makes every victim count, whatever its priority (pickOneNodeForPreemption).
_PER_VICTIM: Final = 2**31


class PreemptionPlan(msgspec.Struct, frozen=True):
    """Who would have to leave one node, the most important first."""

    victims: tuple[Placed, ...]
    violations: int

    def rank(self) -> tuple[int, int, int, int, int]:
        """The lower the better (pickOneNodeForPreemption): the last is when the longest running of the most important
        victims started, the later the better.
        """
        top = self.victims[0].pod.priority
        total = sum(victim.pod.priority + _PER_VICTIM for victim in self.victims)
        since = min(started(victim.pod) for victim in self.victims if victim.pod.priority == top)
        return self.violations, top, total, len(self.victims), -since


class Plans:
    """What was found, node by node, for one kind of preemptor."""

    def __init__(self, snapshot: Snapshot) -> None:
        size = snapshot.size
        self._pods_seen, self._nodes_seen = snapshot.pod_changes.position, snapshot.node_changes.position
        self.found: dict[int, PreemptionPlan | Counter[str]] = {}
        self.is_known: Mask = np.zeros(size, dtype=np.bool_)
        #: Where nobody is less important than the preemptor; in an overloaded cluster of equals that is everywhere.
        self.has_nobody: Mask = np.zeros(size, dtype=np.bool_)
        #: Of the rows that have a plan: and its rank, column by column.
        self.helps: Mask = np.zeros(size, dtype=np.bool_)
        self.ranks: Ints = np.zeros((5, size), dtype=np.int64)

    def keep(self, row: int, plan: PreemptionPlan | Counter[str]) -> None:
        self.found[row] = plan
        self.is_known[row], self.has_nobody[row] = True, False
        self.helps[row] = isinstance(plan, PreemptionPlan)
        if isinstance(plan, PreemptionPlan):
            self.ranks[:, row] = plan.rank()

    def keep_nobody(self, rows: Rows) -> None:
        self.is_known[rows], self.has_nobody[rows], self.helps[rows] = True, True, False

    def have_enough(self, rows: Rows, most: int) -> bool:
        """Whether so many of the rows would do, and one of them without violating a budget."""
        helping = rows[self.helps[rows]]
        return len(helping) >= most and bool((self.ranks[0][helping] == 0).any())

    def drop(self, row: int) -> None:
        self.is_known[row] = self.helps[row] = False

    def overtaken(self, snapshot: Snapshot) -> set[int] | None:
        """The rows where pods or nodes have changed since this was last asked; None if that is not known any more."""
        pods, nodes = snapshot.pod_changes.since(self._pods_seen), snapshot.node_changes.since(self._nodes_seen)
        self._pods_seen, self._nodes_seen = snapshot.pod_changes.position, snapshot.node_changes.position
        if pods is None or nodes is None or len(self.is_known) != snapshot.size:
            return None
        return {*pods, *nodes}


def importance(victim: Placed) -> tuple[int, int]:
    """The most important first: the higher priority, then who runs for longer."""
    return -victim.pod.priority, started(victim.pod)


def started(pod: Pod) -> int:
    """When the pod started to run, in seconds since the epoch; one that has not is the youngest of all."""
    return _seconds_of(pod.status.start_time) if pod.status.start_time else NOT_STARTED


@lru_cache(maxsize=4096)
def _seconds_of(timestamp: str) -> int:
    return int(clock.parse_timestamp(timestamp))
