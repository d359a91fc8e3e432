"""The one shell around all controllers: it queues, waits and tries again, so that they need not.

informers ──wake──▶ queue ──key──▶ worker: wait until own writes are seen ▶ reconcile ▶ carry out actions
                      ▲                                                        │
                      └───────── Requeue, or back-off after a refusal ◀────────┘
"""

from __future__ import annotations

import asyncio
import logging
import math
from functools import partial
from typing import Final, Generic, TypeVar

from fairlead.api.errors import ApiError, Conflict, NotFound
from fairlead.api.meta import Object
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api
from fairlead.client.events import EventRecorder
from fairlead.controllers.actions import Actions
from fairlead.controllers.base import (
    LONGEST_SETTLE_SECONDS,
    SETTLE_SECONDS,
    SETTLE_TURNS,
    THOUGHT_FADES_SECONDS,
    Controller,
    Sweeper,
    Watch,
    World,
)
from fairlead.controllers.executor import Executor, Thought
from fairlead.controllers.expectations import Expectations
from fairlead.controllers.metrics import ControllerMetrics
from fairlead.runtime.clock import monotonic
from fairlead.runtime.turns import Turn
from fairlead.runtime.watchdog import LONGEST_SECONDS, working_on
from fairlead.runtime.workqueue import WorkQueue

T = TypeVar("T", bound=Object)

#: How many times as long as its turn took a key is held back at most: then it has a hundredth of this process' time.
_LONGEST_HELD: Final = 100

log = logging.getLogger(__name__)


class _Load:
    """For how many seconds a controller has thought lately."""

    def __init__(self) -> None:
        self._seconds, self._at = 0.0, 0.0

    def add(self, seconds: float) -> None:
        now = monotonic()
        self._seconds, self._at = self._faded(now) + seconds, now

    @property
    def settling_seconds(self) -> float:
        """For how long what happens next is gathered, for the controller to have about a tenth of the time."""
        if not self._seconds:
            return 0.0
        return min(SETTLE_TURNS * self._faded(monotonic()), LONGEST_SETTLE_SECONDS)

    def _faded(self, now: float) -> float:
        return self._seconds * math.exp((self._at - now) / THOUGHT_FADES_SECONDS)


class Runner(Generic[T]):
    """Runs one controller. Make it before the informers run, so that they know what is wanted."""

    def __init__(
        self,
        controller: Controller[T],
        api: Api,
        world: World,
        recorder: EventRecorder,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._controller, self._world, self._metrics = controller, world, metrics
        self._queue: WorkQueue[str] = WorkQueue()
        if metrics is not None:
            self._queue.measure(controller.queue_name or controller.name, metrics.queues)
        self._expectations = Expectations(world, is_shared=controller.workers == 1)
        self._load = _Load()
        self._held: dict[str, int] = {}  # how many times as long as its last turn each slow key is held back
        self._executor = Executor(api, controller.kind, self._queue, self._expectations, recorder)
        self._own = world.of(controller.kind)
        self._watched = [(watch, world.of(watch.kind)) for watch in controller.watches]
        self._everything = world.everything if controller.follows_everything else None

    async def run(self) -> None:
        """Work until cancelled."""
        await self._own.synced()
        for _, informer in self._watched:
            await informer.synced()
        if self._everything is not None:
            await self._everything.synced()
        await self._subscribe()
        if self._metrics is not None:
            self._metrics.runs(self._controller.name)
        async with asyncio.TaskGroup() as group:
            for number in range(self._controller.workers):
                group.create_task(self._work(), name=f"{self._controller.name} {number}")

    async def _subscribe(self) -> None:
        if isinstance(self._controller, Sweeper):
            self._queue.add("")
            return
        await self._own.follow(self._changed)
        for watch, informer in self._watched:
            if watch.wakes is not None:
                await informer.follow(partial(self._dependent_changed, watch))
        if self._everything is not None:
            self._everything.subscribe(self._anything_changed)
        self._controller.follow(partial(self._wake, is_update=True))

    def _anything_changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        for key in self._controller.woken_by(self._world, resource, old, new):
            self._wake(key, is_update=False)

    def _changed(self, old: T | None, new: T | None) -> None:
        either = new or old
        assert either is not None
        if not self._controller.concerns(old, new, self._world):
            return
        key = either.metadata.key
        is_report = old is not None and new is not None and old.metadata.generation == new.metadata.generation
        self._queue.add_after(key, self._load.settling_seconds if is_report else 0.0)

    def _dependent_changed(self, watch: Watch, old: Object | None, new: Object | None) -> None:
        if watch.wakes_known and not self._own:
            return
        assert watch.wakes is not None
        is_update = old is not None and new is not None
        for key in watch.wakes(self._world, old, new):
            self._wake(key, is_update=is_update)

    def _wake(self, key: str, *, is_update: bool) -> None:
        if is_update or self._controller.is_patient:
            self._queue.add_after(key, max(SETTLE_SECONDS, self._load.settling_seconds))
        else:
            self._queue.add(key)

    async def _work(self) -> None:
        turn = Turn()
        while True:
            key = await self._queue.get()
            try:
                await self._turn(key)
            finally:
                self._queue.done(key)
            if turn.is_over:  # most turns of keys wait for nothing, and ten thousand may have one at once
                await asyncio.sleep(0)
                turn = Turn()

    async def _turn(self, key: str) -> None:
        """One turn of one key; whatever goes wrong is told and tried again."""
        name, thought = self._controller.name, Thought()
        working_on(name, key)
        try:
            await self._expectations.seen(key)
            obj = self._own.get(key)
            await self._executor.carry_out(key, obj, self._decide(key, obj), thought)
        except (Conflict, NotFound) as error:  # somebody was faster; the next turn sees what they did
            log.debug("%s %s: %s", name, key, error)
            self._queue.retry(key)
        except (ApiError, OSError) as error:
            log.info("%s %s: %s", name, key, error)
            self._queue.retry(key)
        except Exception:  # a bug on one object's path must not stop all controllers
            log.exception("%s %s: unexpected error, trying again", name, key)
            self._queue.retry(key)
        else:
            self._queue.forget(key)
        finally:
            self._load.add(thought.total)
            self._hold_back(key, thought.longest)

    def _hold_back(self, key: str, seconds: float) -> None:
        """An object that holds the event loop too long waits ever longer for its next turn."""
        if seconds <= LONGEST_SECONDS:
            self._held.pop(key, None)
            return
        factor = self._held[key] = min(2 * self._held.get(key, 1), _LONGEST_HELD)
        self._queue.hold_back(key, factor * seconds)

    def _decide(self, key: str, obj: T | None) -> Actions:
        if isinstance(self._controller, Sweeper):
            return self._controller.reconcile_all(self._world)
        if obj is None:
            return self._controller.gone(key, self._world)
        return self._controller.reconcile(obj, self._world)
