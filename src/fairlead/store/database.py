"""The SQLite file: its layout, and reading it with checks.

A disk may return other bytes than were written, and SQLite does not notice most of that. So every row has a checksum,
and a file is read whole before it is used: the log, the pages, every row, and the newest revision, which no row may
exceed. A damaged file is left as it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from urllib.parse import quote
from zlib import crc32

import msgspec

from fairlead.store import wal
from fairlead.store.base import History, PastChange, Record

#: The layout of the file. The older ones, without checksums or history, are upgraded; any other is refused.
FORMAT = 3
_WITHOUT_CHECKSUMS, _WITHOUT_HISTORY = 1, 2

_COLUMNS = {"key": "TEXT", "revision": "INTEGER", "value": "BLOB", "checksum": "INTEGER"}
_CREATE = (
    "CREATE TABLE objects (key TEXT PRIMARY KEY, revision INTEGER NOT NULL, value BLOB NOT NULL, "
    "checksum INTEGER NOT NULL)"
)
#: The row that holds the newest revision, even if that was a deletion. Keys of objects begin with a slash.
REVISION_KEY = "revision"
#: How the keys of history begin: a row for each change, under the revision at which it was made. Its value is the key
#: that changed, a line end, and what the key held before, if anything; its revision is that of what it held.
_HISTORY = "history/"
#: The heading of SQLite's integrity report.
_HEADLINE = "*** in database main ***"
#: How many rows one statement writes at most (SQLite allows 32,766 parameters).
ROWS = 1000

Row = tuple[str, int, bytes]


class WrongFormat(Exception):
    """The file was written by another version of Fairlead."""


class Damaged(Exception):
    """The file does not hold what was written to it; the message says where."""


class Contents(msgspec.Struct, frozen=True):
    """What a file holds."""

    format: int
    objects: dict[str, Record]
    revision: int
    history: History


class _Metadata(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion")


class _Object(msgspec.Struct):
    metadata: _Metadata


_read = msgspec.json.Decoder(_Object).decode


def load(path: Path, *, expects_data: bool = False, is_served: bool = False) -> Contents | None:
    """Everything in the file, checked; None if nothing was ever written to it. Changes nothing.

    `expects_data`: an empty file has lost its content. `is_served`: a server has it open.
    Raises WrongFormat, Damaged, or sqlite3.OperationalError if it cannot be read.
    """
    if not path.exists() or path.stat().st_size == 0:
        if wal.has_log(path) or (expects_data and path.exists()):
            raise Damaged(f"{path} is empty or missing, though a cluster was kept there")
        return None
    if not is_served and wal.has_lost(path):
        raise Damaged(f"{wal.log_of(path)} is damaged: committed changes in it cannot be read")
    with reading(path) as db:
        try:
            return _contents(db, path)
        except sqlite3.OperationalError:
            raise
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # names in the schema may be no text any more
            raise Damaged(f"{path} is damaged: {error}") from None


def create(path: Path) -> None:
    """Make an empty database; only its owner may read it, and SQLite gives its side files the same mode."""
    path.touch(mode=0o600)
    with closing(connect(path)) as db, transaction(db):
        db.execute(_CREATE)
        db.execute(f"PRAGMA user_version={FORMAT}")


def upgrade(path: Path, contents: Contents) -> None:
    """Rewrite a file of the older format with checksums; `contents` is what was read from it."""
    with closing(connect(path)) as db, transaction(db):
        db.execute("DROP TABLE objects")
        db.execute(_CREATE)
        rows = [(key, record.revision, record.value) for key, record in contents.objects.items()]
        put(db, [*rows, (REVISION_KEY, contents.revision, b"")])
        db.execute(f"PRAGMA user_version={FORMAT}")


def history_row(change: PastChange) -> Row:
    """The row that keeps a change."""
    old = change.replaced
    return (
        _history_key(change.revision),
        old.revision if old else 0,
        b"%b\n%b" % (change.key.encode(), old.value if old else b""),
    )


def forget_history(db: sqlite3.Connection, revision: int) -> None:
    """Drop the changes up to that revision."""
    db.execute("DELETE FROM objects WHERE key >= ? AND key <= ?", (_HISTORY, _history_key(revision)))


def _history_key(revision: int) -> str:
    return f"{_HISTORY}{revision:019}"


def connect(path: Path) -> sqlite3.Connection:
    """A connection for writing: a commit returns once it is on the disk."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("PRAGMA cache_size=-4000")
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All of the block, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def put(db: sqlite3.Connection, rows: list[Row]) -> None:
    """Write rows with their checksums: up to ROWS of them in one statement."""
    for start in range(0, len(rows), ROWS):
        some = [(*row, checksum(*row)) for row in rows[start : start + ROWS]]
        places = ",".join(["(?,?,?,?)"] * len(some))
        db.execute(f"INSERT OR REPLACE INTO objects VALUES {places}", list(chain.from_iterable(some)))


