"""Objects at rest: the last step of a write, behind admission and validation.

Optimistic concurrency is the store's: a write names the revision that it replaces, and fails with `RevisionMismatch` if
that is not the newest. Writers read uncommitted writes of others, so a decision may rest on a state that is undone
later. `ObjectStore.decided` is the one place where a decision waits until the state that it rests on is committed.
A store that cannot write becomes a `Status` here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from fairlead.api.encoded import is_same, stamp, unstamped
from fairlead.api.errors import MOST_STORED, ServiceUnavailable, TooLargeToStore
from fairlead.api.objects import Obj, metadata
from fairlead.runtime.clock import stopwatch
from fairlead.runtime.tracing import step
from fairlead.server.metrics.storage import CREATE, DELETE, UPDATE, StorageMetrics
from fairlead.server.storage import deletion
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.keys import kind_of
from fairlead.store.base import Record, RevisionMismatch, Store, StoreUnavailable

T = TypeVar("T")

_unescaped = msgspec.msgpack.Encoder().encode


class ObjectStore:
    """The objects of all kinds in one store."""

    def __init__(self, store: Store, metrics: StorageMetrics) -> None:
        self._store, self._metrics = store, metrics

    async def decided(self, key: str, decide: Callable[[Record | None], Awaitable[T]]) -> T:
        """The answer or refusal of `decide` on the newest state of a key, once that state is committed.

        `decide` is called again if another writer was faster, or if the state was undone.
        """
        while True:
            head = await self._store.head(key)
            try:
                answer = await decide(head.record)
            except RevisionMismatch:
                continue
            except StoreUnavailable as error:
                raise ServiceUnavailable(f"the store cannot write: {error}") from error
            except Exception:
                if await head.settled():
                    raise
            else:
                if await head.settled():
                    return answer

    async def put(self, key: str, value: bytes, expected: int) -> Record:
        operation, began = UPDATE if expected else CREATE, stopwatch()
        try:
            with step(f"store: {operation}"):
                record = await self._store.put(key, value, expected)
        except (RevisionMismatch, StoreUnavailable):
            self._metrics.failed(operation, kind_of(key), stopwatch() - began)
            raise
        self._metrics.written(operation, kind_of(key), stopwatch() - began)
        return record

    async def remove(self, key: str, expected: int) -> int:
        began = stopwatch()
        try:
            with step(f"store: {DELETE}"):
                revision = await self._store.delete(key, expected)
        except (RevisionMismatch, StoreUnavailable):
            self._metrics.failed(DELETE, kind_of(key), stopwatch() - began)
            raise
        self._metrics.written(DELETE, kind_of(key), stopwatch() - began)
        return revision

    async def replace(
        self,
        served: Served,
        key: str,
        new: Obj,
        record: Record,
        *,
        dry_run: bool = False,
        may_drop_managers: bool = False,
    ) -> Record:
        """Write the object if it changed; remove it if it is being deleted and nothing keeps it any more."""
        value = served.encode(new)
        if is_stored(value, record):
            return record
        if dry_run:
            return _in_place_of(record, value)
        if deletion.is_finished(new, served.strategy):
            await self.remove(key, record.revision)
            return _in_place_of(record, value)
        return await self.put(key, to_fit(served, new, value, may_drop_managers=may_drop_managers), record.revision)

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

        async def decide(record: Record | None) -> Obj | None:
            if record is None:
                return None
            current = served.decoded(record.value)
            new = change(current)
            if new is None:
                return current
            stored = await self.replace(served, key, new, record, dry_run=dry_run)
            metadata(new)["resourceVersion"] = str(stored.revision)
            return new

        return await self.decided(key, decide)


def to_fit(served: Served, obj: Obj, value: bytes, *, may_drop_managers: bool) -> bytes:
    """The encoded object, without managedFields if it is too large with them. Raises `TooLargeToStore`.

    As apiserver's handlers do, except for an update or an apply, which need managedFields.
    """
    if not _fits(served, obj, value) and may_drop_managers:
        metadata(obj).pop("managedFields", None)
        value = served.encode(obj)
    if not _fits(served, obj, value):
        raise TooLargeToStore
    return value


def _fits(served: Served, obj: Obj, value: bytes) -> bool:
    """Built-in kinds are stored as protobuf upstream: quotes and line ends take one byte there, as in MessagePack."""
    if len(value) <= MOST_STORED:
        return True
    return served.crd is None and len(_unescaped(obj)) <= MOST_STORED


def is_stored(value: bytes, record: Record) -> bool:
    """Whether an encoded object equals the stored one."""
    return is_same(value, unstamped(record.value, record.revision))


def _in_place_of(record: Record, value: bytes) -> Record:
    """The result of a write that did not happen, under the present revision."""
    return Record(stamp(value, record.revision), record.revision)
