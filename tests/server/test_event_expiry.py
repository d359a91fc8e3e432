"""Events go an hour after they were last written, as many at once as come at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlead.api.builtin import EVENTS
from fairlead.api.objects import Obj
from fairlead.api.users import MASTERS, User
from fairlead.runtime.clock import monotonic
from fairlead.runtime.loops import run_virtual
from fairlead.server.admission.chain import PLUGINS
from fairlead.server.assembly import Server
from fairlead.server.registry.registry import UserApi
from fairlead.store.embedded import EmbeddedStore, PendingWrite
from tests.test_what_comes_and_goes import largest_kept


class Disk(EmbeddedStore):
    """Each commit takes ten milliseconds."""

    commits = 0

    async def _persist(self, writes: list[PendingWrite]) -> None:
        self.commits += 1
        await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(disk: Disk) -> AsyncIterator[UserApi]:
    server = Server(disk)
    await server.open(name for name, _ in PLUGINS)
    running = asyncio.create_task(server.run())
    try:
        yield server.registry.as_user(User("u", (MASTERS,)))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def event(name: str) -> Obj:
    return {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "namespace": "default"}}


def test_events_that_came_together_go_together() -> None:
    """One after the other, each waiting for the disk, they went more slowly than they may come."""

    async def main() -> None:
        disk = Disk()
        async with serving(disk) as api:
            await asyncio.gather(*(api.create(EVENTS, event(f"e-{number}"), "default") for number in range(300)))
            await asyncio.sleep(3599)
            assert len((await api.list(EVENTS, "default")).items) == 300
            before = disk.commits
            await asyncio.sleep(2)
            assert not (await api.list(EVENTS, "default")).items
            assert disk.commits - before < 20

    run_virtual(main())


def test_an_event_that_is_written_all_the_time_is_remembered_once() -> None:
    """Each of its writes had been, for an hour."""

    async def main() -> None:
        async with serving(Disk()) as api:
            for name in ("a", "b"):
                await api.create(EVENTS, event(name), "default")
            for number in range(100):
                await api.patch(EVENTS, "a", "default", {"count": number + 1})
            written = monotonic()
            kept = largest_kept()
            assert kept["fairlead.server.registry.expiry.EventExpiry._written"] == 2
            await asyncio.sleep(3600 - (monotonic() - written) - 0.5)
            assert [found.obj()["metadata"]["name"] for found in (await api.list(EVENTS, "default")).items] == ["a"]
            await asyncio.sleep(1)
            assert not (await api.list(EVENTS, "default")).items

    run_virtual(main())
