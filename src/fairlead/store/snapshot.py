"""Snapshots: everything that a cluster has stored at one moment, in one file that is verified before it gets its name.

A snapshot is a copy of the database. It can be taken while a server runs, because SQLite shows every reader one
consistent state. A restored cluster continues with much higher revisions: clients may have seen revisions later than
the snapshot's, and those must not occur again with other contents.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from fairlead.store import database, wal
from fairlead.store.base import History
from fairlead.store.database import REVISION_KEY, Contents, Damaged
from fairlead.store.directory import database_in, held

#: How far ahead of the snapshot a restored cluster continues (the number that etcd recommends).
REVISIONS_AHEAD: Final = 1_000_000_000


class NothingThere(Exception):
    """No cluster was stored in that file."""


def check(path: Path, *, is_served: bool = False) -> Contents:
    """Everything in a database or snapshot. Raises NothingThere, Damaged or WrongFormat. `is_served`: by a server."""
    contents = database.load(path, is_served=is_served)
    if contents is None:
        raise NothingThere(f"no cluster is stored in {path}")
    return contents


def save(source: Path, target: Path, *, is_served: bool) -> Contents:
    """Copy a database to a new file. Raises FileExistsError, and what `check` raises."""
    if not is_served:
        check(source)  # before SQLite opens it and drops unreadable parts of the log
    with _new(target) as part:
        _copy(source, part)
        return check(part)


def restore(snapshot: Path, data_dir: Path) -> Contents:
    """Begin a data directory with a snapshot. Raises FileExistsError, DataDirInUse, and what `check` raises."""
    contents = check(snapshot)
    with held(data_dir):
        target = database_in(data_dir)
        if wal.has_log(target):
            raise FileExistsError(str(wal.log_of(target)))
        with _new(target) as part:
            _copy(snapshot, part)
            ahead = contents.revision + REVISIONS_AHEAD
            if contents.format != database.FORMAT:
                database.upgrade(part, contents)
            with closing(sqlite3.connect(part, isolation_level=None)) as db:
                database.put(db, [(REVISION_KEY, ahead, b"")])
                database.forget_history(db, ahead)
            kept = msgspec.structs.replace(contents, format=database.FORMAT, revision=ahead, history=History(ahead))
            if check(part) != kept:
                raise Damaged(f"{part} does not hold what was written to it")
    return contents


def _copy(source: Path, target: Path) -> None:
    with database.reading(source) as db, closing(sqlite3.connect(target)) as copy:
        db.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # so that it is one file


@contextmanager
def _new(target: Path) -> Iterator[Path]:
    """A temporary file that is renamed to the target once it is complete and synced. Raises FileExistsError."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
    part = target.with_name(f".{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        part.touch(mode=0o600)
        yield part
        _sync(part)
        part.replace(target)
        _sync(target.parent)
    except BaseException:
        for path in (part, target):
            path.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
