"""The scheduler at work: it listens to the informers, decides pod after pod, and lets others write.

Decisions follow one another without a pause for I/O: a pod that has got a node is assumed to be there, and the binding
is written beside (`binding.py`). Time is the event loop's, so a simulation runs the same code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from fairlead.api.errors import ApiError
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import Api
from fairlead.client.events import Recorder
from fairlead.client.informer import Informers
from fairlead.runtime import clock
from fairlead.runtime.watchdog import working_on
from fairlead.scheduler import configuration as configurations
from fairlead.scheduler import writes
from fairlead.scheduler.binding import Binder
from fairlead.scheduler.columns import Rows
from fairlead.scheduler.company import Task
from fairlead.scheduler.decide import Chosen, Decider
from fairlead.scheduler.diagnosis import Diagnosis
from fairlead.scheduler.framework import ANY_EVENT, NO_EVENT, ExtenderFailure, Profile
from fairlead.scheduler.gangs import POD_GROUPS, Coscheduling, Gang, Gangs, PodGroup
from fairlead.scheduler.holding import ALLOCATION, Gatekeeper, HeldBack
from fairlead.scheduler.listening import Listener, removed
from fairlead.scheduler.nominations import Nominations
from fairlead.scheduler.preemption import Futile, Preempt, Preemptor
from fairlead.scheduler.queue import SchedulingQueue, Waiting
from fairlead.scheduler.snapshot import Snapshot
from fairlead.scheduler.surroundings import Surroundings
from fairlead.scheduler.telling import Teller
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


@dataclass(frozen=True, slots=True)
class Judge:
    """What decides for the pods of one profile."""

    profile: Profile
    decider: Decider
    preemptor: Preemptor


class Scheduler:
    """Places the pods that ask for one of its profiles by `schedulerName`."""

    def __init__(
        self,
        api: Api,
        informers: Informers,
        *,
        recorder: Recorder | None = None,
        configuration: configurations.Configuration | None = None,
        writes_at_once: int = writes.MOST_AT_ONCE,
        gatekeeper: Gatekeeper | None = None,
    ) -> None:
        config = configuration or configurations.load()
        self.snapshot = Snapshot()
        self.nominations = Nominations(self.snapshot)
        self.judges = {profile.name: self._judge(profile) for profile in config.profiles}
        events = NO_EVENT
        for profile in config.profiles:
            events |= ANY_EVENT if config.said.extenders else profile.events
        self.queue = SchedulingQueue(
            events,
            first_backoff=config.said.pod_initial_backoff_seconds,
            longest_backoff=config.said.pod_max_backoff_seconds,
        )
        self._teller = Teller(api, recorder)
        self._writes_at_once = writes_at_once
        self._observer: ScoreObserver | None = None
        self._watch: Watch | None = None
        self._extenders: Extenders | None = None
        if config.said.extenders:
            from fairlead.scheduler.extenders import Extenders  # only here: its HTTP client is slow to import

            self._extenders = Extenders(config.said.extenders, api)
        self._wake = asyncio.Event()
        self._keeper = gatekeeper
        self._held: HeldBack | None = None
        if gatekeeper is not None:
            self._held = HeldBack(self.queue, gatekeeper)
            gatekeeper.subscribe(self._more_is_granted)
        self._gangs: Gangs | None = None
        if any(isinstance(plugin, Coscheduling) for profile in config.profiles for plugin in profile.all):
            self._gangs = Gangs(self._wake_gang)
            informers.of(POD_GROUPS, PodGroup).subscribe(self._gangs.group_event)
        self._binder = Binder(
            self.snapshot,
            self.nominations,
            self._teller,
            self._binding_ended,
            VolumeBinder(api, self.snapshot, self.pod),
            extenders=self._extenders,
            keeper=gatekeeper,
            held=self._held,
        )
        preemptors = [judge.preemptor for judge in self.judges.values()]
        profiles = {profile.name: profile for profile in config.profiles}
        self._listener = Listener(
            informers, self.snapshot, self.nominations, self.queue, profiles, self._gangs, self._wake.set
        )
        self._surroundings = Surroundings(informers, self.snapshot, preemptors, self._listener.moved)

    def _judge(self, profile: Profile) -> Judge:
        decider = Decider(self.snapshot, profile, self.nominations)
        return Judge(profile, decider, Preemptor(decider))

    def measure(self, watch: Watch) -> None:
        """Tell of every attempt from now on."""
        self._watch = watch

    def pod(self, key: str) -> Pod | None:
        """The pod of that `namespace/name`, wherever it is."""
        return self._listener.pod(key)

    def task(self, pod: Pod) -> Task:
        """What a decision about the pod is about."""
        return self._listener.task(pod)

    def gang_of(self, pod: Pod) -> Gang | None:
        """The group that the pod starts with, if its profile minds."""
        profile = self.judges[pod.spec.scheduler_name].profile
        has_gangs = self._gangs is not None and any(isinstance(one, Coscheduling) for one in profile.all)
        return self._gangs.of(pod) if self._gangs is not None and has_gangs else None

    def started_of(self, gang: Gang) -> int:
        """How many of the group have a node, whether the server says so yet or not."""
        return len(gang.placed) + sum(self.snapshot.placed(key) is not None for key in gang.waiting)

    @property
    def has_extenders(self) -> bool:
        return self._extenders is not None

    async def synced(self) -> None:
        """Return once everything that decides has been heard of."""
        await self._surroundings.synced()
        await self._listener.synced()

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
        await self.synced()
        async with asyncio.TaskGroup() as group:
            self._teller.writers = writes.Writers(group, self._writes_at_once)
            while True:
                self._wake.clear()
                self.queue.tick(clock.monotonic())
                for _ in range(DECISIONS_PER_TURN):
                    waiting = self.queue.pop()
                    if waiting is None:
                        await self._pause()
                        break
                    await self._try(waiting)
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

    async def _try(self, waiting: Waiting) -> None:
        """Decide about one pod, or about the gang that it is in. What a plugin breaks is that pod's trouble alone."""
        waiting.tried_at = clock.monotonic()
        working_on("scheduler", waiting.key)
        if waiting.pod.metadata.is_terminating:
            self._teller.skipped(waiting.pod)
            return
        gang = self.gang_of(waiting.pod)
        try:
            if gang is not None:
                self._try_together(waiting, gang)
            elif why := self._not_granted(waiting):
                self._hold([waiting], why)
            elif self._extenders is not None and self._extenders.interested(waiting.pod):
                await self._try_with_extenders(waiting, self._extenders)
            else:
                self._try_alone(waiting)
        except Exception as error:
            log.exception("deciding about %s failed", waiting.key)
            self._went_wrong(waiting, waiting.pod, f"{type(error).__name__}: {error}")

    def _went_wrong(self, waiting: Waiting, pod: Pod, why: str) -> None:
        """Nobody refused the pod, but something is broken: it is tried again after its back-off."""
        if self.queue.get(waiting.key) in (None, waiting):
            self.queue.failed(waiting, clock.monotonic())
        self._wake.set()
        self._attempted("error", waiting)
        self._nominate(waiting, "")
        self._teller.failed(pod, SCHEDULER_ERROR, why, "")

    def _attempted(self, result: str, waiting: Waiting) -> None:
        if self._watch is not None:
            self._watch.attempted(result, waiting.profile.name, clock.monotonic() - waiting.tried_at)

    def _try_alone(self, waiting: Waiting) -> None:
        pod, task, judge = waiting.pod, waiting.task, self.judges[waiting.profile.name]
        decision = judge.decider.decide(task)
        if isinstance(decision, Chosen):
            if self._observer is not None:
                self._observer(waiting.key, judge.decider.scores(task))
            self._binder.assume(waiting, decision)
            self._binder.start(waiting, decision.node)
        else:
            self._refused(waiting, decision.found, judge.preemptor.make_room(pod, task, decision.found))

    def _refused(self, waiting: Waiting, found: Diagnosis, outcome: Preempt | Futile) -> None:
        """Promise the room that was found, or say that there is none."""
        pod, now = waiting.pod, clock.monotonic()
        message, nominated = found.text(""), None
        if self._watch is not None:
            self._watch.preempted(len(outcome.victims) if isinstance(outcome, Preempt) else 0)
        if isinstance(outcome, Preempt):
            self._make_room(waiting, outcome)
            nominated = outcome.node
        else:
            message = found.text(outcome.advice)
            if outcome.is_tried:
                self._nominate(waiting, nominated := "")
        if found.plugins:
            self.queue.refused(waiting, found.plugins, now)
        else:
            self.queue.failed(waiting, now)
        self._attempted("unschedulable", waiting)
        self._teller.failed(pod, UNSCHEDULABLE, message, nominated)

    def _binding_ended(self, waiting: Waiting, why: str) -> None:
        if why:
            self._take_back_decision(waiting, why)
            return
        self._attempted("scheduled", waiting)
        if self._watch is not None:
            self._watch.scheduled(waiting.attempts, clock.monotonic() - waiting.came_at)

    def _take_back_decision(self, waiting: Waiting, why: str) -> None:
        """The pod was not bound: try again later, unless it is gone or has a node after all."""
        placed = self.snapshot.placed(waiting.key)
        if placed is not None and self._binder.forget(waiting):
            self._listener.moved(removed(placed))
        current = self._listener.pod(waiting.key)
        if current is None or current.metadata.uid != waiting.pod.metadata.uid or current.spec.node_name:
            return
        if self.queue.get(waiting.key) is not None:  # it was deleted meanwhile, and so forgotten before
            return
        waiting.pod, waiting.task = current, self._listener.task(current)
        self._went_wrong(waiting, current, why)

    # --- shares -----------------------------------------------------------------------------------------------------

    def _not_granted(self, waiting: Waiting) -> str:
        """Why its namespace may not start the pod now; empty if it may."""
        return self._keeper.refusal(waiting.pod) if self._keeper is not None else ""

    def _hold(self, together: list[Waiting], why: str) -> None:
        """Let them wait until more is granted to their namespace."""
        for one in together:
            self.queue.refused(one, frozenset({ALLOCATION}), clock.monotonic(), backs_off=False)
            if self._held is not None:
                self._held.add(one)
            self._attempted("unschedulable", one)
            self._teller.failed(one.pod, UNSCHEDULABLE, Diagnosis(self.snapshot.count, outright=why).text(""))

    def _more_is_granted(self) -> None:
        if self._held is not None:
            self._held.wake_first(clock.monotonic())
        self._wake.set()

    # --- gangs ------------------------------------------------------------------------------------------------------

    def _try_together(self, first: Waiting, gang: Gang) -> None:
        """Decide for all of a group that wait; too few, and nothing has happened."""
        others = (self.queue.take(key) for key in list(gang.waiting) if key != first.key)
        together = [first, *(one for one in others if one is not None)]
        started = self.started_of(gang)
        needed = gang.needed(started)
        if missing := gang.missing(started + len(together)):
            self._refuse_together(together, missing, frozenset({Coscheduling.name}))
            return
        chosen: list[tuple[Waiting, str]] = []
        refused: list[tuple[Waiting, Diagnosis]] = []
        for one in together:
            if why := self._not_granted(one):
                refused.append((one, Diagnosis(self.snapshot.count, plugins=frozenset({ALLOCATION}), outright=why)))
                continue
            decision = self.judges[one.profile.name].decider.decide(one.task)
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

    def _refuse_together(self, together: list[Waiting], why: str, plugins: frozenset[str]) -> None:
        for one in together:
            if plugins:
                self.queue.refused(one, plugins, clock.monotonic())
            else:
                self.queue.failed(one, clock.monotonic())
            self._attempted("unschedulable", one)
            self._teller.failed(one.pod, UNSCHEDULABLE, why)

    def _wake_gang(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.queue.activate(key, clock.monotonic())
        self._wake.set()

    # --- extenders --------------------------------------------------------------------------------------------------

    async def _try_with_extenders(self, waiting: Waiting, extenders: Extenders) -> None:
        """The same, asking others; meanwhile nothing else is decided, as upstream has it."""
        pod, task, judge = waiting.pod, waiting.task, self.judges[waiting.profile.name]
        self.queue.leave(waiting)
        try:
            names = self._names(judge.decider.feasible(task))
            chosen = None
            if task.nominated in names:  # what was promised is tried first, and alone
                promised = await extenders.filter(pod, [task.nominated])
                chosen = judge.decider.choose_among(task, promised.names, {})
            if chosen is None:
                left = await extenders.filter(pod, names)
                scores = await extenders.prioritise(pod, left.names) if len(left.names) > 1 else {}
                chosen = judge.decider.choose_among(task, left.names, scores)
            if chosen is None:
                found = judge.decider.diagnose(task)
                if len(left.names) != len(names):
                    found.add_failed(self.snapshot, left.failed, left.unresolvable)
                outcome = await self._make_room_with_extenders(pod, task, judge.preemptor, found, extenders)
                if self.queue.get(waiting.key) is waiting:
                    self._refused(waiting, found, outcome)
                return
        except (OSError, ApiError, ExtenderFailure) as error:
            if self.queue.get(waiting.key) is waiting:
                self._went_wrong(waiting, waiting.pod, str(error))
            return
        if self.queue.get(waiting.key) is waiting:  # else it is gone, or somebody else has bound it
            self.queue.remove(waiting.key)
            self._binder.assume(waiting, chosen)
            self._binder.start(waiting, chosen.node)

    async def _make_room_with_extenders(
        self, pod: Pod, task: Task, preemptor: Preemptor, found: Diagnosis, extenders: Extenders
    ) -> Preempt | Futile:
        plans = preemptor.candidates(pod, task, found)
        if isinstance(plans, Futile):
            return plans
        try:
            return preemptor.choose(await extenders.preempt(pod, plans))
        except ExtenderFailure as error:
            return Futile(f"preemption: {error}")

    def _names(self, rows: Rows) -> list[str]:
        return [self.snapshot.names[row] for row in rows.tolist()]

    # --- preemption -------------------------------------------------------------------------------------------------

    def _make_room(self, waiting: Waiting, chosen: Preempt) -> None:
        """Promise the node, and drive the victims away beside; those who go already are let go in peace."""
        victims = [one.pod for one in chosen.victims if not one.pod.metadata.is_terminating]
        if victims:
            for promise in list(self.nominations.on(chosen.node)):
                if promise.pod.priority < waiting.pod.priority:
                    self._take_back(promise.pod)
        self._nominate(waiting, chosen.node)
        if victims:
            waiting.is_preempting = True
            self._teller.writers.start(partial(self._preempt, waiting, victims, chosen.node))

    async def _preempt(self, waiting: Waiting, victims: list[Pod], node: str) -> None:
        try:
            if not await self._teller.drive_away(waiting.pod, victims, node):
                waiting.was_called = True
        finally:
            self.queue.preempted(waiting, clock.monotonic())
            self._wake.set()

    def _nominate(self, waiting: Waiting, node: str) -> None:
        task = waiting.task
        self.nominations.set(waiting.pod, task.shape, task.company, node)
        waiting.task = Task(task.shape, task.company, task.priority, task.uid, node)

    def _take_back(self, pod: Pod) -> None:
        """A more important pod takes the node: whoever waited for it looks for another."""
        self.nominations.drop(pod.metadata.uid)
        self._teller.taken_back(pod)
        waiting = self.queue.get(pod.metadata.key)
        if waiting is not None:
            waiting.task = self._listener.task(pod)
            self.queue.activate(waiting.key, clock.monotonic())
