"""The SQLite store: the embedded default, where acknowledged means fsynced.

Writes take their revision at once and are committed in groups by one writer thread: while a group is being
fsynced, the next one gathers. So a thousand writers pay for a few fsyncs, and the order of revisions is the order on
disk. Should a commit fail, everything that was not yet durable is undone in memory and refused.

    put ─▶ _gathering ──(writer free)──▶ one transaction, fsync ──▶ delivered ──▶ put returns
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

from fairlead.store.base import Change, Deliver, Record, StoreUnavailable
from fairlead.store.memory import MemoryStore, Write

log = logging.getLogger(__name__)

#: The layout of the file; a file of another layout is refused.
FORMAT = 1

_SCHEMA = "CREATE TABLE IF NOT EXISTS objects (key TEXT PRIMARY KEY, revision INTEGER NOT NULL, value BLOB NOT NULL)"
#: The row that holds the newest revision, even if that was a deletion. Keys of objects begin with a slash.
_REVISION_KEY = "revision"
#: While several write at once, a group waits this long for more to come: fewer, larger commits cost far less.
LINGER_SECONDS = 0.002
#: How many rows one statement writes at most (SQLite allows 32,766 parameters).
_ROWS = 1000


class WrongFormat(Exception):
    """The file was written by another version of Fairlead."""


class SQLiteStore(MemoryStore):
    """Keeps everything in one SQLite file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        self._gathering: list[tuple[Write, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._db: sqlite3.Connection

    async def open(self, deliver: Deliver) -> None:
        loop = asyncio.get_running_loop()
        self._head, self._last = await loop.run_in_executor(self._thread, self._load)
        self._committed = self._last
        await super().open(deliver)

    async def close(self) -> None:
        while self._writer is not None:
            await asyncio.shield(self._writer)
        if hasattr(self, "_db"):  # opening may have failed before there was a connection
            await asyncio.get_running_loop().run_in_executor(self._thread, self._db.close)
        self._thread.shutdown()

    def _load(self) -> tuple[dict[str, Record], int]:
        self._path.touch(mode=0o600)  # secrets are in it; SQLite gives its side files the same mode
        self._db = db = sqlite3.connect(self._path, isolation_level=None)
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found not in (0, FORMAT):
            db.close()
            raise WrongFormat(f"{self._path} has format {found}, this version reads format {FORMAT}")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA cache_size=-4000")
        db.execute(_SCHEMA)
        db.execute(f"PRAGMA user_version={FORMAT}")
        rows = {key: Record(value, revision) for key, revision, value in db.execute("SELECT * FROM objects")}
        newest = rows.pop(_REVISION_KEY, None)
        return rows, newest.revision if newest else 0

    async def _commit(self, write: Write) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gathering.append((write, done))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_groups(), name="sqlite writer")
        await done

    async def _write_groups(self) -> None:
        try:
            group: list[tuple[Write, asyncio.Future[None]]] = []
            while self._gathering:
                if len(group) > 1:
                    await asyncio.sleep(LINGER_SECONDS)
                group, self._gathering = self._gathering, []
                await self._write_group(group)
        finally:
            self._writer = None

    async def _write_group(self, group: list[tuple[Write, asyncio.Future[None]]]) -> None:
        """Commit, deliver, answer. Whatever goes wrong, no writer may be left waiting."""
        changes = [write.change for write, _ in group]
        failure: Exception | None = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, changes)
        except Exception as error:
            self._undo(group, error)
            return
        try:
            self._publish([write for write, _ in group])
        except Exception as error:
            failure = error
        for _, done in group:
            if done.done():  # its request was cancelled meanwhile
                continue
            if failure:
                done.set_exception(failure)
            else:
                done.set_result(None)

    def _transact(self, changes: list[Change]) -> None:
        """Write a group. Almost always that is one statement, so that this thread needs the GIL but once."""
        newest = {change.key: change for change in changes}
        rows = [(c.key, c.record.revision, c.record.value) for c in newest.values() if c.record]
        rows.append((_REVISION_KEY, changes[-1].revision, b""))
        gone = [change.key for change in newest.values() if not change.record]
        if not gone and len(rows) <= _ROWS:
            self._put_rows(rows)
            return
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            for start in range(0, len(rows), _ROWS):
                self._put_rows(rows[start : start + _ROWS])
            db.executemany("DELETE FROM objects WHERE key = ?", [(key,) for key in gone])
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _put_rows(self, rows: list[tuple[str, int, bytes]]) -> None:
        places = ",".join(["(?,?,?)"] * len(rows))
        self._db.execute(f"INSERT OR REPLACE INTO objects VALUES {places}", list(chain.from_iterable(rows)))

    def _undo(self, group: list[tuple[Write, asyncio.Future[None]]], error: Exception) -> None:
        """Refuse this group and what gathered behind it, newest first, so that the oldest state wins."""
        log.error("cannot write to %s: %s", self._path, error)
        behind, self._gathering = self._gathering, []
        for write, done in reversed(group + behind):
            if write.replaced is None:
                self._head.pop(write.change.key, None)
            else:
                self._head[write.change.key] = write.replaced
            if not done.done():
                done.set_exception(StoreUnavailable(str(error)))
