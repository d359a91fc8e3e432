"""Stores whose commits are slow and fail at random, as drawn from a seed: what they answer must still be true."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from fairlead.store.embedded import EmbeddedStore, PendingWrite
from fairlead.store.sqlite import SQLiteStore

#: How many turns of the loop a commit takes at most, and how often it fails.
_TURNS, _FAILURES = 12, 0.3


class Weather:
    """What happens to each commit; while it is `calm`, commits are slow but none fails."""

    def __init__(self, seed: int, *, calm: bool = False) -> None:
        self._random = Random(seed)
        self.calm = calm

    async def pass_over(self) -> None:
        for _ in range(self._random.randrange(_TURNS)):
            await asyncio.sleep(0)
        if not self.calm and self._random.random() < _FAILURES:
            raise OSError("no space left on device")


class UnreliableMemory(EmbeddedStore):
    def __init__(self, weather: Weather) -> None:
        super().__init__()
        self._weather = weather

    async def _persist(self, writes: list[PendingWrite]) -> None:
        await self._weather.pass_over()


class UnreliableSQLite(SQLiteStore):
    def __init__(self, path: Path, weather: Weather) -> None:
        super().__init__(path)
        self._weather = weather

    async def _persist(self, writes: list[PendingWrite]) -> None:
        await self._weather.pass_over()
        await super()._persist(writes)
