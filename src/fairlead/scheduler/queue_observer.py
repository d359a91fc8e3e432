"""Brings what the model observes into the scheduling queue."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api.scheduling import Pod
from fairlead.runtime import clock
from fairlead.scheduler.cluster_events import own_events
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.framework import ClusterEvent
from fairlead.scheduler.queue import SchedulingQueue


class QueueObserver:
    """Adds, updates and wakes the pods of a queue."""

    def __init__(self, model: ClusterModel, queue: SchedulingQueue, wake: Callable[[], None]) -> None:
        """`wake` is called when something has happened and there is a pod to decide about."""
        self._model, self._queue, self._wake = model, queue, wake

    def pod_waits(self, old: Pod | None, pod: Pod) -> None:
        queued, request = self._queue.get(pod.metadata.key), self._model.request(pod)
        if queued is None:
            profile = self._model.profiles[pod.spec.scheduler_name].profile
            self._queue.add(pod, request, profile, clock.monotonic())
        else:
            events = own_events(queued.pod, pod, queued.request.requirements, request.requirements)
            self._queue.update(pod, request, events, clock.monotonic())
        self._wake_if_due()

    def pod_left(self, pod: Pod) -> None:
        self._queue.remove(pod.metadata.key)

    def on_cluster_event(self, event: ClusterEvent, most_important: int | None = None) -> None:
        self._queue.on_cluster_event(event, clock.monotonic(), most_important)
        self._wake_if_due()

    def _wake_if_due(self) -> None:
        """Most changes help nobody: waking the scheduler for each would cost as much as its decisions."""
        if self._queue.has_next:
            self._wake()
