"""A workload replayed in virtual time: the same components as `fairlead up`, and a clock that jumps.

Pods (and Jobs) are created at the times of the workload and run as long as their annotations say. The run ends when
nothing is left to happen, or at a given time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeGuard

from fairlead.api.builtin import JOBS, PODS
from fairlead.api.encoded import copied
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj, metadata
from fairlead.api.pods import Pod
from fairlead.api.verbs import Api
from fairlead.client.informer import Informers
from fairlead.node.restarts import STEADY_AFTER
from fairlead.runtime.clock import monotonic
from fairlead.sim.behaviour import ends_by_itself
from fairlead.sim.openb import Arrival

#: After so long without an event the run has ended: twice the time after which the scheduler retries everything (5
#: min).
SETTLED_SECONDS = 600.0


class ArrivalRefused(Exception):
    """The server refused a pod or a Job of the workload."""


class Endings:
    """Keeps track of running pods that will end by themselves."""

    def __init__(self, informers: Informers) -> None:
        self._to_come: set[str] = set()
        self._changed = asyncio.Event()
        informers.of(PODS, Pod).subscribe(self._pod)

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        if not self._changed.is_set() and (old is None or new is None or not _repeats_failure(old, new)):
            self._changed.set()
        pod = new or old
        assert pod is not None
        if _is_running(old) and _is_running(new) and old.metadata.annotations == new.metadata.annotations:
            return  # its end has not changed
        if _is_running(new) and ends_by_itself(new):
            self._to_come.add(pod.metadata.key)
        else:
            self._to_come.discard(pod.metadata.key)

    async def settled(self) -> None:
        """Return once no running pod will end any more and nothing has happened for a while."""
        while True:
            self._changed.clear()
            if self._to_come:
                await self._changed.wait()
                continue
            try:
                async with asyncio.timeout(SETTLED_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                return


def _is_running(pod: Pod | None) -> TypeGuard[Pod]:
    return pod is not None and bool(pod.spec.node_name) and not pod.is_finished


def _repeats_failure(old: Pod, new: Pod) -> bool:
    """Whether the pod only repeats a failure that will go on for ever (crashes, failed pulls)."""
    if (old.spec.node_name, old.status.phase, old.is_active) != (new.spec.node_name, new.status.phase, new.is_active):
        return False
    before, restarts = (sum(status.restart_count for status in pod.status.container_statuses) for pod in (old, new))
    return bool(new.spec.node_name) and new.is_active and (before == restarts or restarts > STEADY_AFTER)


async def arrive(api: Api, arrivals: Sequence[Arrival], on_arrival: Callable[[int, float], None]) -> None:
    """Create each at its time, counted from now; `on_arrival` gets the number of earlier ones and the time."""
    began = monotonic()
    for count, arrival in enumerate(arrivals):
        on_arrival(count, arrival.at)
        delay = began + arrival.at - monotonic()
        if delay > 0:
            await asyncio.sleep(delay)
        await _create(api, arrival.obj)


async def _create(api: Api, obj: Obj) -> None:
    """What is created may be a part of others, too: a copy of it is the server's to change."""
    namespace, kind = metadata(obj).get("namespace", "default"), obj.get("kind", "Pod")
    try:
        await api.create(JOBS if kind == "Job" else PODS, copied(obj), namespace)
    except ApiError as error:
        raise ArrivalRefused(f"{kind.lower()} {metadata(obj).get('name')}: {error}") from error
