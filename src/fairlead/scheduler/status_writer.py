"""What the scheduler writes of its decisions beside bindings: conditions, nominations, evictions, events.

Everything is written beside the decisions, by a bounded number of writers; only how a binding ended is heard of again.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from fairlead.api import builtin
from fairlead.api.devices import ResourceClaim
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.objects import Obj
from fairlead.api.references import reference
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.client.events import Recorder
from fairlead.scheduler import writes

#: `NoteLengthLimit` of events.k8s.io.
LONGEST_NOTE: Final = 1024

log = logging.getLogger(__name__)


class StatusWriter:
    """Writes conditions, evictions and events. `writers` must be set before it is used."""

    def __init__(self, api: Api, recorder: Recorder | None) -> None:
        self._api, self._recorder = api, recorder
        self.writers: writes.Writers
        #: By the uid of a pod of which something is being written: what is to be written of it next.
        self._next: dict[str, Obj] = {}

    def scheduled(self, pod: Pod, node: str) -> None:
        """The pod is bound."""
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._record(pod, NORMAL, "Scheduled", f"Successfully assigned {key} to {node}", "Binding")

    async def expected(self, pod: Pod, node: str) -> Pod:
        """The pod is about to be bound, unless what has to be done before fails; returns it as it is then."""
        if pod.status.nominated_node_name == node:
            return pod
        return await self._patch_status(pod, {"nominatedNodeName": node}) or pod

    def skipped(self, pod: Pod) -> None:
        """The pod is going away, so it is not tried."""
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._record(pod, WARNING, "FailedScheduling", f"skip schedule deleting pod: {key}", "Scheduling")

    def failed(self, pod: Pod, reason: str, message: str, nominated: str | None = None) -> None:
        """The pod goes nowhere. `nominated` replaces its nominatedNodeName, unless it is None."""
        note = message if len(message) <= LONGEST_NOTE else f"{message[: LONGEST_NOTE - 4]} ..."
        self._record(pod, WARNING, "FailedScheduling", note, "Scheduling")
        status: Obj = {}
        condition = writes.not_scheduled(pod, reason, message)
        if condition is not None:
            status["conditions"] = [condition]
        if nominated is not None and nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = nominated or None
        if status:
            self._tell(pod, status)

    def clear_nomination(self, pod: Pod) -> None:
        """The node it was nominated to goes to a more important pod."""
        self._tell(pod, {"nominatedNodeName": None})

    async def evict(self, preemptor: Pod, victims: list[Pod], node: str) -> bool:
        """Evict the pods, with their grace; False if some could not be."""
        return all(await asyncio.gather(*(self._evict(preemptor, victim, node) for victim in victims)))

    async def give_up(self, claim: ResourceClaim) -> None:
        """Give up the devices of a claim that nobody else has, if it is still as it was."""
        try:
            await writes.give_up(self._api, claim)
        except (ApiError, OSError) as error:
            log.warning("cannot give up the devices of %s: %s", claim.metadata.key, error)

    async def _evict(self, preemptor: Pod, victim: Pod, node: str) -> bool:
        try:
            await writes.evict(self._api, victim, preemptor.spec.scheduler_name)
        except NotFound:
            return True
        except (ApiError, OSError) as error:
            log.warning("cannot evict %s for %s: %s", victim.metadata.key, preemptor.metadata.key, error)
            return False
        message = f"Preempted by pod {preemptor.metadata.uid} on node {node}"
        self._record(victim, NORMAL, "Preempted", message, "Preempting", related=preemptor)
        return True

    def _tell(self, pod: Pod, status: Obj) -> None:
        """Write that of the pod, after what is being written of it already; of several that wait the last counts."""
        uid = pod.metadata.uid
        if uid in self._next:
            self._next[uid] |= status
            return
        self._next[uid] = status
        self.writers.start(partial(self._write, pod))

    async def _write(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        try:
            while status := self._next[uid]:
                self._next[uid] = {}
                await self._patch_status(pod, status)
        finally:
            del self._next[uid]

    async def _patch_status(self, pod: Pod, status: Obj) -> Pod | None:
        """The pod as it is then; None if it could not be written."""
        try:
            return await writes.patch_status(self._api, pod, status)
        except NotFound:
            pass
        except (ApiError, OSError) as error:
            log.warning("cannot write the status of %s: %s", pod.metadata.key, error)
        return None

    def _record(self, pod: Pod, type_: str, reason: str, message: str, action: str, related: Pod | None = None) -> None:
        if self._recorder is not None:
            related_reference = None if related is None else reference(related, builtin.PODS)
            speaker = (related or pod).spec.scheduler_name  # profiles are schedulers to who reads events
            about = reference(pod, builtin.PODS)
            self._recorder.event(
                about, type_, reason, message, action=action, related=related_reference, component=speaker
            )
