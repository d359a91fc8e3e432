"""The memory store, for simulations and tests: keeps nothing beyond its process, so a change is committed at once."""

from __future__ import annotations

from fairlead.store.embedded import EmbeddedStore, Write


class MemoryStore(EmbeddedStore):
    """Keeps everything in memory and nothing beyond it."""

    async def _commit(self, write: Write) -> None:
        self._publish([write])
