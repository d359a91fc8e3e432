"""What a scheduling cycle is."""

from __future__ import annotations

from typing import Protocol

from fairlead.scheduler.profile_runtime import ProfileRuntime
from fairlead.scheduler.queue import QueuedPod


class SchedulingCycle(Protocol):
    """One way to decide about a pod that was popped from the queue."""

    async def attempt(self, queued: QueuedPod) -> bool:
        """Decide about the pod, and bring about what follows; False if the pod is for a later cycle.

        Whoever takes the pod either gives it a node or puts it back into the queue.
        """
        ...


def must_look(queued: QueuedPod, runtime: ProfileRuntime) -> bool:
    """Whether a plugin may have something to find out before the pod is decided about."""
    return any(plugin.filters(queued.request.requirements) for plugin in runtime.profile.lookers)


async def look_in_turns(queued: QueuedPod, runtime: ProfileRuntime) -> None:
    """Have plugins find out what takes long. Others may have turns: the queue must remember what happens to the pod."""
    while must_look(queued, runtime):
        requirements = queued.request.requirements
        for plugin in runtime.profile.lookers:
            await plugin.look_in_turns(requirements, runtime.decider.snapshot)
        if queued.request.requirements is requirements:
            return
