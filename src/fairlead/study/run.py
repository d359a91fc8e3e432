"""Plays one variant in virtual time, through the same components as `fairlead up`, and says what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from fairlead.api.builtin import EVENTS, RESOURCE_QUOTAS
from fairlead.api.objects import metadata
from fairlead.client.events import telling_only
from fairlead.compose import Settings
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.loops import run_virtual
from fairlead.runtime.memory import keeping_loaded
from fairlead.sim.attribution import READ_REASONS, Attribution
from fairlead.sim.costs import NodeCosts
from fairlead.sim.fairness_record import FairnessRecord
from fairlead.sim.histories import PodHistories
from fairlead.sim.openb import Arrival
from fairlead.sim.pod_workloads import Workloads
from fairlead.sim.replay import ArrivalRefused
from fairlead.study import outcome
from fairlead.study.changes.carry_out import carry_out
from fairlead.study.changes.changed_cluster import ChangedCluster
from fairlead.study.changes.document import Change, Step
from fairlead.study.changes.errors import ChangeError
from fairlead.study.outcome import Fairness, Outcome, StepDone
from fairlead.study.recorded import OnArrival, RecordedRun, recorded

#: So long after the last step a run that rests waits for steps that never end, as drains that a budget forbids.
_PATIENCE_SECONDS: Final = 86400.0


class Stage(NamedTuple):
    """How far a variant is: after how many seconds, and with how many pods so far."""

    seconds: float
    pods: int


class Scene(msgspec.Struct, frozen=True):
    """What all variants begin with."""

    settings: Settings
    arrivals: Sequence[Arrival]
    #: How long, in seconds; None: until nothing is left to happen.
    limit: float | None
    #: When it begins, in seconds since the epoch.
    epoch: float
    seed: int = 1
    #: What goes on in every variant, and is nobody's change.
    beside: Sequence[Step] = ()
    #: Entered while a variant is played, with its name, and with what tells how far it is.
    on_playing: Callable[[str, Callable[[], Stage]], AbstractContextManager[None]] | None = None


def play(scene: Scene, change: Change, progress: OnArrival) -> Outcome:
    """One variant, from the beginning to the end. Raises ChangeError, ArrivalRefused."""
    try:
        with rng.seeded(scene.seed):
            return run_virtual(_play(scene, change, progress), scene.epoch)
    except BaseExceptionGroup as group:
        raise _told(group) from None


def _told(group: BaseExceptionGroup) -> BaseException:
    """The first refusal of the group that somebody can act on, or all of it."""
    for error in group.exceptions:
        first = _told(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(first, ChangeError | ArrivalRefused):
            return first
    return group


async def _play(scene: Scene, change: Change, progress: OnArrival) -> Outcome:
    settings = scene.settings
    if change.scheduler is not None:
        settings = replace(settings, scheduling=change.scheduler)
    with telling_only(READ_REASONS):
        async with recorded(settings) as run:
            with keeping_loaded():
                return await _watched(run, scene, change, progress)


async def _watched(run: RecordedRun, scene: Scene, change: Change, progress: OnArrival) -> Outcome:
    cluster = ChangedCluster(run.api, run.informers)
    watching = _Watching(run, cluster, scene.settings)
    listening = asyncio.create_task(watching.attribution.run(run.api))
    try:
        with scene.on_playing(change.name, watching.stage()) if scene.on_playing is not None else nullcontext():
            end = await _until_over(scene, change, watching, progress)
    finally:
        listening.cancel()
    return await watching.outcome(change, now() if end is None else end)


class _Watching:
    """Everything that keeps record of a run."""

    def __init__(self, run: RecordedRun, cluster: ChangedCluster, settings: Settings) -> None:
        self.run, self.cluster = run, cluster
        past = {str(metadata(obj).get("uid")) for obj in settings.imported if obj["kind"] == EVENTS.kind}
        self.histories, self.attribution = PodHistories(run.informers), Attribution(Workloads(run.informers), past)
        self.costs = NodeCosts(run.informers, cluster.prices)
        self.fairness = FairnessRecord(run.informers, run.observer.capacity) if settings.arbitrator else None
        self.steps: list[StepDone] = []

    def stage(self) -> Callable[[], Stage]:
        """To be called in any thread."""
        loop, pods = asyncio.get_running_loop(), self.histories.by_uid
        began = loop.time()
        return lambda: Stage(loop.time() - began, len(pods))

    def on_step(self, step: Step) -> Callable[[], None]:
        done = StepDone(now(), step.action.text, step.action.is_endless, step.action.named_node)
        self.steps.append(done)
        return partial(setattr, done, "has_ended", True)

    async def outcome(self, change: Change, end: float) -> Outcome:
        pods = outcome.attributed(self.histories, self.attribution)
        quotas = [item.obj() for item in (await self.run.api.list(RESOURCE_QUOTAS)).items]
        return Outcome(
            change.name,
            self.run.observer.began,
            end,
            self.run.observer.summary(self.run.informers, end),
            outcome.notable(pods, end),
            placed=sum(map(outcome.is_placed, pods)),
            waiting=sum(pod.is_waiting for pod in pods),
            waits=outcome.waits_of(pods, end),
            disruptions=outcome.disruptions_of(pods),
            oom_kills=sum(pod.oom_kills for pod in pods),
            quotas=outcome.quota_states(quotas, self.attribution),
            shortfalls=outcome.shortfalls(self.attribution),
            came=outcome.came(pods),
            gone=outcome.gone(pods),
            steps=self.steps,
            held_up=self.cluster.held_up,
            node_hours=self.costs.node_hours(end),
            cost=self.costs.cost(end),
            fragmentation=self.costs.fragmentation(self.cluster.pods),
            fairness=self._fairness(end),
        )

    def _fairness(self, end: float) -> list[Fairness]:
        found = self.fairness.shares(end) if self.fairness is not None else {}
        return [Fairness(namespace, *shares) for namespace, shares in found.items()]


async def _until_over(scene: Scene, change: Change, watching: _Watching, progress: OnArrival) -> float | None:
    """Returns when nothing was left to happen, or None where the limit came first."""
    done = asyncio.Event()
    last = max((step.at for step in change.steps), default=0.0)
    patience = asyncio.get_running_loop().call_later(last + _PATIENCE_SECONDS, done.set)
    beside = asyncio.create_task(carry_out(scene.beside, watching.cluster, lambda step: lambda: None, asyncio.Event()))
    changing = asyncio.create_task(carry_out(change.steps, watching.cluster, watching.on_step, done))
    coming = watching.run.run_out(scene.arrivals, progress, rests=scene.limit is None, after=done)
    arriving = asyncio.create_task(coming)
    try:
        async with asyncio.timeout(scene.limit):
            going_on = {beside, changing, arriving}
            while arriving in going_on:  # a pool never ends
                ended, going_on = await asyncio.wait(going_on, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
        return watching.run.observer.last_event  # after it nothing happened but waiting
    except TimeoutError:
        return None  # the limit is an end like any other
    finally:
        patience.cancel()
        for task in (beside, changing, arriving):
            task.cancel()
        await asyncio.gather(beside, changing, arriving, return_exceptions=True)
