"""Gets the table into the kernel: what was submitted meanwhile goes along in one transaction.

Nobody else writes this table, but somebody may flush all rules of the machine, and the kernel may refuse. Then the
whole table is loaded anew, until that succeeds. What stood there when the agent started serves until the first load.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from fairlead.agent.network.commands import CommandFailed, run
from fairlead.agent.network.nftables.table import TABLE, Fragment, Table
from fairlead.runtime.clock import monotonic
from fairlead.runtime.offload import offload

RETRY_SECONDS: Final = 5.0
#: How often it is looked whether the table is still there.
CHECK_SECONDS: Final = 30.0
#: So many fragments make a text that takes long.
_MANY: Final = 200

log = logging.getLogger(__name__)


class TableWriter:
    """Submit from anywhere on the loop; start `run` when all that must be there at first was submitted."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._pending: dict[str, Fragment] = {}
        self._submitted, self._written = 0, 0
        self._wanted, self._progress = asyncio.Event(), asyncio.Condition()
        self._is_loaded = False
        self._trouble = ""

    def submit(self, fragments: Mapping[str, Fragment]) -> None:
        self._pending |= fragments
        self._submitted += 1
        self._wanted.set()

    @property
    def is_loaded(self) -> bool:
        """Whether the kernel has our rules, rather than those of an agent before us."""
        return self._is_loaded

    async def written(self) -> None:
        """Return once the kernel has everything that was submitted before."""
        goal = self._submitted
        async with self._progress:
            await self._progress.wait_for(lambda: self._is_loaded and self._written >= goal)

    async def run(self) -> None:
        self._wanted.set()
        while True:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._wanted.wait()
            except TimeoutError:
                self._is_loaded = self._is_loaded and await _is_there()
            self._wanted.clear()
            if not await self._write():
                self._wanted.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _write(self) -> bool:
        fragments, self._pending, goal = self._pending, {}, self._submitted
        change = await offload(lambda: self._table.change(fragments), is_long=len(fragments) > _MANY)
        if self._is_loaded:
            self._is_loaded = await self._handed_over(change)
        if not self._is_loaded:
            self._is_loaded = await self._handed_over(await offload(self._table.load, is_long=True))
        if not self._is_loaded:
            return False
        self._trouble = ""
        async with self._progress:
            self._written = goal
            self._progress.notify_all()
        return True

    async def _handed_over(self, text: str) -> bool:
        if not text:
            return True
        began = monotonic()
        try:
            await run("nft", "-f", "-", stdin=text.encode())
        except CommandFailed as error:
            if str(error) != self._trouble:  # once, however long it lasts
                log.warning("nftables: %s", error)
            self._trouble = str(error)
            return False
        log.debug("nftables: %d bytes in %.3f s", len(text), monotonic() - began)
        return True


async def _is_there() -> bool:
    """Chains are listed in milliseconds, however many there are; for anything else nft reads every rule."""
    family, _ = TABLE.split()
    try:
        is_there = f"table {TABLE} {{".encode() in await run("nft", "list", "chains", family)
    except CommandFailed:
        return False
    if not is_there:
        log.warning("nftables: somebody removed the table %s; it is loaded again", TABLE)
    return is_there
