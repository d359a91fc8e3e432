"""A cluster in virtual time whose run is recorded from the start, and how long it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from fairlead.client.informer import Informers
from fairlead.compose import Settings, simulation
from fairlead.runtime.clock import now
from fairlead.server.registry.registry import UserApi
from fairlead.sim.machine.machines import Machines
from fairlead.sim.openb import Arrival
from fairlead.sim.replay import Endings, arrive
from fairlead.sim.report import RunObserver

#: Whose controllers look again and again for as long as there is one.
RESTLESS: Final = frozenset({"CronJob", "HorizontalPodAutoscaler"})
#: Told how many pods have arrived, and the seconds of virtual time.
OnArrival = Callable[[int, float], None]


class RecordedRun:
    def __init__(self, api: UserApi, informers: Informers, machines: Sequence[Machines]) -> None:
        self.api, self.informers = api, informers
        self.observer, self._endings = RunObserver(informers, *machines), Endings(informers)

    async def play(self, coming: Sequence[Arrival], limit: float | None, on_arrival: OnArrival) -> float:
        """Let pods arrive until nothing is left to happen, or for so many seconds; returns when that was."""
        try:
            async with asyncio.timeout(limit):
                await self.run_out(coming, on_arrival, rests=limit is None)
                return self.observer.last_event  # after it nothing happened but waiting
        except TimeoutError:
            return now()  # the limit is an end like any other

    async def run_out(
        self,
        coming: Sequence[Arrival],
        on_arrival: OnArrival,
        *,
        rests: bool,
        after: asyncio.Event | None = None,
    ) -> None:
        """Let everything arrive, and return once nothing is left to happen, but not before `after` is set.

        Where it `rests` not it never returns: even if nothing happens now, a CronJob may be due later.
        """
        await arrive(self.api, coming, on_arrival)
        if after is not None:
            await after.wait()
        if not rests:
            await asyncio.Event().wait()
        await self._endings.settled()


@asynccontextmanager
async def recorded(settings: Settings) -> AsyncIterator[RecordedRun]:
    machines: list[Machines] = []
    async with simulation(replace(settings, on_machines=machines.append)) as (api, informers):
        run = RecordedRun(api, informers, machines)
        record = run.observer.record
        recording = asyncio.create_task(record.run()) if record is not None else None
        try:
            yield run
        finally:
            if recording is not None:
                recording.cancel()
