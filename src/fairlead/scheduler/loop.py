"""The scheduler at work: it listens to the informers, decides pod after pod, and lets others write.

This is the only part that waits. Decisions follow one another without a pause for I/O: a pod that has got a node is
assumed to be there, and the binding is written beside. Time is the event loop's, so a simulation runs the same code.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from fairlead.api import builtin
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.objects import Obj
from fairlead.api.references import reference
from fairlead.api.scheduling import DEFAULT_SCHEDULER, Node, Pod
from fairlead.api.verbs import Api
from fairlead.client.events import NORMAL, WARNING, Recorder
from fairlead.client.informer import Informers
from fairlead.runtime import clock
from fairlead.scheduler import writes
from fairlead.scheduler.changes import is_same_node, node_changed, own_events, placed_pod_changed
from fairlead.scheduler.decide import Chosen, Decider, Unfit
from fairlead.scheduler.framework import Change, Event, Profile
from fairlead.scheduler.plugins import DEFAULT_PROFILE
from fairlead.scheduler.queue import SchedulingQueue, Waiting
from fairlead.scheduler.shape import Shapes
from fairlead.scheduler.snapshot import Snapshot

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

#: Decisions after which everybody else gets a turn.
DECISIONS_PER_TURN: Final = 16
#: `NoteLengthLimit` of events.k8s.io.
LONGEST_NOTE: Final = 1024

log = logging.getLogger(__name__)


class Scheduler:
    """Places the pods that ask for it by `schedulerName`."""

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        recorder: Recorder | None = None,
        profile: Profile = DEFAULT_PROFILE,
        name: str = DEFAULT_SCHEDULER,
        writes_at_once: int = writes.MOST_AT_ONCE,
    ) -> None:
        self.snapshot = Snapshot()
        self.queue = SchedulingQueue(profile)
        self.decider = Decider(self.snapshot, profile)
        self._api, self._recorder, self._name = api, recorder, name
        self._writes_at_once = writes_at_once
        self._writers: writes.Writers
        self._shapes = Shapes()
        self._wake = asyncio.Event()
        self._pods = informers.of(builtin.PODS, Pod)
        self._nodes = informers.of(builtin.NODES, Node)
        self._nodes.subscribe(self._node_event)
        self._pods.subscribe(self._pod_event)

    async def run(self) -> None:
        """Place pods; returns only by cancellation. Somebody else runs the informers and the recorder."""
        await self._nodes.synced()
        await self._pods.synced()
        async with asyncio.TaskGroup() as group:
            self._writers = writes.Writers(group, self._writes_at_once)
            while True:
                self._wake.clear()
                self.queue.tick(clock.now())
                for _ in range(DECISIONS_PER_TURN):
                    waiting = self.queue.pop()
                    if waiting is None:
                        await self._pause()
                        break
                    self._try(waiting)
                else:
                    await asyncio.sleep(0)

    async def _pause(self) -> None:
        """Wait for a change, or for a back-off to end."""
        now = clock.now()
        until = self.queue.next_tick(now)
        if until is None:
            await self._wake.wait()
            return
        timer = asyncio.get_running_loop().call_later(max(until - now, 0.0), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    # --- one pod ----------------------------------------------------------------------------------------------------

    def _try(self, waiting: Waiting) -> None:
        pod = waiting.pod
        if pod.metadata.is_terminating:
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            self._say(pod, WARNING, "FailedScheduling", f"skip schedule deleting pod: {key}", "Scheduling")
            return
        decision = self.decider.decide(pod, waiting.shape)
        if isinstance(decision, Chosen):
            self.snapshot.assume(waiting.key, pod.metadata.uid, waiting.shape, decision.row)
            self._writers.start(partial(self._bind, waiting, decision.node))
        else:
            self._refuse(waiting, decision)

    def _refuse(self, waiting: Waiting, unfit: Unfit) -> None:
        if unfit.plugins:
            self.queue.refused(waiting, unfit.plugins, clock.now())
        else:
            self.queue.failed(waiting, clock.now())
        self._tell_failure(waiting.pod, UNSCHEDULABLE, unfit.message)

    async def _bind(self, waiting: Waiting, node: str) -> None:
        pod = waiting.pod
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        try:
            await writes.bind(self._api, pod, node)
        except (ApiError, OSError) as error:
            log.info("cannot bind %s to %s: %s", key, node, error)
            self._binding_failed(waiting, error)
        else:
            self._say(pod, NORMAL, "Scheduled", f"Successfully assigned {key} to {node}", "Binding")

    def _binding_failed(self, waiting: Waiting, error: Exception) -> None:
        """Take the decision back and try again later, unless the pod is gone or has a node after all."""
        if self.snapshot.forget(waiting.key, waiting.pod.metadata.uid):
            self._moved(Change(Event.POD_REMOVED, old_shape=waiting.shape))
        current = self._pods.get(waiting.key)
        if current is None or current.metadata.uid != waiting.pod.metadata.uid or current.spec.node_name:
            return
        if self.queue.get(waiting.key) is not None:  # it was deleted meanwhile, and so forgotten before
            return
        waiting.pod, waiting.shape = current, self._shapes.of(current)
        self.queue.failed(waiting, clock.now())
        self._wake.set()
        self._tell_failure(current, SCHEDULER_ERROR, f'running Bind plugin "DefaultBinder": {error}')

    def _tell_failure(self, pod: Pod, reason: str, message: str) -> None:
        note = message if len(message) <= LONGEST_NOTE else f"{message[: LONGEST_NOTE - 4]} ..."
        self._say(pod, WARNING, "FailedScheduling", note, "Scheduling")
        condition = writes.not_scheduled(pod, reason, message)
        if condition is not None:
            self._writers.start(partial(self._set_condition, pod, condition))

    async def _set_condition(self, pod: Pod, condition: Obj) -> None:
        try:
            await writes.set_condition(self._api, pod, condition)
        except NotFound:
            pass
        except (ApiError, OSError) as error:
            log.warning("cannot tell %s that it is unschedulable: %s", pod.metadata.key, error)

    def _say(self, pod: Pod, type_: str, reason: str, message: str, action: str) -> None:
        if self._recorder is not None:
            self._recorder.event(reference(pod, builtin.PODS), type_, reason, message, action=action)

    # --- what the informers tell ------------------------------------------------------------------------------------

    def _node_event(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self.snapshot.remove_node(old.metadata.name)
        elif old is None or not is_same_node(old, new):
            self.snapshot.set_node(new)
        else:
            return
        self._moved(node_changed(old, new))

    def _pod_event(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._pod_event(old, None)
            old = None
        if new is not None and (new.is_finished or not self._is_mine(new)):
            new = None
        if old is not None and (old.is_finished or not self._is_mine(old)):
            old = None
        if new is None:
            if old is not None:
                self._pod_gone(old)
        elif new.spec.node_name:
            self._pod_on_node(old, new)
        else:
            self._pod_waiting(old, new)

    def _is_mine(self, pod: Pod) -> bool:
        """Pods on nodes count whoever put them there; of those that wait, only our own."""
        return bool(pod.spec.node_name) or pod.spec.scheduler_name == self._name

    def _pod_gone(self, pod: Pod) -> None:
        key = pod.metadata.key
        self.queue.remove(key)
        placed = self.snapshot.placed(key)
        if placed is not None and placed.uid == pod.metadata.uid:
            self.snapshot.remove(key)
            self._moved(Change(Event.POD_REMOVED, old_shape=placed.shape))

    def _pod_on_node(self, old: Pod | None, new: Pod) -> None:
        meta = new.metadata
        shape = self._shapes.of(new)
        placed = self.snapshot.placed(meta.key)
        self.snapshot.place(meta.key, meta.uid, shape, new.spec.node_name)
        if old is not None and old.spec.node_name and placed is not None:
            self._moved(placed_pod_changed(old, new, placed.shape, shape))
        else:
            self.queue.remove(meta.key)
            self._moved(Change(Event.POD_PLACED, new_shape=shape))

    def _pod_waiting(self, old: Pod | None, new: Pod) -> None:
        placed = self.snapshot.placed(new.metadata.key)
        if placed is not None:  # assumed: the binding is under way
            if new.metadata.is_terminating and self.snapshot.forget(new.metadata.key, new.metadata.uid):
                self._moved(Change(Event.POD_REMOVED, old_shape=placed.shape))
            return
        shape = self._shapes.of(new)
        known = self.queue.get(new.metadata.key)
        if known is None:
            self.queue.add(new, shape, clock.now())
        else:
            events = own_events(known.pod, new, known.shape, shape)
            self.queue.update(new, shape, events, clock.now())
        self._wake.set()

    def _moved(self, change: Change) -> None:
        self.queue.moved(change, clock.now())
        self._wake.set()
