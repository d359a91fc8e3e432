"""What a scheduling cycle is."""

from __future__ import annotations

from typing import Protocol

from fairlead.scheduler.queue import QueuedPod


class SchedulingCycle(Protocol):
    """One way to decide about a pod that was popped from the queue."""

    async def attempt(self, queued: QueuedPod) -> bool:
        """Decide about the pod, and bring about what follows; False if the pod is for a later cycle.

        Whoever takes the pod either gives it a node or puts it back into the queue.
        """
        ...
