"""How long a start holds others up."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from fairlead.compose import Settings, components, opened
from fairlead.runtime import turns
from fairlead.runtime.loops import run
from fairlead.sim.nodes import NodeShape, kubelet_nodes
from fairlead.store.memory import MemoryStore


def test_nodes_are_registered_in_turns_where_nothing_waits_for_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)

    async def main() -> None:
        wanted = Settings(nodes=tuple(kubelet_nodes(300, NodeShape())), components=frozenset({"nodes"}))
        running, seen = await opened(MemoryStore(), wanted), [0]

        async def look() -> None:
            while True:
                seen.append(running.count("nodes"))
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        async with components(running, wanted):
            looking.cancel()
        assert running.count("nodes") == 300
        assert max(after - before for before, after in pairwise(seen)) < 100

    run(main())
