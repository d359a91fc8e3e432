"""The scheduling loop: it takes pod after pod from the queue and has its cycles decide about it.

Decisions follow one another without a pause for I/O: a pod that has got a node is assumed to be there, and the binding
is written beside (`binding.py`). Time is the event loop's, so a simulation runs the same code.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from fairlead.api.verbs import Api
from fairlead.client.events import Recorder
from fairlead.runtime import clock
from fairlead.runtime.clock import running_loop, stopwatch
from fairlead.runtime.turns import Turn
from fairlead.runtime.watchdog import working_on
from fairlead.scheduler import writes
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.cycles.base import SchedulingCycle
from fairlead.scheduler.cycles.gang import GangCycle
from fairlead.scheduler.cycles.pod import PodCycle, ScoreObserver
from fairlead.scheduler.cycles.quota import QuotaCycle
from fairlead.scheduler.device_metrics import DeviceMetrics
from fairlead.scheduler.framework import ANY_EVENT, NO_EVENT, CannotDecide, Handle
from fairlead.scheduler.outcomes import AttemptMetrics, Outcomes
from fairlead.scheduler.queue import QueuedPod, SchedulingQueue
from fairlead.scheduler.queue_observer import QueueObserver
from fairlead.scheduler.quota_gate import QuotaGate, QuotaWaitQueue
from fairlead.scheduler.status_writer import StatusWriter

if TYPE_CHECKING:
    from fairlead.scheduler.extenders import Extenders

#: Decisions after which everybody else gets a turn; or sooner, if they take long: a pod may have thousands of terms.
DECISIONS_PER_TURN: Final = 16

log = logging.getLogger(__name__)


class Scheduler:
    """Places the pods that ask for one of its profiles by `schedulerName`."""

    def __init__(
        self,
        api: Api,
        model: ClusterModel,
        *,
        recorder: Recorder | None = None,
        writes_at_once: int = writes.MOST_AT_ONCE,
        quota_gate: QuotaGate | None = None,
    ) -> None:
        self.model, self.queue = model, _queue_for(model)
        self._wake = asyncio.Event()
        self._status = StatusWriter(api, recorder)
        self.device_metrics = DeviceMetrics()
        self._writes_at_once = writes_at_once
        self._extenders = _extenders_of(model, api)
        waiting = QuotaWaitQueue(self.queue, quota_gate) if quota_gate is not None else None
        self._outcomes = Outcomes(
            model,
            self.queue,
            self._status,
            Handle(api, model.snapshot, model.pod, recorder, self.device_metrics),
            self._wake.set,
            extenders=self._extenders,
            quota=waiting,
        )
        model.observe(QueueObserver(model, self.queue, self._wake.set))
        self._pod_cycle = PodCycle(model, self.queue, self._outcomes)
        quota: QuotaCycle | None = None
        if quota_gate is not None and waiting is not None:
            quota = QuotaCycle(quota_gate, waiting, self.queue, self._outcomes)
        self._cycles = self._cycles_with(quota)

    def _cycles_with(self, quota: QuotaCycle | None) -> tuple[SchedulingCycle, ...]:
        """Those that the configuration has a use for, in the order in which they are asked."""
        cycles: list[SchedulingCycle] = []
        if self.model.gangs is not None:
            cycles.append(GangCycle(self.model, self.model.gangs, self.queue, self._outcomes, quota))
        if quota is not None:
            cycles.append(quota)
        if self._extenders is not None:
            from fairlead.scheduler.cycles.extenders import ExtenderCycle  # only here, as above

            cycles.append(ExtenderCycle(self.model, self.queue, self._outcomes, self._extenders))
        return (*cycles, self._pod_cycle)

    def measure(self, metrics: AttemptMetrics) -> None:
        """Count every attempt from now on."""
        self._outcomes.measure(metrics)

    def observe_scores(self, observer: ScoreObserver) -> None:
        """Tell how every choice came about."""
        self._pod_cycle.score_observer = observer

    async def run(self) -> None:
        """Place pods; returns only by cancellation. Somebody else runs the informers and the recorder."""
        try:
            await self._run()
        finally:
            if self._extenders is not None:
                await self._extenders.close()

    async def _run(self) -> None:
        await self.model.synced()
        async with asyncio.TaskGroup() as group:
            self._status.writers = writes.Writers(group, self._writes_at_once)
            while True:
                self._wake.clear()
                self.queue.tick(clock.monotonic())
                if await self._take_turn():
                    await asyncio.sleep(0)
                else:
                    await self._pause()

    async def _take_turn(self) -> bool:
        """Decide about some pods; False if there are no more."""
        turn = Turn()
        for _ in range(DECISIONS_PER_TURN):
            queued = self.queue.pop()
            if queued is None:
                return False
            await self._try(queued)
            if turn.is_over:
                break
        return True

    async def _pause(self) -> None:
        """Wait for a change, or for a back-off to end."""
        now = clock.monotonic()
        until = self.queue.next_tick(now)
        if until is None:
            await self._wake.wait()
            return
        timer = running_loop().call_later(max(until - now, 0.0), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _try(self, queued: QueuedPod) -> None:
        """Have the first cycle that takes the pod decide. What a plugin breaks is that pod's trouble alone."""
        queued.attempted_at = clock.monotonic()
        working_on("scheduler", queued.key)
        if queued.pod.metadata.is_terminating:
            self._status.skipped(queued.pod)
            return
        began = stopwatch()
        try:
            for cycle in self._cycles:
                if await cycle.attempt(queued):
                    self._outcomes.decided(stopwatch() - began)
                    return
        except CannotDecide as error:
            self._outcomes.failed(queued, queued.pod, str(error))
        except Exception as error:
            log.exception("deciding about %s failed", queued.key)
            self._outcomes.failed(queued, queued.pod, f"{type(error).__name__}: {error}")


def _queue_for(model: ClusterModel) -> SchedulingQueue:
    """A queue for the events that matter to the plugins; with extenders any event may matter."""
    settings, events = model.configuration.settings, NO_EVENT
    for runtime in model.profiles.values():
        events |= ANY_EVENT if settings.extenders else runtime.profile.events
    return SchedulingQueue(
        model.snapshot,
        events,
        first_backoff=settings.pod_initial_backoff_seconds,
        longest_backoff=settings.pod_max_backoff_seconds,
    )


def _extenders_of(model: ClusterModel, api: Api) -> Extenders | None:
    configs = model.configuration.settings.extenders
    if not configs:
        return None
    from fairlead.scheduler.extenders import Extenders  # only here: its HTTP client is slow to import

    return Extenders(configs, api)
