"""Pods that may not start yet, whatever the nodes say: their namespace has not been granted enough.

The arbitrator keeps the account (S2-45) and is asked before every decision. Pods that it refuses wait here, by
namespace and requirements in the order of the queue: when more is granted, the first of each line is asked for again,
and when it got a node, the next. So thousands that wait for their share cost nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, Protocol

from fairlead.api.scheduling import Pod
from fairlead.runtime import clock
from fairlead.scheduler.queue import QueuedPod, QueueState, SchedulingQueue
from fairlead.scheduler.requirements import PodRequirements

#: Who refused, as a plugin would be named.
ALLOCATION: Final = "Allocation"


class QuotaGate(Protocol):
    """Who keeps the account of what namespaces may start: the arbitrator."""

    def refusal(self, pod: Pod) -> str:
        """Why the pod may not start now; empty if it may."""
        ...

    def assume(self, pod: Pod, node: str) -> None:
        """The pod is given that node."""
        ...

    def release(self, pod: Pod) -> None:
        """Nothing came of it."""
        ...

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call it whenever a namespace may be granted more."""
        ...


class QuotaWaitQueue:
    """The lines of those who wait, and the account of those who start."""

    def __init__(self, queue: SchedulingQueue, gate: QuotaGate) -> None:
        self._queue, self._gate = queue, gate
        self._lines: dict[tuple[str, PodRequirements], list[tuple[tuple[tuple[float, ...], int], str]]] = {}
        self._members: set[str] = set()

    def add(self, queued: QueuedPod) -> None:
        """The pod was refused."""
        if queued.key not in self._members:
            self._members.add(queued.key)
            line = self._lines.setdefault((queued.pod.metadata.namespace, queued.request.requirements), [])
            heapq.heappush(line, (queued.rank, queued.key))

    def assumed(self, queued: QueuedPod, node: str) -> None:
        """The pod got that node: the next of its line may go on."""
        self._gate.assume(queued.pod, node)
        self._wake((queued.pod.metadata.namespace, queued.request.requirements), clock.monotonic())

    def forgotten(self, queued: QueuedPod) -> None:
        """Nothing came of it."""
        self._gate.release(queued.pod)

    def wake_first(self) -> None:
        """More may have been granted to anybody."""
        for group in list(self._lines):
            self._wake(group, clock.monotonic())

    def _wake(self, group: tuple[str, PodRequirements], now: float) -> None:
        line = self._lines.get(group)
        while line:
            key = line[0][1]
            first = self._queue.get(key)
            is_here = first is not None and first.state is QueueState.UNSCHEDULABLE and first.refused_by == {ALLOCATION}
            if is_here and first is not None and self._gate.refusal(first.pod):
                return
            heapq.heappop(line)
            self._members.discard(key)
            if is_here:
                self._queue.activate(key, now)
                break
        if not line:
            self._lines.pop(group, None)
