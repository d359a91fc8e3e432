"""A file that was damaged is refused with one sentence, or holds exactly what was written to it; nothing in between."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from fairlead.store import wal
from fairlead.store.base import Record, StoreChange, StoreUnavailable
from fairlead.store.database import FORMAT, Damaged, WrongFormat
from fairlead.store.sqlite import SQLiteStore
from tests.store.test_conformance import value

#: Writes, deletes and dies, leaving the last writes in the log.
WRITER = """
import asyncio, os, sys
from pathlib import Path
from fairlead.api.encoded import storable
from fairlead.store.sqlite import SQLiteStore

async def main():
    store = SQLiteStore(Path(sys.argv[1]))
    await store.open(lambda changes: None)
    for number in range(60):
        record = await store.put(f"/pods/n/{number}", storable({"pad": "x" * 700}, "Thing", "v1"), 0)
        if number % 5 == 0:
            await store.delete(f"/pods/n/{number}", record.revision)
    if sys.argv[2] == "closed":
        await store.close()
    os._exit(9)

asyncio.run(main())
"""

State = tuple[list[tuple[str, Record]], int]


async def opened(path: Path, *, expects_data: bool = True) -> State:
    store = SQLiteStore(path, expects_data=expects_data)
    try:
        await store.open(lambda changes: None)
        return await store.scan("/"), store.revision
    finally:
        await store.close()


@pytest.fixture(scope="module", params=["closed", "killed"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-c", WRITER, str(folder / "store.db"), request.param], check=False)
    return folder


@pytest.mark.parametrize("seed", range(60))
def test_flipped_bytes_are_noticed_or_do_not_matter(written: Path, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    for name in ("whole", "damaged"):
        shutil.copytree(written, tmp_path / name)
    expected = asyncio.run(opened(tmp_path / "whole" / "store.db"))
    files = [
        file for file in sorted((tmp_path / "damaged").iterdir()) if file.stat().st_size and "shm" not in file.name
    ]
    file = random.choice(files)
    content = bytearray(file.read_bytes())
    for _ in range(random.choice((1, 1, 3))):
        content[random.randrange(len(content))] ^= random.randrange(1, 256)
    file.write_bytes(content)
    found = _state_or_refusal(tmp_path / "damaged" / "store.db")
    assert isinstance(found, str) or found == expected
    if isinstance(found, str):
        assert file.read_bytes() == bytes(content)  # left as it was found
        assert isinstance(_state_or_refusal(tmp_path / "damaged" / "store.db"), str)  # however often it is tried


def _state_or_refusal(path: Path) -> State | str:
    try:
        return asyncio.run(opened(path))
    except (Damaged, WrongFormat, sqlite3.OperationalError) as refusal:
        text = str(refusal)
        assert "\n" not in text
        return text


def test_the_refusal_names_the_record(written: Path, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for file in written.iterdir():
        shutil.copy(file, tmp_path / file.name)
    asyncio.run(opened(path))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE objects SET value = replace(value, 'xxx', 'xyx') WHERE key = '/pods/n/7'")
    with pytest.raises(Damaged, match="the record of /pods/n/7 is not what was written"):
        asyncio.run(opened(path))


def test_an_empty_file_where_a_cluster_was_is_refused_but_a_missing_one_is_new(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    assert asyncio.run(opened(path)) == ([], 0)
    path.write_bytes(b"")
    with pytest.raises(Damaged, match="is empty or missing"):
        asyncio.run(opened(path))
    assert asyncio.run(opened(path, expects_data=False)) == ([], 0)


def test_a_log_without_its_database_is_refused(written: Path, tmp_path: Path) -> None:
    if not wal.has_log(written / "store.db"):
        return
    shutil.copy(written / "store.db-wal", tmp_path)
    with pytest.raises(Damaged, match="is empty or missing"):
        asyncio.run(opened(tmp_path / "store.db", expects_data=False))


@pytest.mark.parametrize("is_good", [True, False])
def test_a_file_of_the_first_format_is_checked_and_gets_its_checksums(tmp_path: Path, is_good: bool) -> None:
    path = tmp_path / "store.db"
    raw = b'{"metadata":{"resourceVersion":"3","name":"a"}}' if is_good else b'{"metadata":{"resourceVersion":"3",,}}'
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE objects (key TEXT PRIMARY KEY, revision INTEGER NOT NULL, value BLOB NOT NULL)")
        db.executemany("INSERT INTO objects VALUES (?,?,?)", [("/a", 3, raw), ("revision", 4, b"")])
        db.execute("PRAGMA user_version=1")
    if not is_good:
        with pytest.raises(Damaged, match="the record of /a"):
            asyncio.run(opened(path))
        return
    for _ in range(2):
        assert asyncio.run(opened(path)) == ([("/a", Record(raw, 3))], 4)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (FORMAT,)


def _moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def _replaced(folder: Path) -> None:
    shutil.copy(folder / "store.db", folder / "copy")
    (folder / "copy").rename(folder / "store.db")


@pytest.mark.parametrize(
    "take_away",
    [shutil.rmtree, _moved, _replaced, lambda folder: (folder / "store.db-wal").unlink()],
    ids=["removed", "moved", "replaced", "without its log"],
)
def test_nothing_is_acknowledged_into_a_file_that_is_gone(tmp_path: Path, take_away: object) -> None:
    folder = tmp_path / "data"
    folder.mkdir()

    async def main() -> None:
        store, delivered = SQLiteStore(folder / "store.db"), list[StoreChange]()
        await store.open(delivered.extend)
        kept = await store.put("/a", value(), 0)
        assert callable(take_away)
        take_away(folder)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="was removed or replaced"):
                await store.put("/b", value(), 0)
        assert (await store.head("/a")).record == kept  # and what is there can still be read
        assert await store.scan("/") == [("/a", kept)]
        assert _keys(delivered) == ["/a"]
        with pytest.raises(StoreUnavailable, match="was removed or replaced"):
            await store.close()

    asyncio.run(main())


def _keys(changes: Sequence[StoreChange]) -> list[str]:
    return [change.key for change in changes]
