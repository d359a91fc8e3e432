"""What comes of a decision: the pod is placed, or goes back into the queue, and its status and an event say why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from fairlead.api.scheduling import Pod
from fairlead.runtime import clock
from fairlead.scheduler.binding import Binder, BindingFailure
from fairlead.scheduler.cluster_events import removed
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.diagnosis import Diagnosis, KnownRefusal
from fairlead.scheduler.framework import Handle, Nominate, NoRoom
from fairlead.scheduler.queue import QueuedPod, SchedulingQueue
from fairlead.scheduler.quota_gate import QuotaWaitQueue
from fairlead.scheduler.status_writer import StatusWriter

if TYPE_CHECKING:
    from fairlead.scheduler.extenders import Extenders

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


class AttemptMetrics(Protocol):
    """Counts what the scheduler does; `fairlead.scheduler.metrics` is one."""

    def attempted(self, result: str, profile: str, seconds: float) -> None: ...
    def decided(self, seconds: float) -> None: ...
    def ran(self, point: str, status: str, profile: str, seconds: float) -> None: ...
    def scheduled(self, attempts: int, seconds: float) -> None: ...
    def preempted(self, victims: int) -> None: ...


class Outcomes:
    """Carries decisions out, for whichever cycle made them."""

    def __init__(
        self,
        model: ClusterModel,
        queue: SchedulingQueue,
        status_writer: StatusWriter,
        handle: Handle,
        wake: Callable[[], None],
        *,
        extenders: Extenders | None,
        quota: QuotaWaitQueue | None,
    ) -> None:
        """`wake` lets the scheduling loop look at the queue again."""
        self._model, self._queue, self._status = model, queue, status_writer
        self.wake = wake
        self.binder = Binder(model, status_writer, self.binding_ended, handle, extenders=extenders, quota=quota)
        self.metrics: AttemptMetrics | None = None

    def measure(self, metrics: AttemptMetrics) -> None:
        """Count from now on."""
        self.metrics = metrics
        self.binder.point_observer = metrics.ran

    # --- a node -----------------------------------------------------------------------------------------------------

    def place(self, queued: QueuedPod, chosen: Chosen) -> None:
        """The pod goes to that node."""
        self.binder.assume(queued, chosen)
        self.binder.start(queued, chosen.node)

    def binding_ended(self, queued: QueuedPod, failure: BindingFailure | None) -> None:
        """The pod is bound, or is not."""
        if failure is not None:
            self._take_back_decision(queued, failure)
            return
        self._count("scheduled", queued)
        if self.metrics is not None:
            self.metrics.scheduled(queued.attempts, clock.monotonic() - queued.added_at)

    def _take_back_decision(self, queued: QueuedPod, failure: BindingFailure) -> None:
        """The pod was not bound: try again later, unless it is gone or has a node after all."""
        placed = self._model.snapshot.placed(queued.key)
        if placed is not None and self.binder.forget(queued):
            self._model.on_cluster_event(removed(placed))
        current = self._model.pod(queued.key)
        if current is None or current.metadata.uid != queued.pod.metadata.uid or current.spec.node_name:
            return
        if self._queue.get(queued.key) is not None:  # it was deleted meanwhile, and so forgotten before
            return
        if int(queued.pod.metadata.resource_version) > int(current.metadata.resource_version):
            current = queued.pod  # we wrote it, and were not told so yet
        queued.pod, queued.request = current, self._model.request(current)
        if failure.rejected_by:
            self._rejected(queued, failure)
        else:
            self.failed(queued, current, failure.message)

    def _rejected(self, queued: QueuedPod, failure: BindingFailure) -> None:
        """A plugin found that the node will not do after all: the pod waits for what may help with that plugin."""
        found = Diagnosis(1, Counter({failure.message: 1}), plugins=frozenset({failure.rejected_by}))
        self.put_back(queued, found.plugins)
        self.wake()
        self._nominate(queued, "")
        self.report_refusal(queued, found.text(""), "")

    # --- no node ----------------------------------------------------------------------------------------------------

    def failed(self, queued: QueuedPod, pod: Pod, why: str) -> None:
        """Nobody refused the pod, but something is broken: it is tried again after its back-off."""
        if self._queue.get(queued.key) in (None, queued):
            self._queue.failed(queued, clock.monotonic())
        self.wake()
        self._count("error", queued)
        self._nominate(queued, "")
        self._status.failed(pod, SCHEDULER_ERROR, why, "")

    def refused(self, queued: QueuedPod, found: Diagnosis, outcome: Nominate | NoRoom) -> None:
        """No node will do. Nominate the pod where room can be made, or say that there is none."""
        if isinstance(outcome, NoRoom):
            self.no_room(queued, KnownRefusal.of(found, outcome))
            return
        self._tried_preemption(len(outcome.victims))
        self._make_room(queued, outcome)
        self.put_back(queued, found.plugins)
        self.report_refusal(queued, found.text(""), outcome.node)

    def no_room(self, queued: QueuedPod, refusal: KnownRefusal) -> None:
        """No node will do, and nobody can make room."""
        self._tried_preemption(0)
        if (claim := refusal.outcome.gives_up) is not None:
            self._status.writers.start(partial(self._status.give_up, claim))
        nominated = None
        if refusal.outcome.clears_nomination:
            self._nominate(queued, nominated := "")
        self.put_back(queued, frozenset() if refusal.outcome.is_unfinished else refusal.found.plugins)
        if refusal.outcome.is_overtaken:
            self._queue.activate(queued.key, clock.monotonic())
        self.report_refusal(queued, refusal.message, nominated)

    def _tried_preemption(self, victims: int) -> None:
        if self.metrics is not None:
            self.metrics.preempted(victims)

    def put_back(self, queued: QueuedPod, plugins: frozenset[str]) -> None:
        """The pod waits for what may help with these plugins; for its back-off alone, if none of them refused it."""
        if plugins:
            self._queue.refused(queued, plugins, clock.monotonic())
        else:
            self._queue.failed(queued, clock.monotonic())

    def report_refusal(self, queued: QueuedPod, message: str, nominated: str | None = None) -> None:
        self._count("unschedulable", queued)
        self._status.failed(queued.pod, UNSCHEDULABLE, message, nominated)

    def outright(self, why: str, plugins: frozenset[str] = frozenset()) -> Diagnosis:
        """A refusal for which no node was looked at."""
        return Diagnosis(self._model.snapshot.count, plugins=plugins, outright=why)

    def decided(self, seconds: float) -> None:
        """It took so long to decide about a pod."""
        if self.metrics is not None:
            self.metrics.decided(seconds)

    def _count(self, result: str, queued: QueuedPod) -> None:
        if self.metrics is not None:
            self.metrics.attempted(result, queued.profile.name, clock.monotonic() - queued.attempted_at)

    # --- preemption -------------------------------------------------------------------------------------------------

    def _make_room(self, queued: QueuedPod, chosen: Nominate) -> None:
        """Nominate the pod and evict the victims beside; those that are terminating already are left alone."""
        victims = [victim.pod for victim in chosen.victims if not victim.pod.metadata.is_terminating]
        if victims:
            for nominated in list(self._model.nominations.on(chosen.node)):
                if nominated.pod.priority < queued.pod.priority:
                    self._take_back_nomination(nominated.pod)
        self._nominate(queued, chosen.node)
        if victims:
            queued.is_preempting = True
            self._status.writers.start(partial(self._preempt, queued, victims, chosen.node))

    async def _preempt(self, queued: QueuedPod, victims: list[Pod], node: str) -> None:
        try:
            if not await self._status.evict(queued.pod, victims, node):
                queued.was_activated = True
        finally:
            self._queue.preempted(queued, clock.monotonic())
            self.wake()

    def _nominate(self, queued: QueuedPod, node: str) -> None:
        request = queued.request
        self._model.nominations.set(queued.pod, request.requirements, request.relations, node)
        if request.nominated != node:
            queued.request = replace(request, nominated=node)

    def _take_back_nomination(self, pod: Pod) -> None:
        """A more important pod takes the node: the pod that was nominated to it looks for another."""
        self._model.nominations.drop(pod.metadata.uid)
        self._status.clear_nomination(pod)
        queued = self._queue.get(pod.metadata.key)
        if queued is not None:
            queued.request = replace(queued.request, nominated="")
            self._queue.activate(queued.key, clock.monotonic())
