"""Requests to the server, made beside the decisions.

A decision takes microseconds and a request milliseconds, so requests wait in line here and a bounded number is under
way at once; the loop never waits for any of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from fairlead.api import builtin
from fairlead.api.devices import EXTENDED_RESOURCE_CLAIM, FINALIZER, ResourceClaim
from fairlead.api.guards import guarded
from fairlead.api.objects import Obj
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api, DeleteOptions, PatchType
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

    def aside(self, job: Job) -> None:
        """Run a job that waits for something else than the server, beside all others."""
        self._group.create_task(_awaited(job))

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._waiting.popleft()()
        finally:
            self._running -= 1


async def _awaited(job: Job) -> None:
    await job()


def not_scheduled(pod: Pod, reason: str, message: str) -> Obj | None:
    """The `PodScheduled=False` condition, or None if the pod has just that already."""
    known = pod.condition("PodScheduled")
    since = ""
    if known is not None and known.status == "False":
        if known.reason == reason and known.message == message:
            return None
        since = known.last_transition_time or ""
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": since or clock.timestamp(),
        "observedGeneration": pod.metadata.generation,
    }


async def patch_status(api: Api, pod: Pod, status: Obj) -> Pod:
    """Merge that into the pod's status: conditions by type, everything else as it is; None removes. Refused if
    another pod has its name by now.
    """
    meta = pod.metadata
    patch = guarded({"status": status}, meta)
    done = await api.patch(builtin.PODS, meta.name, meta.namespace, patch, PatchType.STRATEGIC, subresource="status")
    return done.view(Pod)


async def evict(api: Api, victim: Pod, scheduler: str) -> None:
    """Say why the pod has to go, then delete it; it has its grace period (S3-27)."""
    meta, known = victim.metadata, victim.condition("DisruptionTarget")
    condition: Obj = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{scheduler}: preempting to accommodate a higher priority pod",
        "lastProbeTime": None,
        "lastTransitionTime": clock.timestamp(),
        "observedGeneration": meta.generation,
    }
    if known is None or (known.status, known.reason, known.message) != (
        "True",
        condition["reason"],
        condition["message"],
    ):
        await patch_status(api, victim, {"conditions": [condition]})
    await api.delete(builtin.PODS, meta.name, meta.namespace, DeleteOptions(precondition_uid=meta.uid))


async def give_up(api: Api, claim: ResourceClaim) -> None:
    """Take the devices from a claim, unless it has changed; one that was made for extended resources is deleted."""
    meta = claim.metadata
    if meta.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
        await delete_claim(api, claim)
        return
    patch = guarded({"status": {"allocation": None, "reservedFor": None, "devices": None}}, meta, unchanged=True)
    await api.patch(builtin.RESOURCE_CLAIMS, meta.name, meta.namespace, patch, PatchType.MERGE, subresource="status")


async def delete_claim(api: Api, claim: ResourceClaim) -> None:
    """Delete a claim, whatever it has."""
    meta = claim.metadata
    if FINALIZER in meta.finalizers:
        patch = guarded({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}, meta)
        await api.patch(builtin.RESOURCE_CLAIMS, meta.name, meta.namespace, patch, PatchType.STRATEGIC)
    await api.delete(builtin.RESOURCE_CLAIMS, meta.name, meta.namespace, DeleteOptions(precondition_uid=meta.uid))
