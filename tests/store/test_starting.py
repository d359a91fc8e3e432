"""A cluster whose disk is full while it starts says so, and does not wait for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fairlead.compose import Cluster, Settings, components
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.store.base import StoreUnavailable
from fairlead.store.embedded import EmbeddedStore, PendingWrite


class FullStore(EmbeddedStore):
    """Takes what a server writes when it is opened, and from then on nothing while it is full."""

    is_full = False

    async def _persist(self, writes: list[PendingWrite]) -> None:
        if self.is_full:
            raise OSError("database or disk is full")


def test_a_store_that_cannot_write_makes_a_start_fail(tmp_path: Path) -> None:
    async def main() -> None:
        store = FullStore()
        server = Server(store)
        await server.open()
        store.is_full = True
        with pytest.raises(StoreUnavailable, match="disk is full"):
            async with asyncio.timeout(600), components(Cluster(server), Settings(data_dir=tmp_path)):
                pass

    run_virtual(main())


def test_a_store_that_can_write_again_soon_does_no_harm(tmp_path: Path) -> None:
    async def main() -> None:
        store = FullStore()
        server = Server(store)
        await server.open()
        store.is_full = True

        def empty() -> None:
            store.is_full = False

        asyncio.get_running_loop().call_later(1, empty)
        async with components(Cluster(server), Settings(data_dir=tmp_path)):
            assert server.registry.find("serviceaccounts", "default", "default") is not None

    run_virtual(main())
