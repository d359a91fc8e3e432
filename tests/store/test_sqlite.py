"""What the SQLite driver promises beyond the contract: acknowledged is durable, and a failed commit never happened."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from fairlead.store.base import Record, RevisionMismatch, StoreChange, StoreUnavailable
from fairlead.store.database import Damaged, WrongFormat
from fairlead.store.sqlite import SQLiteStore
from tests.store.test_conformance import value

#: Many writers at once on one store; every acknowledged write is told on stdout.
WRITERS = """
import asyncio, sys
from pathlib import Path
from fairlead.api.encoded import storable
from fairlead.store.sqlite import SQLiteStore

async def writer(store, name):
    for number in range(10**9):
        key = f"/{name}/{number % 50}"
        found = (await store.head(key)).record
        if found and number % 7 == 0:
            print(key, 0, await store.delete(key, found.revision), flush=True)
            continue
        value = storable({"n": number}, "Thing", "v1")
        record = await store.put(key, value, found.revision if found else 0)
        print(key, number + 1, record.revision, flush=True)

async def main():
    store = SQLiteStore(Path(sys.argv[1]))
    await store.open(lambda changes: None)
    await asyncio.gather(*(writer(store, name) for name in range(16)))

asyncio.run(main())
"""


def acknowledged_until_killed(path: Path, count: int) -> dict[str, tuple[int, int]]:
    """Let writers write, kill them without warning; the newest acknowledged (number + 1 or 0: deleted, revision)."""
    process = subprocess.Popen([sys.executable, "-c", WRITERS, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(count)]
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    process.wait()
    found = {}
    for line in lines:
        if line.endswith("\n"):  # the last one may be cut
            key, number, revision = line.split()
            found[key] = (int(number), int(revision))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_kill_nine_loses_nothing_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "store.db"
    acknowledged = acknowledged_until_killed(path, Random(seed).randrange(200, 1500))

    async def main() -> None:
        store, delivered = SQLiteStore(path), list[StoreChange]()
        await store.open(delivered.extend)
        for key, (number, revision) in acknowledged.items():
            found = (await store.head(key)).record
            if found is None:
                # deleted as told, or by the next write, whose answer did not get out
                assert number == 0 or store.revision > revision
            elif found.revision <= revision:
                assert (found.revision, number) == (revision, int(found.value.rpartition(b":")[2][:-1]) + 1)
        assert store.revision >= max(revision for _, revision in acknowledged.values())
        assert all(change.revision <= store.revision for change in delivered)
        for change in delivered:
            assert change.record is not None
            assert b'"resourceVersion":"%d"' % change.revision in change.record.value
        await store.close()

    asyncio.run(main())


def test_a_file_of_another_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    async def opened() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        try:
            await store.open(lambda changes: None)
        finally:
            await store.close()

    asyncio.run(opened())
    with sqlite3.connect(tmp_path / "store.db") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(WrongFormat, match="format 99"):
        asyncio.run(opened())
    with sqlite3.connect(tmp_path / "store.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (99,)


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_path_that_is_no_database_is_refused(tmp_path: Path, is_folder: bool) -> None:
    path = tmp_path / "store.db"
    if is_folder:
        path.mkdir()
    else:
        path.write_bytes(b"this is no database, " * 100)

    async def main() -> None:
        store = SQLiteStore(path)
        try:
            await store.open(lambda changes: None)
        finally:
            await store.close()

    with pytest.raises(sqlite3.OperationalError if is_folder else Damaged):
        asyncio.run(main())


@contextmanager
def full_disk(store: SQLiteStore) -> Iterator[None]:
    """No page can be added while the block runs."""
    asked = store._thread.submit(lambda: store._db.execute("PRAGMA page_count").fetchone()[0])
    store._thread.submit(store._db.execute, f"PRAGMA max_page_count={asked.result()}").result()
    try:
        yield
    finally:
        store._thread.submit(store._db.execute, "PRAGMA max_page_count=1000000").result()


def test_a_full_disk_refuses_writes_and_keeps_the_state_as_it_was(tmp_path: Path) -> None:
    large = value("x" * 100_000)

    async def main() -> None:
        store, delivered = SQLiteStore(tmp_path / "store.db"), list[StoreChange]()
        await store.open(delivered.extend)
        old = await store.put("/old", value("old"), 0)
        gone = await store.put("/gone", value(), 0)
        before = await store.scan("/")
        with full_disk(store):
            outcomes = await asyncio.gather(
                store.put("/old", large, old.revision),
                store.put("/new", large, 0),
                store.delete("/gone", gone.revision),
                store.put("/gone", large, 0),
                return_exceptions=True,
            )
            assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 4
            assert await store.scan("/") == before
            assert store.revision == gone.revision
        assert len(delivered) == 2

        again = await store.put("/old", large, old.revision)
        assert again.revision > gone.revision + 4  # a revision that somebody was shown is never given twice
        assert [change.key for change in delivered[2:]] == ["/old"]
        await store.close()

        reopened = SQLiteStore(tmp_path / "store.db")
        await reopened.open(lambda changes: None)
        assert await reopened.scan("/") == [("/gone", gone), ("/old", again)]
        await reopened.close()

    asyncio.run(main())


def test_a_write_on_top_of_one_that_fails_fails_with_it(tmp_path: Path) -> None:
    """The second writer saw the first one's value before it was durable; keeping the second would keep half."""

    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        await store.open(lambda changes: None)
        first = await store.put("/a", value("committed"), 0)
        with full_disk(store):
            large_write = asyncio.create_task(store.put("/a", value("x" * 100_000), first.revision))
            await asyncio.sleep(0)
            seen = (await store.head("/a")).record
            assert seen is not None
            assert seen.revision > first.revision
            await asyncio.sleep(0)  # the first group is on its way
            small_write = asyncio.create_task(store.put("/a", value("small"), seen.revision))
            outcomes = await asyncio.gather(large_write, small_write, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable, StoreUnavailable]
        assert (await store.head("/a")).record == first
        await store.close()

    asyncio.run(main())


