"""`Store`: what Fairlead asks of a database, and no more.

A store holds values by key and counts its changes: every change gets the next *revision*, which is the order of all
changes. A write names the revision that it expects to replace, so that two writers never overwrite each other.
Everything committed is delivered, in order, to the one consumer that opened the store; a value returned by `put` is
durable and has been delivered.

Writers need not wait for each other: `head` shows a write whose commit is still under way, and a write on top of it
fails if it does. But no answer may rest on such a state, not even a refusal, until `Head.settled` says that it was
committed: otherwise its revision means nothing.

    put ─▶ head, under way ──committed──▶ delivered, put returns          scan, revision: what is committed
                 └──────────failed──────▶ undone, put raises StoreUnavailable, Head.settled is False

Values are encoded objects with a marker where their revision belongs; the store stamps it in
(`fairlead.api.encoded.stamp`), so that the bytes at rest are the bytes on the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec


class RevisionMismatch(Exception):
    """The key is not at the expected revision; `current` is where it is (0: it does not exist)."""

    def __init__(self, key: str, current: int) -> None:
        super().__init__(f"{key} is at revision {current}")
        self.key, self.current = key, current


class StoreUnavailable(Exception):
    """The store cannot write (disk full, connection lost); nothing of the request was kept."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """A value and the revision that wrote it."""

    value: bytes
    revision: int


class Head(msgspec.Struct, frozen=True, gc=False):
    """The newest state of a key (`record` None: it does not exist); it may not be committed yet."""

    record: Record | None
    #: The result of the commit that is under way; None if the state is committed.
    commit: asyncio.Future[bool] | None = None

    async def settled(self) -> bool:
        """Wait for the commit. False: it failed and the state was undone, read again."""
        return self.commit is None or await asyncio.shield(self.commit)


class StoreChange(msgspec.Struct, frozen=True, gc=False):
    """One committed change. `record` is None where the key was deleted."""

    key: str
    revision: int
    record: Record | None


class PastChange(msgspec.Struct, frozen=True, gc=False):
    """A committed change as history keeps it: which key changed at which revision, and what it was before."""

    revision: int
    key: str
    replaced: Record | None


class History(msgspec.Struct, frozen=True):
    """Every change since the revision `compacted`, oldest first: what was before that is forgotten."""

    compacted: int
    changes: Sequence[PastChange] = ()


Deliver = Callable[[Sequence[StoreChange]], None]


class Store(Protocol):
    """The contract of every driver; `tests/store/test_conformance.py` holds them to it."""

    @property
    def revision(self) -> int:
        """The newest committed revision."""
        ...

    @property
    def size_bytes(self) -> int:
        """How much it takes on disk."""
        ...

    @property
    def trouble(self) -> str:
        """Why the last commit failed; empty if it did not."""
        ...

    async def open(self, deliver: Deliver) -> None:
        """Deliver everything that is stored, sorted by key, and from then on every committed change in order."""
        ...

    def take_history(self) -> History:
        """What is known of changes before the store was opened; once, it is not kept."""
        ...

    def compact(self, revision: int) -> None:
        """Forget the changes up to that revision, as soon as something is written; the present state stays."""
        ...

    async def head(self, key: str) -> Head:
        """The newest state of a key, including one whose commit is still under way."""
        ...

    async def scan(self, prefix: str) -> list[tuple[str, Record]]:
        """The committed values under a prefix, sorted by key."""
        ...

    async def put(self, key: str, value: bytes, expected: int) -> Record:
        """Write if the key is at revision `expected` (0: does not exist); return when it is durable and delivered.

        Raises `RevisionMismatch` or `StoreUnavailable`.
        """
        ...

    async def delete(self, key: str, expected: int) -> int:
        """Delete if the key is at revision `expected`; return the revision of the deletion."""
        ...

    async def close(self) -> None:
        """Finish the commits under way and release all resources."""
        ...
