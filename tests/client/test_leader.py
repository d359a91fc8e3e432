"""Leader election in virtual time: at no moment do two lead, whatever happens to the way to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fairlead.api.verbs import Api
from fairlead.client.leader import Election, LostLeadership, Terms
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from tests.arbitrator.wire import Wire, api_of

TERMS = Terms("work", "default")


class Candidate:
    """Leads whenever it can, as a program that is started again and again."""

    def __init__(self, api: Api, name: str) -> None:
        self.wire = Wire(api)
        self.election = Election(api_of(self.wire), name, TERMS)
        self.is_working = False
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self.election.lead(self._work)
            except LostLeadership:
                continue

    async def _work(self) -> None:
        self.is_working = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_working = False


def play(act: Callable[[Candidate, Candidate], Awaitable[None]]) -> None:
    """The first of two leads."""

    async def begin() -> None:
        async with simulation(Settings(components=frozenset({"api"}))) as (api, _):
            one = Candidate(api, "one")
            await asyncio.sleep(1)
            two = Candidate(api, "two")
            await asyncio.sleep(30)
            assert (one.election.is_leading(), two.election.is_leading()) == (True, False)
            watching = asyncio.create_task(_never_both(one, two))
            await act(one, two)
            assert not watching.done(), watching.exception()
            for task in (one, two):
                await task.stop()
            watching.cancel()

    run_virtual(begin())


async def _never_both(one: Candidate, two: Candidate) -> None:
    while True:
        await asyncio.sleep(0.05)
        assert not (one.election.is_leading() and two.election.is_leading())


def test_who_is_cut_off_stops_before_another_begins() -> None:
    """The last renewal is at most two seconds old when the wire breaks, and counts for ten from when it was sent."""

    async def act(one: Candidate, two: Candidate) -> None:
        one.wire.cut()
        await asyncio.sleep(7)
        assert one.election.is_leading()
        await asyncio.sleep(4)
        assert not one.election.is_leading() and not one.is_working
        assert not two.election.is_leading()
        await asyncio.sleep(10)
        assert two.election.is_leading() and two.is_working

    play(act)


def test_who_comes_back_in_time_goes_on() -> None:
    async def act(one: Candidate, two: Candidate) -> None:
        one.wire.cut()
        await asyncio.sleep(7)
        one.wire.mend()
        await asyncio.sleep(60)
        assert one.election.is_leading() and one.is_working and not two.is_working

    play(act)


def test_who_comes_back_late_waits_in_line() -> None:
    """Its renewal that was on the way meanwhile must not undo that another leads."""

    async def act(one: Candidate, two: Candidate) -> None:
        one.wire.cut()
        await asyncio.sleep(60)
        one.wire.mend()
        await asyncio.sleep(60)
        assert two.election.is_leading() and not one.is_working

    play(act)


def test_who_stops_by_itself_does_not_lead_any_more() -> None:
    async def act(one: Candidate, two: Candidate) -> None:
        await one.stop()
        assert not one.election.is_leading()
        await one.election.release()
        await asyncio.sleep(5)
        assert two.election.is_leading()

    play(act)