def checksum(key: str, revision: int, value: bytes) -> int:
    return crc32(value, crc32(b"%d %b" % (revision, key.encode())))


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection. It creates no files beside the database unless a writer has a log there."""
    alone = "" if wal.log_of(path).exists() else "&immutable=1"
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro{alone}", uri=True, isolation_level=None)) as db:
        db.text_factory = _text
        yield db


def _text(raw: bytes) -> str:
    """Decodes any bytes: a key that is not UTF-8 is found by its checksum."""
    return raw.decode(errors="surrogateescape")


def _contents(db: sqlite3.Connection, path: Path) -> Contents | None:
    db.execute("BEGIN")  # all that follows sees one state
    (format_,) = db.execute("PRAGMA user_version").fetchone()
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    if not format_ and not tables:
        return None  # the process that created it was killed before it made the table
    if format_ and format_ not in (FORMAT, _WITHOUT_CHECKSUMS, _WITHOUT_HISTORY):
        raise WrongFormat(f"{path} has format {format_}, this version reads format {FORMAT}")
    has_checksums = format_ != _WITHOUT_CHECKSUMS
    columns = dict(_COLUMNS) if has_checksums else {name: _COLUMNS[name] for name in ("key", "revision", "value")}
    if {name: type_ for _, name, type_, *_ in db.execute("PRAGMA table_info(objects)")} != columns:
        raise Damaged(f"{path} is damaged: it has no table of objects in format {format_}")
    for (trouble,) in db.execute("PRAGMA integrity_check(1)"):
        if trouble != "ok":
            raise Damaged(f"{path} is damaged: {trouble.removeprefix(_HEADLINE).strip()}")
    rows = dict(_rows(db, path, has_checksums=has_checksums))
    newest = rows.pop(REVISION_KEY, None)
    revision = newest.revision if newest else 0
    changes = [_past_change(key, rows.pop(key)) for key in sorted(key for key in rows if key.startswith(_HISTORY))]
    if any(record.revision > revision for record in rows.values()):
        raise Damaged(f"{path} is damaged: its newest revision is missing")
    return Contents(format_, rows, revision, _history(changes, revision))


def _past_change(key: str, record: Record) -> PastChange:
    changed, _, value = record.value.partition(b"\n")
    replaced = Record(value, record.revision) if value else None
    return PastChange(int(key.removeprefix(_HISTORY)), changed.decode(), replaced)


def _history(changes: list[PastChange], revision: int) -> History:
    """The changes, if they lead without a gap to the present."""
    if not changes or changes[-1].revision != revision or len(changes) != revision - changes[0].revision + 1:
        return History(revision)
    return History(changes[0].revision - 1, changes)


def _rows(db: sqlite3.Connection, path: Path, *, has_checksums: bool) -> Iterator[tuple[str, Record]]:
    for key, revision, value, *checksums in db.execute("SELECT * FROM objects"):
        is_whole = isinstance(key, str) and type(revision) is int and type(value) is bytes
        if is_whole and has_checksums:
            is_whole = checksums == [_checksum_of(key, revision, value)]
        if not is_whole or not (key == REVISION_KEY or _is_right(key, value, revision)):
            raise Damaged(f"{path} is damaged: the record of {_shown(key)} is not what was written")
        yield key, Record(value, revision)


def _checksum_of(key: str, revision: int, value: bytes) -> int | None:
    try:
        return checksum(key, revision, value)
    except UnicodeEncodeError:
        return None


def _is_right(key: str, value: bytes, revision: int) -> bool:
    """Whether a row holds what a row of that key may hold."""
    if not key.startswith(_HISTORY):
        return _is_object(value, revision)
    changed, _, old = value.partition(b"\n")
    return (
        key.removeprefix(_HISTORY).isdecimal() and changed.startswith(b"/") and (not old or _is_object(old, revision))
    )


def _is_object(value: bytes, revision: int) -> bool:
    """Whether a value is JSON of the form that `Store` asks for, under that revision."""
    try:
        return _read(value).metadata.resource_version == str(revision)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _shown(key: object) -> str:
    return ascii(key) if not isinstance(key, str) or not key.isprintable() or not key.isascii() else key
