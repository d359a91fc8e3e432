"""The SQLite store: the embedded default, where acknowledged means fsynced.

Commits run in one thread, because an fsync would stall the event loop. After each commit, and before it is
acknowledged, the driver checks that the file is still in its place: SQLite goes on writing to a file that was deleted.
Once it is gone, every write is refused; what is in memory can still be read.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from fairlead.runtime.clock import monotonic
from fairlead.store import database, wal
from fairlead.store.base import Deliver, History, PastChange, Record, StoreUnavailable
from fairlead.store.embedded import EmbeddedStore, PendingWrite

#: History is kept for this long (kube-apiserver's --etcd-compaction-interval), and no more of it than that.
HISTORY_SECONDS: Final = 300.0
HISTORY_CHANGES: Final = 20_000
HISTORY_BYTES: Final = 32 << 20
#: It is dropped in lumps, as most groups of writes are to be one statement; and never so much that a group takes long.
_LUMP: Final = 2000

_FileId: TypeAlias = tuple[int, int]


class _Kept(NamedTuple):
    """The history of one group of writes."""

    moment: float
    revision: int
    changes: int
    size: int


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
        self._loaded = History(0)
        self._kept: deque[_Kept] = deque()
        self._kept_changes = self._kept_bytes = 0
        self._compacted = 0  # asked for, and perhaps still on disk

    @property
    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in self._files if file.exists())

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
            self._head, self._last, self._loaded = contents.objects, contents.revision, contents.history
            if contents.format != database.FORMAT:
                database.upgrade(self._path, contents)
        self._committed = self._last
        self._db = database.connect(self._path)
        with database.transaction(self._db):
            pass  # makes the log, if there is none yet
        self._files = {file: _identity(file) for file in (self._path, wal.log_of(self._path))}

    def take_history(self) -> History:
        history, self._loaded = self._loaded, History(self._committed)
        if history.changes:
            self._note_kept([change.replaced for change in history.changes], self._committed)
        return history

    def compact(self, revision: int) -> None:
        self._compacted = max(self._compacted, revision)

    async def _persist(self, writes: list[PendingWrite]) -> None:
        if self._gone:
            raise StoreUnavailable(self._gone)
        cut = self._cut()
        working = asyncio.get_running_loop().run_in_executor(self._thread, self._transact, writes, cut)
        while not working.done():  # the thread goes on, whatever becomes of this task
            with suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        working.result()
        self._note_kept([write.replaced for write in writes], writes[-1].change.revision)
        # Here, not in the thread: after each system call the thread would wait for the GIL again (decision 3).
        for file, known in self._files.items():
            if _identity(file) != known:
                self._gone = f"{file} was removed or replaced while this server works on it"
                raise StoreUnavailable(self._gone)

    def _transact(self, writes: list[PendingWrite], cut: int) -> None:
        """Write a group. It is nearly always one statement, so that this thread takes the GIL only once.

        History up to the revision `cut` is dropped.
        """
        newest = {write.change.key: write.change for write in writes}
        rows = [(c.key, c.record.revision, c.record.value) for c in newest.values() if c.record]
        past = (PastChange(write.change.revision, write.change.key, write.replaced) for write in writes)
        rows.extend(map(database.history_row, past))
        rows.append((database.REVISION_KEY, writes[-1].change.revision, b""))
        gone = [change.key for change in newest.values() if not change.record]
        if not gone and not cut and len(rows) <= database.ROWS:
            database.put(self._db, rows)
            return
        with database.transaction(self._db):
            database.put(self._db, rows)
            self._db.executemany("DELETE FROM objects WHERE key = ?", [(key,) for key in gone])
            if cut:
                database.forget_history(self._db, cut)

    def _note_kept(self, replaced: list[Record | None], revision: int) -> None:
        size = sum(len(record.value) for record in replaced if record)
        self._kept.append(_Kept(monotonic(), revision, len(replaced), size))
        self._kept_changes += len(replaced)
        self._kept_bytes += size

    def _cut(self) -> int:
        """Up to which revision history is dropped now; 0 for none, as long as it would be little."""
        cut, dropped = self._compacted, 0
        self._compacted = 0
        oldest = monotonic() - HISTORY_SECONDS
        is_much = self._kept_changes > HISTORY_CHANGES + _LUMP or self._kept_bytes > HISTORY_BYTES * 1.1
        is_old = bool(self._kept) and self._kept[0].moment < oldest - HISTORY_SECONDS / 5
        while self._kept and dropped < _LUMP:
            first = self._kept[0]
            is_surplus = is_much and (self._kept_changes > HISTORY_CHANGES or self._kept_bytes > HISTORY_BYTES)
            if not (first.revision <= cut or is_surplus or (is_old and first.moment < oldest)):
                break
            self._kept.popleft()
            self._kept_changes -= first.changes
            self._kept_bytes -= first.size
            cut, dropped = max(cut, first.revision), dropped + first.changes
        return cut


def _identity(path: Path) -> _FileId | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
