"""`Store`: what Fairlead asks of a database, and no more.

A store holds values by key and counts its changes: every change gets the next *revision*, and the revision is the
order of the world. A write names the revision that it expects to replace, so two writers can never lose
each other's work. Everything committed is delivered, in order, to the one consumer that opened the store; whoever
holds a value returned by `put` may rely on it being durable and delivered.

Writers need not wait for each other: `head` shows a write whose commit is still under way, and a write on top of it
fails if it does. But nobody may be *told* of such a state, not even by a refusal, until `Head.settled` says that it was
committed: it may never have been, and then its revision means nothing.

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


class Record(msgspec.Struct, frozen=True, gc=False):  # like `Change` made at every write, ten times as fast
    """A value and the revision that wrote it."""

    value: bytes
    revision: int


class Head(msgspec.Struct, frozen=True, gc=False):
    """The newest state of a key (`record` None: it does not exist), which may never come to be."""

    record: Record | None
    #: What tells whether that state was committed; None where that is known already.
    commit: asyncio.Future[bool] | None = None

    async def settled(self) -> bool:
        """Wait until it is known whether this state was committed. False: it was undone, look again."""
        return self.commit is None or await asyncio.shield(self.commit)


class Change(msgspec.Struct, frozen=True, gc=False):
    """One committed change. `record` is None where the key was deleted."""

    key: str
    revision: int
    record: Record | None


Deliver = Callable[[Sequence[Change]], None]


class Store(Protocol):
    """The contract of every driver; `tests/store/test_conformance.py` holds them to it."""

    @property
    def revision(self) -> int:
        """The newest committed revision."""
        ...

    @property
    def trouble(self) -> str:
        """Why the last commit failed; empty if it did not."""
        ...

    async def open(self, deliver: Deliver) -> None:
        """Deliver everything that is stored, sorted by key, and from then on every committed change in order."""
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
        """Finish what is under way and let go of all resources."""
        ...