def test_no_write_hangs_when_a_value_cannot_be_stored_at_all(tmp_path: Path) -> None:
    """Not only SQLite's own errors end a commit: whatever it is, every writer is told."""

    async def main() -> None:
        store = SQLiteStore(tmp_path / "store.db")
        await store.open(lambda changes: None)
        outcomes = await asyncio.wait_for(
            asyncio.gather(store.put("/\ud800", value(), 0), store.put("/b", value(), 0), return_exceptions=True), 10
        )
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 2
        assert isinstance(await store.put("/b", value(), 0), Record)
        await store.close()

    asyncio.run(main())


def test_a_consumer_that_fails_fails_the_write_and_leaves_nobody_waiting(tmp_path: Path) -> None:
    async def main() -> None:
        def deliver(changes: Sequence[StoreChange]) -> None:
            if any(change.key == "/bad" for change in changes):
                raise LookupError("the consumer is broken")

        store = SQLiteStore(tmp_path / "store.db")
        await store.open(deliver)
        with pytest.raises(LookupError):
            await asyncio.wait_for(store.put("/bad", value(), 0), 10)
        assert (await asyncio.wait_for(store.put("/good", value(), 0), 10)).revision == 2
        await store.close()

    asyncio.run(main())


def test_closing_finishes_what_is_under_way(tmp_path: Path) -> None:
    async def main() -> None:
        store, delivered = SQLiteStore(tmp_path / "store.db"), list[StoreChange]()
        await store.open(delivered.extend)
        writing = asyncio.create_task(store.put("/a", value(), 0))
        await asyncio.sleep(0)
        await store.close()
        assert (await writing).revision == 1
        assert len(delivered) == 1

    asyncio.run(main())


def test_a_thousand_writers_share_a_few_commits(tmp_path: Path) -> None:
    """Group commit: while one group is being synced, the next one gathers."""

    async def main() -> int:
        store, groups = SQLiteStore(tmp_path / "store.db"), list[int]()
        await store.open(lambda changes: groups.append(len(changes)))
        await asyncio.gather(*(store.put(f"/{number}", value(), 0) for number in range(1000)))
        assert sum(groups) == 1000
        with pytest.raises(RevisionMismatch):
            await store.put("/1", value(), 0)
        await store.close()
        return len(groups)

    assert asyncio.run(main()) <= 10


@pytest.mark.parametrize("turns", range(8))
def test_who_writes_is_answered_though_all_other_tasks_of_the_loop_are_ended(tmp_path: Path, turns: int) -> None:
    """As at the end of a loop: what takes back what somebody has begun is written, too, and would wait for ever."""

    async def main() -> None:
        store, delivered = SQLiteStore(tmp_path / "store.db"), list[StoreChange]()
        await store.open(delivered.extend)
        for number in range(4):
            writing = [asyncio.create_task(store.put(f"/{number}/{name}", value(), 0)) for name in "abc"]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task(), *writing}:
                task.cancel()
            writing.append(asyncio.create_task(store.put(f"/{number}/later", value(), 0)))
            async with asyncio.timeout(10):
                written = await asyncio.gather(*writing)
            assert [record.revision for record in written] == list(range(4 * number + 1, 4 * number + 5))
        await store.close()
        assert [change.revision for change in delivered] == list(range(1, 17))

    asyncio.run(main())
