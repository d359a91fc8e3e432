"""History on disk: who watched before a restart goes on where they were (X-04)."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.api.encoded import storable
from fairlead.store import database, snapshot, sqlite
from fairlead.store.base import History, Record, StoreChange
from fairlead.store.directory import database_in
from fairlead.store.sqlite import SQLiteStore
from tests.examples import examples


def value(text: str) -> bytes:
    return storable({"metadata": {"name": text}}, "Thing", "v1")


async def opened(path: Path) -> tuple[SQLiteStore, list[StoreChange]]:
    store, delivered = SQLiteStore(path), list[StoreChange]()
    await store.open(delivered.extend)
    return store, delivered


async def write(store: SQLiteStore, key: str, text: str | None) -> None:
    """Put, or delete where there is no text."""
    record = (await store.head(key)).record
    if text is not None:
        await store.put(key, value(text), record.revision if record else 0)
    elif record is not None:
        await store.delete(key, record.revision)


def undone(state: dict[str, Record], history: History) -> list[dict[str, Record]]:
    """The states that history leads back to, newest first."""
    states = [dict(state)]
    for change in reversed(history.changes):
        if change.replaced is None:
            state.pop(change.key, None)
        else:
            state[change.key] = change.replaced
        states.append(dict(state))
    return states


STEPS = st.lists(st.tuples(st.sampled_from(["/a", "/b", "/c"]), st.none() | st.text("xyz", max_size=3)), max_size=12)


@settings(max_examples=examples(20), deadline=None)
@given(STEPS, STEPS, st.booleans())
def test_history_leads_back_through_every_state(
    first: Sequence[tuple[str, str | None]], second: Sequence[tuple[str, str | None]], together: bool
) -> None:
    async def main(path: Path) -> None:
        seen: list[dict[str, Record]] = [{}]
        for steps in (first, second):
            store, _ = await opened(path)
            for step in steps:
                before = store.revision
                await write(store, *step)
                if store.revision != before:
                    seen.append(dict(await store.scan("/")))
            if together:  # as one group
                await asyncio.gather(*(write(store, f"/g{number}", "g") for number in range(3)))
                seen = seen[:-1] + [seen[-1]] * 3 + [dict(await store.scan("/"))]
            await store.close()
        store, _ = await opened(path)
        history = store.take_history()
        states = undone(dict(await store.scan("/")), history)
        if history.changes:
            assert history.compacted == 0
            assert [change.revision for change in history.changes] == list(range(1, store.revision + 1))
            assert states[-1] == {}
            if not together:
                assert states == seen[::-1]
        assert store.take_history() == History(store.revision)  # once
        await store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder, "store.db")))


def rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        count: int = db.execute("SELECT count(*) FROM objects WHERE key LIKE 'history/%'").fetchone()[0]
    return count


def test_no_more_is_kept_than_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "HISTORY_CHANGES", 50)
    monkeypatch.setattr(sqlite, "_LUMP", 10)

    async def main() -> None:
        store, _ = await opened(tmp_path / "store.db")
        for number in range(200):
            await write(store, "/a", str(number))
        await store.close()
        assert rows(tmp_path / "store.db") <= 62
        store, _ = await opened(tmp_path / "store.db")
        history = store.take_history()
        assert [change.revision for change in history.changes] == list(range(history.compacted + 1, 201))
        await store.close()

    asyncio.run(main())


def test_what_is_compacted_is_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        store, _ = await opened(tmp_path / "store.db")
        for number in range(5):
            await write(store, "/a", str(number))
        store.compact(3)
        await write(store, "/a", "more")
        await store.close()
        store, _ = await opened(tmp_path / "store.db")
        history = store.take_history()
        assert (history.compacted, [change.revision for change in history.changes]) == (3, [4, 5, 6])
        await store.close()

    asyncio.run(main())


def test_a_restored_snapshot_has_no_history(tmp_path: Path) -> None:
    """Its revisions begin anew, far ahead: nobody can go on from those before."""

    async def main() -> None:
        store, _ = await opened(tmp_path / "store.db")
        await write(store, "/a", "1")
        await store.close()
        snapshot.save(tmp_path / "store.db", tmp_path / "saved.db", is_served=False)
        snapshot.restore(tmp_path / "saved.db", tmp_path / "restored")
        store, delivered = await opened(database_in(tmp_path / "restored"))
        assert store.take_history() == History(1 + snapshot.REVISIONS_AHEAD)
        assert [change.key for change in delivered] == ["/a"]
        await store.close()

    asyncio.run(main())


def test_a_file_of_the_format_before_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        store, _ = await opened(path)
        await write(store, "/a", "1")
        await store.close()
        with closing(sqlite3.connect(path)) as db:
            db.execute("DELETE FROM objects WHERE key LIKE 'history/%'")
            db.execute("PRAGMA user_version=2")
            db.commit()
        store, delivered = await opened(path)
        assert store.take_history() == History(1)
        assert [change.key for change in delivered] == ["/a"]
        await write(store, "/a", "2")
        await store.close()
        contents = database.load(path)
        assert contents is not None
        assert (contents.format, [change.revision for change in contents.history.changes]) == (3, [2])

    asyncio.run(main())


def test_a_damaged_row_of_history_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    async def main() -> None:
        store, _ = await opened(path)
        await write(store, "/a", "1")
        await write(store, "/a", "2")
        await store.close()

    asyncio.run(main())
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE objects SET value = x'2f610a' WHERE key = ?", (f"history/{2:019}",))
        db.commit()
    with pytest.raises(database.Damaged, match="is not what was written"):
        database.load(path)
