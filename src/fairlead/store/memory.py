"""The memory store: for simulations and tests, and the part that all embedded drivers share.

An embedded store lives in one process, so the newest state (`_head`) is a dict and a revision is a counter. What
differs between drivers is only when a change counts as committed: here at once, in SQLite after an fsync.
"""

from __future__ import annotations

import msgspec

from fairlead.store.base import Change, Deliver, Record, RevisionMismatch, stamp


class Write(msgspec.Struct, frozen=True, gc=False):
    """A change to commit, and what it replaced, so that it can be undone."""

    change: Change
    replaced: Record | None


def _nobody(changes: object) -> None:
    raise RuntimeError("the store is not open")


class MemoryStore:
    """Keeps everything in memory and nothing beyond it."""

    def __init__(self) -> None:
        self._head: dict[str, Record] = {}
        self._last = 0  # the newest revision given out
        self._committed = 0
        self._deliver: Deliver = _nobody

    @property
    def revision(self) -> int:
        return self._committed

    async def open(self, deliver: Deliver) -> None:
        self._deliver = deliver
        deliver([Change(key, record.revision, record) for key, record in sorted(self._head.items())])

    async def get(self, key: str) -> Record | None:
        return self._head.get(key)

    async def scan(self, prefix: str) -> list[tuple[str, Record]]:
        return sorted((item for item in self._head.items() if item[0].startswith(prefix)), key=lambda item: item[0])

    async def put(self, key: str, value: bytes, expected: int) -> Record:
        replaced = self._check(key, expected)
        self._last += 1
        record = self._head[key] = Record(stamp(value, self._last), self._last)
        await self._commit(Write(Change(key, self._last, record), replaced))
        return record

    async def delete(self, key: str, expected: int) -> int:
        replaced = self._check(key, expected)
        self._last += 1
        revision = self._last
        self._head.pop(key, None)
        await self._commit(Write(Change(key, revision, None), replaced))
        return revision

    async def close(self) -> None:
        """Nothing to let go of."""

    def _check(self, key: str, expected: int) -> Record | None:
        found = self._head.get(key)
        current = found.revision if found else 0
        if current != expected:
            raise RevisionMismatch(key, current)
        return found

    async def _commit(self, write: Write) -> None:
        self._publish([write])

    def _publish(self, writes: list[Write]) -> None:
        self._committed = writes[-1].change.revision
        self._deliver([write.change for write in writes])
