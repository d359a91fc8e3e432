"""The scheduling loop: it takes pod after pod from the queue and decides about it.

Decisions follow one another without a pause for I/O: a pod that has got a node is assumed to be there, and the binding
is written beside (`binding.py`). Time is the event loop's, so a simulation runs the same code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from fairlead.api.errors import ApiError
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.client.events import Recorder
from fairlead.runtime import clock
from fairlead.runtime.watchdog import working_on
from fairlead.scheduler import writes
from fairlead.scheduler.binding import Binder
from fairlead.scheduler.cluster_events import removed
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.columns import Rows
from fairlead.scheduler.decide import Chosen
from fairlead.scheduler.diagnosis import Diagnosis
from fairlead.scheduler.framework import ANY_EVENT, NO_EVENT, ExtenderFailure
from fairlead.scheduler.gangs import Coscheduling, Gang
from fairlead.scheduler.preemption import Futile, Preempt, Preemptor
from fairlead.scheduler.queue import QueuedPod, SchedulingQueue
from fairlead.scheduler.queue_observer import QueueObserver
from fairlead.scheduler.quota_gate import ALLOCATION, QuotaGate, QuotaWaitQueue
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.status_writer import StatusWriter
from fairlead.scheduler.volumebinding import VolumeBinder

if TYPE_CHECKING:
    from fairlead.scheduler.extenders import Extenders

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

#: Decisions after which everybody else gets a turn.
DECISIONS_PER_TURN: Final = 16

#: Told of every pod (`namespace/name`) that gets a node: node → plugin → weighted score.
ScoreObserver = Callable[[str, dict[str, dict[str, int]]], None]

log = logging.getLogger(__name__)


class Watch(Protocol):
    """Counts what the scheduler does; `fairlead.scheduler.metrics` is one."""

    def attempted(self, result: str, profile: str, seconds: float) -> None: ...
    def scheduled(self, attempts: int, seconds: float) -> None: ...
    def preempted(self, victims: int) -> None: ...


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
        settings = model.configuration.settings
        self.model = model
        self._snapshot = model.snapshot
        events = NO_EVENT
        for runtime in model.profiles.values():
            events |= ANY_EVENT if settings.extenders else runtime.profile.events
        self.queue = SchedulingQueue(
            events,
            first_backoff=settings.pod_initial_backoff_seconds,
            longest_backoff=settings.pod_max_backoff_seconds,
        )
        self._status = StatusWriter(api, recorder)
        self._writes_at_once = writes_at_once
        self._observer: ScoreObserver | None = None
        self._watch: Watch | None = None
        self._extenders: Extenders | None = None
        if settings.extenders:
            from fairlead.scheduler.extenders import Extenders  # only here: its HTTP client is slow to import

            self._extenders = Extenders(settings.extenders, api)
        self._wake = asyncio.Event()
        self._quota_gate = quota_gate
        self._waiting_for_quota: QuotaWaitQueue | None = None
        if quota_gate is not None:
            self._waiting_for_quota = QuotaWaitQueue(self.queue, quota_gate)
            quota_gate.subscribe(self._more_is_granted)
        self._binder = Binder(
            model,
            self._status,
            self._binding_ended,
            VolumeBinder(api, model.snapshot, model.pod),
            extenders=self._extenders,
            quota_gate=quota_gate,
            waiting_for_quota=self._waiting_for_quota,
        )
        model.observe(QueueObserver(model, self.queue, self._wake.set))
        if model.gangs is not None:
            model.gangs.subscribe(self._wake_gang)

    def measure(self, watch: Watch) -> None:
        """Tell of every attempt from now on."""
        self._watch = watch

    def observe_scores(self, observer: ScoreObserver) -> None:
        """Tell how every choice came about; it costs a little at each."""
        self._observer = observer

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
                for _ in range(DECISIONS_PER_TURN):
                    queued = self.queue.pop()
                    if queued is None:
                        await self._pause()
                        break
                    await self._try(queued)
                else:
                    await asyncio.sleep(0)

    async def _pause(self) -> None:
        """Wait for a change, or for a back-off to end."""
        now = clock.monotonic()
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

    async def _try(self, queued: QueuedPod) -> None:
        """Decide about one pod, or about the gang that it is in. What a plugin breaks is that pod's trouble alone."""
        queued.attempted_at = clock.monotonic()
        working_on("scheduler", queued.key)
        if queued.pod.metadata.is_terminating:
            self._status.skipped(queued.pod)
            return
        gang = self.model.gang_of(queued.pod)
        try:
            if gang is not None:
                self._try_together(queued, gang)
            elif why := self._not_granted(queued):
                self._hold([queued], why)
            elif self._extenders is not None and self._extenders.interested(queued.pod):
                await self._try_with_extenders(queued, self._extenders)
            else:
                self._try_alone(queued)
        except Exception as error:
            log.exception("deciding about %s failed", queued.key)
            self._went_wrong(queued, queued.pod, f"{type(error).__name__}: {error}")

    def _went_wrong(self, queued: QueuedPod, pod: Pod, why: str) -> None:
        """Nobody refused the pod, but something is broken: it is tried again after its back-off."""
        if self.queue.get(queued.key) in (None, queued):
            self.queue.failed(queued, clock.monotonic())
        self._wake.set()
        self._attempted("error", queued)
        self._nominate(queued, "")
        self._status.failed(pod, SCHEDULER_ERROR, why, "")

    def _attempted(self, result: str, queued: QueuedPod) -> None:
        if self._watch is not None:
            self._watch.attempted(result, queued.profile.name, clock.monotonic() - queued.attempted_at)

    def _try_alone(self, queued: QueuedPod) -> None:
        pod, request, runtime = queued.pod, queued.request, self.model.profiles[queued.profile.name]
        decision = runtime.decider.decide(request)
        if isinstance(decision, Chosen):
            if self._observer is not None:
                self._observer(queued.key, runtime.decider.scores(request))
            self._binder.assume(queued, decision)
            self._binder.start(queued, decision.node)
        else:
            self._refused(queued, decision.found, runtime.preemptor.make_room(pod, request, decision.found))

    def _refused(self, queued: QueuedPod, found: Diagnosis, outcome: Preempt | Futile) -> None:
        """Nominate the pod where room can be made, or say that there is none."""
        pod, now = queued.pod, clock.monotonic()
        message, nominated = found.text(""), None
        if self._watch is not None:
            self._watch.preempted(len(outcome.victims) if isinstance(outcome, Preempt) else 0)
        if isinstance(outcome, Preempt):
            self._make_room(queued, outcome)
            nominated = outcome.node
        else:
            message = found.text(outcome.advice)
            if outcome.is_tried:
                self._nominate(queued, nominated := "")
        if found.plugins:
            self.queue.refused(queued, found.plugins, now)
        else:
            self.queue.failed(queued, now)
        self._attempted("unschedulable", queued)
        self._status.failed(pod, UNSCHEDULABLE, message, nominated)

    def _binding_ended(self, queued: QueuedPod, why: str) -> None:
        if why:
            self._take_back_decision(queued, why)
            return
        self._attempted("scheduled", queued)
        if self._watch is not None:
            self._watch.scheduled(queued.attempts, clock.monotonic() - queued.added_at)

    def _take_back_decision(self, queued: QueuedPod, why: str) -> None:
        """The pod was not bound: try again later, unless it is gone or has a node after all."""
        placed = self._snapshot.placed(queued.key)
        if placed is not None and self._binder.forget(queued):
            self.model.on_cluster_event(removed(placed))
        current = self.model.pod(queued.key)
        if current is None or current.metadata.uid != queued.pod.metadata.uid or current.spec.node_name:
            return
        if self.queue.get(queued.key) is not None:  # it was deleted meanwhile, and so forgotten before
            return
        queued.pod, queued.request = current, self.model.request(current)
        self._went_wrong(queued, current, why)

    # --- shares -----------------------------------------------------------------------------------------------------

    def _not_granted(self, queued: QueuedPod) -> str:
        """Why its namespace may not start the pod now; empty if it may."""
        return self._quota_gate.refusal(queued.pod) if self._quota_gate is not None else ""

    def _hold(self, together: list[QueuedPod], why: str) -> None:
        """Let them wait until more is granted to their namespace."""
        for one in together:
            self.queue.refused(one, frozenset({ALLOCATION}), clock.monotonic(), backs_off=False)
            if self._waiting_for_quota is not None:
                self._waiting_for_quota.add(one)
            self._attempted("unschedulable", one)
            self._status.failed(one.pod, UNSCHEDULABLE, Diagnosis(self._snapshot.count, outright=why).text(""))

    def _more_is_granted(self) -> None:
        if self._waiting_for_quota is not None:
            self._waiting_for_quota.wake_first(clock.monotonic())
        self._wake.set()

    # --- gangs ------------------------------------------------------------------------------------------------------

    def _try_together(self, first: QueuedPod, gang: Gang) -> None:
        """Decide for all of a group that wait; too few, and nothing has happened."""
        others = (self.queue.take(key) for key in list(gang.waiting) if key != first.key)
        together = [first, *(one for one in others if one is not None)]
        started = self.model.started_of(gang)
        needed = gang.needed(started)
        if missing := gang.missing(started + len(together)):
            self._refuse_together(together, missing, frozenset({Coscheduling.name}))
            return
        chosen: list[tuple[QueuedPod, str]] = []
        refused: list[tuple[QueuedPod, Diagnosis]] = []
        for one in together:
            if why := self._not_granted(one):
                refused.append((one, Diagnosis(self._snapshot.count, plugins=frozenset({ALLOCATION}), outright=why)))
                continue
            decision = self.model.profiles[one.profile.name].decider.decide(one.request)
            if isinstance(decision, Chosen):
                self._binder.assume(one, decision)
                chosen.append((one, decision.node))
            else:
                refused.append((one, decision.found))
        if len(chosen) >= needed:
            for one, node in chosen:
                self._binder.start(one, node)
            for one, found in refused:
                if found.plugins == {ALLOCATION}:
                    self._hold([one], found.outright)
                else:
                    self._refused(one, found, Futile(""))
            return
        for one, _ in chosen:
            self._binder.forget(one)
        found = refused[0][1]
        if found.plugins == {ALLOCATION}:
            self._hold(together, found.outright)
            return
        why = f"only {len(chosen)} of the {needed} pods that PodGroup {gang.key} needs would fit: {found.text('')}"
        self._refuse_together(together, why, found.plugins)

    def _refuse_together(self, together: list[QueuedPod], why: str, plugins: frozenset[str]) -> None:
        for one in together:
            if plugins:
                self.queue.refused(one, plugins, clock.monotonic())
            else:
                self.queue.failed(one, clock.monotonic())
            self._attempted("unschedulable", one)
            self._status.failed(one.pod, UNSCHEDULABLE, why)

    def _wake_gang(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.queue.activate(key, clock.monotonic())
        self._wake.set()

    # --- extenders --------------------------------------------------------------------------------------------------

    async def _try_with_extenders(self, queued: QueuedPod, extenders: Extenders) -> None:
        """The same, asking others; meanwhile nothing else is decided, as upstream has it."""
        pod, request, runtime = queued.pod, queued.request, self.model.profiles[queued.profile.name]
        self.queue.track_in_flight(queued)
        try:
            names = self._names(runtime.decider.feasible(request))
            chosen = None
            if request.nominated in names:  # the nominated node is tried first, and alone
                nominated = await extenders.filter(pod, [request.nominated])
                chosen = runtime.decider.choose_among(request, nominated.names, {})
            if chosen is None:
                left = await extenders.filter(pod, names)
                scores = await extenders.prioritise(pod, left.names) if len(left.names) > 1 else {}
                chosen = runtime.decider.choose_among(request, left.names, scores)
            if chosen is None:
                found = runtime.decider.diagnose(request)
                if len(left.names) != len(names):
                    found.add_failed(self._snapshot, left.failed, left.unresolvable)
                outcome = await self._make_room_with_extenders(pod, request, runtime.preemptor, found, extenders)
                if self.queue.get(queued.key) is queued:
                    self._refused(queued, found, outcome)
                return
        except (OSError, ApiError, ExtenderFailure) as error:
            if self.queue.get(queued.key) is queued:
                self._went_wrong(queued, queued.pod, str(error))
            return
        if self.queue.get(queued.key) is queued:  # else it is gone, or somebody else has bound it
            self.queue.remove(queued.key)
            self._binder.assume(queued, chosen)
            self._binder.start(queued, chosen.node)

    async def _make_room_with_extenders(
        self, pod: Pod, request: SchedulingRequest, preemptor: Preemptor, found: Diagnosis, extenders: Extenders
    ) -> Preempt | Futile:
        plans = preemptor.candidates(pod, request, found)
        if isinstance(plans, Futile):
            return plans
        try:
            return preemptor.choose(await extenders.preempt(pod, plans))
        except ExtenderFailure as error:
            return Futile(f"preemption: {error}")

    def _names(self, rows: Rows) -> list[str]:
        return [self._snapshot.names[row] for row in rows.tolist()]

    # --- preemption -------------------------------------------------------------------------------------------------

    def _make_room(self, queued: QueuedPod, chosen: Preempt) -> None:
        """Nominate the pod and evict the victims beside; those that are terminating already are left alone."""
        victims = [one.pod for one in chosen.victims if not one.pod.metadata.is_terminating]
        if victims:
            for nominated in list(self.model.nominations.on(chosen.node)):
                if nominated.pod.priority < queued.pod.priority:
                    self._take_back(nominated.pod)
        self._nominate(queued, chosen.node)
        if victims:
            queued.is_preempting = True
            self._status.writers.start(partial(self._preempt, queued, victims, chosen.node))

    async def _preempt(self, queued: QueuedPod, victims: list[Pod], node: str) -> None:
        try:
            if not await self._status.evict(queued.pod, victims, node):
                queued.was_activated = True
        finally:
            self.queue.preempted(queued, clock.monotonic())
            self._wake.set()

    def _nominate(self, queued: QueuedPod, node: str) -> None:
        request = queued.request
        self.model.nominations.set(queued.pod, request.requirements, request.relations, node)
        queued.request = SchedulingRequest(request.requirements, request.relations, request.priority, request.uid, node)

    def _take_back(self, pod: Pod) -> None:
        """A more important pod takes the node: whoever waited for it looks for another."""
        self.model.nominations.drop(pod.metadata.uid)
        self._status.clear_nomination(pod)
        queued = self.queue.get(pod.metadata.key)
        if queued is not None:
            queued.request = self.model.request(pod)
            self.queue.activate(queued.key, clock.monotonic())
