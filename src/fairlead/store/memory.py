"""The memory store, for simulations and tests: keeps nothing beyond its process, so a change is committed at once."""

from __future__ import annotations

from fairlead.store.embedded import EmbeddedStore, PendingWrite


class MemoryStore(EmbeddedStore):
    """Keeps everything in memory."""

    async def _commit(self, write: PendingWrite) -> None:
        self._publish([write])
