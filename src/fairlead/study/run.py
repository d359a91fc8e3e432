"""Plays one variant in virtual time, through the same components as `fairlead up`, and says what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fairlead.api.builtin import RESOURCE_QUOTAS
from fairlead.api.verbs import Api
from fairlead.client.informer import Informers
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.clock import now
from fairlead.runtime.loops import run_virtual
from fairlead.runtime.memory import keep_started
from fairlead.sim.attribution import Attribution
from fairlead.sim.costs import NodeCosts
from fairlead.sim.fairness_record import FairnessRecord
from fairlead.sim.histories import PodHistories
from fairlead.sim.machine.machines import Machines
from fairlead.sim.openb import Arrival
from fairlead.sim.replay import ArrivalRefused, Endings, arrive
from fairlead.sim.report import RunObserver
from fairlead.study import outcome
from fairlead.study.changes.carry_out import carry_out
from fairlead.study.changes.document import Change, Step
from fairlead.study.changes.errors import ChangeError
from fairlead.study.changes.world import World
from fairlead.study.outcome import Fairness, Outcome, StepDone

#: Told how many pods have arrived, and the seconds of virtual time.
Progress = Callable[[int, float], None]


@dataclass(frozen=True, slots=True)
class Scene:
    """What all variants begin with."""

    settings: Settings
    arrivals: Sequence[Arrival]
    #: How long, in seconds; None: until nothing is left to happen.
    limit: float | None
    #: When it begins, in seconds since the epoch.
    epoch: float
    seed: int = 1


def play(scene: Scene, change: Change, progress: Progress) -> Outcome:
    """One variant, from the beginning to the end. Raises ChangeError, ArrivalRefused."""
    rng.seed(scene.seed)
    try:
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


async def _play(scene: Scene, change: Change, progress: Progress) -> Outcome:
    machines: list[Machines] = []
    settings = replace(scene.settings, on_machines=machines.append)
    if change.scheduler is not None:
        settings = replace(settings, scheduling=change.scheduler)
    async with simulation(settings) as (api, informers):
        keep_started()
        world = World(api, informers)
        watching = _Watching(api, informers, machines, world, has_arbitrator=settings.arbitrator)
        async with asyncio.TaskGroup() as beside:
            side = [beside.create_task(part) for part in watching.parts]
            try:
                end = await _until_over(scene, change, watching, progress)
            finally:
                for task in side:
                    task.cancel()
        return await watching.outcome(change, now() if end is None else end)


class _Watching:
    """Everything that keeps record of a run."""

    def __init__(
        self, api: Api, informers: Informers, machines: Sequence[Machines], world: World, *, has_arbitrator: bool
    ) -> None:
        self.api, self.informers, self.world = api, informers, world
        self.observer = RunObserver(informers, *machines)
        self.histories, self.attribution = PodHistories(informers), Attribution()
        self.endings, self.costs = Endings(informers), NodeCosts(informers, world.prices)
        self.fairness = FairnessRecord(informers) if has_arbitrator else None
        self.steps: list[StepDone] = []
        self.parts = [self.attribution.run(api)]
        if self.observer.record is not None:
            self.parts.append(self.observer.record.run())

    def on_step(self, step: Step) -> None:
        self.steps.append(StepDone(now(), step.action.text))

    async def outcome(self, change: Change, end: float) -> Outcome:
        pods = outcome.attributed(self.histories, self.attribution)
        quotas = [item.obj() for item in (await self.api.list(RESOURCE_QUOTAS)).items]
        return Outcome(
            change.name,
            self.observer.began,
            end,
            self.observer.summary(self.informers, end),
            outcome.notable(pods, end),
            placed=sum(map(outcome.is_placed, pods)),
            waiting=sum(pod.is_waiting for pod in pods),
            waits=outcome.waits_of(pods, end),
            disruptions=outcome.disruptions_of(pods),
            oom_kills=sum(pod.oom_kills for pod in pods),
            quotas=outcome.quota_states(quotas, self.attribution),
            shortfalls=outcome.shortfalls(self.attribution),
            steps=self.steps,
            node_hours=self.costs.node_hours(end),
            cost=self.costs.cost(end),
            fragmentation=self.costs.fragmentation(self.world.pods),
            fairness=self._fairness(end),
        )

    def _fairness(self, end: float) -> list[Fairness]:
        means = self.fairness.means(end) if self.fairness is not None else {}
        return [Fairness(namespace, *shares) for namespace, shares in means.items()]


async def _until_over(scene: Scene, change: Change, watching: _Watching, progress: Progress) -> float | None:
    """Returns when nothing was left to happen, or None where the limit came first."""
    done = asyncio.Event()
    changing = asyncio.create_task(carry_out(change.steps, watching.world, watching.on_step, done))
    arriving = asyncio.create_task(_run_out(scene, watching, done, progress))
    try:
        async with asyncio.timeout(scene.limit):
            await asyncio.wait([changing, arriving], return_when=asyncio.FIRST_EXCEPTION)
            for task in (changing, arriving):
                if task.done():
                    task.result()
            await arriving
        return watching.observer.last_event  # after it nothing happened but waiting
    except TimeoutError:
        return None  # the limit is an end like any other
    finally:
        for task in (changing, arriving):
            task.cancel()
        await asyncio.gather(changing, arriving, return_exceptions=True)


async def _run_out(scene: Scene, watching: _Watching, done: asyncio.Event, progress: Progress) -> None:
    """Let everything arrive, and then return once nothing is left to happen; never where there is a limit."""
    await arrive(watching.world.api, scene.arrivals, progress)
    await done.wait()
    if scene.limit is not None:
        await asyncio.Event().wait()  # even if nothing happens now: a CronJob may be due later
    await watching.endings.settled()
