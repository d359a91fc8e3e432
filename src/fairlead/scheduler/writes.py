"""What the scheduler tells the server, done beside the decisions.

A decision takes microseconds and a request milliseconds, so requests wait in line here and a bounded number is under
way at once; the loop never waits for any of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api, PatchType
from fairlead.runtime import clock

MOST_AT_ONCE: Final = 64

Job: TypeAlias = Callable[[], Awaitable[None]]


class Writers:
    """Runs jobs in the order in which they came, at most so many at once. A job must not raise."""

    def __init__(self, group: asyncio.TaskGroup, most_at_once: int = MOST_AT_ONCE) -> None:
        self._group = group
        self._most = most_at_once
        self._running = 0
        self._waiting: deque[Job] = deque()

    def start(self, job: Job) -> None:
        self._waiting.append(job)
        if self._running < self._most:
            self._running += 1
            self._group.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._waiting.popleft()()
        finally:
            self._running -= 1


async def bind(api: Api, pod: Pod, node: str) -> None:
    """Post the binding of a pod to a node."""
    meta = pod.metadata
    binding: Obj = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "target": {"kind": "Node", "name": node},
    }
    await api.create(builtin.PODS, binding, meta.namespace, name=meta.name, subresource="binding")


def not_scheduled(pod: Pod, reason: str, message: str) -> Obj | None:
    """The `PodScheduled=False` condition, or None if the pod has just that already."""
    known = pod.condition("PodScheduled")
    since = clock.timestamp()
    if known is not None and known.status == "False":
        if (known.reason, known.message) == (reason, message):
            return None
        since = known.last_transition_time or since
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": since,
        "observedGeneration": pod.metadata.generation,
    }


async def set_condition(api: Api, pod: Pod, condition: Obj) -> None:
    """Merge a condition into the pod's status."""
    meta = pod.metadata
    patch = {"status": {"conditions": [condition]}}
    await api.patch(builtin.PODS, meta.name, meta.namespace, patch, PatchType.STRATEGIC, subresource="status")
