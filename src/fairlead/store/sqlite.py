"""The SQLite store: the embedded default, where acknowledged means fsynced.

Commits run in one thread, because an fsync would stall the event loop. After each commit, and before it is
acknowledged, the driver checks that the file is still in its place: SQLite goes on writing to a file that was deleted.
Once it is gone, every write is refused; what is in memory can still be read.
"""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from fairlead.store import database, wal
from fairlead.store.base import Deliver, StoreChange, StoreUnavailable
from fairlead.store.embedded import EmbeddedStore

_FileId: TypeAlias = tuple[int, int]


class SQLiteStore(EmbeddedStore):
    """Keeps everything in one SQLite file."""

    def __init__(self, path: Path, *, expects_data: bool = False) -> None:
        """`expects_data`: a cluster was kept there, so that an empty file is one that lost its content."""
        super().__init__()
        self._path, self._expects_data = path, expects_data
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        self._db: sqlite3.Connection
        self._files: dict[Path, _FileId | None] = {}
        self._gone = ""  # why nothing is written any more

    async def open(self, deliver: Deliver) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._load)
        await super().open(deliver)

    async def close(self) -> None:
        """Close the file. Raises StoreUnavailable if it was removed or replaced: then nothing was kept."""
        await super().close()
        if hasattr(self, "_db"):  # opening may have failed before there was a connection
            await asyncio.get_running_loop().run_in_executor(self._thread, self._db.close)
        self._thread.shutdown()
        if self._gone:
            raise StoreUnavailable(self._gone)

    def _load(self) -> None:
        contents = database.load(self._path, expects_data=self._expects_data)
        if contents is None:
            database.create(self._path)
        else:
            self._head, self._last = contents.objects, contents.revision
            if contents.format != database.FORMAT:
                database.upgrade(self._path, contents)
        self._committed = self._last
        self._db = database.connect(self._path)
        with database.transaction(self._db):
            pass  # makes the log, if there is none yet
        self._files = {file: _identity(file) for file in (self._path, wal.log_of(self._path))}

    async def _persist(self, changes: list[StoreChange]) -> None:
        if self._gone:
            raise StoreUnavailable(self._gone)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, changes)
        # Here, not in the thread: after each system call the thread would wait for the GIL again (decision 3).
        for file, known in self._files.items():
            if _identity(file) != known:
                self._gone = f"{file} was removed or replaced while this server works on it"
                raise StoreUnavailable(self._gone)

    def _transact(self, changes: list[StoreChange]) -> None:
        """Write a group. It is nearly always one statement, so that this thread takes the GIL only once."""
        newest = {change.key: change for change in changes}
        rows = [(c.key, c.record.revision, c.record.value) for c in newest.values() if c.record]
        rows.append((database.REVISION_KEY, changes[-1].revision, b""))
        gone = [change.key for change in newest.values() if not change.record]
        if not gone and len(rows) <= database.ROWS:
            database.put(self._db, rows)
            return
        with database.transaction(self._db):
            database.put(self._db, rows)
            self._db.executemany("DELETE FROM objects WHERE key = ?", [(key,) for key in gone])


def _identity(path: Path) -> _FileId | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
