"""Objects at rest: the last step of a write, behind admission and validation.

Optimistic concurrency is the store's: a write names the revision that it replaces, and `RevisionMismatch` says that
somebody else was faster. A store that cannot write becomes a `Status` here.
"""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api.encoded import Encoded
from fairlead.api.errors import ServiceUnavailable
from fairlead.api.objects import Obj, metadata
from fairlead.server import deletion
from fairlead.server.served import Served
from fairlead.store.base import Record, RevisionMismatch, Store, StoreUnavailable, stamp, unstamped


class Records:
    """The objects of all kinds in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, key: str) -> Record | None:
        return await self._store.get(key)

    async def put(self, key: str, value: bytes, expected: int) -> Record:
        try:
            return await self._store.put(key, value, expected)
        except StoreUnavailable as error:
            raise ServiceUnavailable(f"the store cannot write: {error}") from error

    async def remove(self, key: str, expected: int) -> int:
        try:
            return await self._store.delete(key, expected)
        except StoreUnavailable as error:
            raise ServiceUnavailable(f"the store cannot write: {error}") from error

    async def replace(self, served: Served, key: str, new: Obj, record: Record, *, dry_run: bool = False) -> Record:
        """Write the object if it changed, or remove it if it was only waiting for this change."""
        value = served.encode(new)
        if is_same(value, record):
            return record
        if dry_run:
            return _in_place_of(record, value)
        if deletion.is_finished(new, served.strategy):
            await self.remove(key, record.revision)
            return _in_place_of(record, value)
        return await self.put(key, value, record.revision)

    async def guaranteed_update(
        self,
        served: Served,
        name: str,
        namespace: str,
        change: Callable[[Obj], Obj | None],
        *,
        dry_run: bool = False,
    ) -> Obj | None:
        """Read, change, write back, and repeat while somebody else is faster (admission.base.Writer)."""
        key = served.key(namespace, name)
        while True:
            record = await self.get(key)
            if record is None:
                return None
            current = Encoded(record.value).obj()
            new = change(current)
            if new is None:
                return current
            try:
                stored = await self.replace(served, key, new, record, dry_run=dry_run)
            except RevisionMismatch:
                continue
            metadata(new)["resourceVersion"] = str(stored.revision)
            return new


def is_same(value: bytes, record: Record) -> bool:
    """Whether an encoded object says what is stored; clients are free to order keys as they like."""
    stored = unstamped(record.value, record.revision)
    return value == stored or (len(value) == len(stored) and Encoded(value).obj() == Encoded(stored).obj())


def _in_place_of(record: Record, value: bytes) -> Record:
    """What would have been written, under the revision that is there."""
    return Record(stamp(value, record.revision), record.revision)
