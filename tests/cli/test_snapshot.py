"""`fairlead snapshot`: one moment of a cluster in one file, checked, and back without overwriting anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fairlead.cli.main import main
from fairlead.client.kubeconfig import load
from fairlead.store import database, snapshot
from fairlead.store.base import StoreChange
from fairlead.store.directory import database_in
from fairlead.store.sqlite import SQLiteStore
from tests.e2e.test_crash import API, CONFIG_MAPS, Client
from tests.processes import fairlead_up
from tests.store.test_conformance import value


def asked(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["snapshot", *map(str, arguments)])


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory with a few objects in it, of a server that has ended."""
    folder = tmp_path / "data"
    folder.mkdir()

    async def write() -> None:
        store = SQLiteStore(database_in(folder))
        await store.open(lambda changes: None)
        for number in range(20):
            await store.put(f"/pods/n/{number}", value(str(number)), 0)
        await store.close()

    asyncio.run(write())
    return folder


def test_what_was_saved_is_restored_under_revisions_that_nobody_knows(data_dir: Path, tmp_path: Path) -> None:
    file, target = tmp_path / "s.db", tmp_path / "other"
    saved = asked("save", file, "--data-dir", data_dir)
    assert (saved.exit_code, saved.output) == (0, f"Saved 20 objects at revision 20 to {file}.\n")
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert asked("check", file).output == f"{file} is whole: 20 objects at revision 20.\n"
    restored = asked("restore", file, "--data-dir", target)
    assert restored.output.startswith(f"Restored 20 objects at revision 20 into {target}. Start it with: fairlead up")

    async def opened() -> tuple[list[StoreChange], int]:
        store, delivered = SQLiteStore(database_in(target)), list[StoreChange]()
        await store.open(delivered.extend)
        record = await store.put("/pods/n/new", value(), 0)
        await store.close()
        return delivered[:20], record.revision

    delivered, revision = asyncio.run(opened())
    before = database.load(database_in(data_dir))
    assert before is not None
    assert {change.key: change.record for change in delivered} == before.objects
    assert revision > snapshot.REVISIONS_AHEAD
    assert {path.name for path in tmp_path.iterdir()} == {"data", "other", "s.db"}  # nothing is left behind


def test_nothing_is_overwritten(data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    assert asked("save", file, "--data-dir", data_dir).exit_code == 0
    content, stored = file.read_bytes(), database_in(data_dir).read_bytes()
    for refused in (asked("save", file, "--data-dir", data_dir), asked("restore", file, "--data-dir", data_dir)):
        assert refused.exit_code == 1
        assert "exists already and is not overwritten" in refused.output
    assert (file.read_bytes(), database_in(data_dir).read_bytes()) == (content, stored)


@pytest.mark.parametrize("arguments", [("check",), ("restore",)])
def test_a_damaged_snapshot_is_refused(data_dir: Path, tmp_path: Path, arguments: tuple[str]) -> None:
    file = tmp_path / "s.db"
    assert asked("save", file, "--data-dir", data_dir).exit_code == 0
    file.write_bytes(file.read_bytes().replace(b'"name":"7"', b'"name":"8"'))
    refused = asked(*arguments, file, "--data-dir", tmp_path / "other")
    assert refused.exit_code == 1
    assert refused.output == f"Error: {file} is damaged: the record of /pods/n/7 is not what was written.\n"
    assert not database_in(tmp_path / "other").exists()


def test_a_damaged_cluster_is_not_saved(data_dir: Path, tmp_path: Path) -> None:
    path = database_in(data_dir)
    path.write_bytes(path.read_bytes().replace(b'"name":"7"', b'"name":"8"'))
    for refused in (asked("save", tmp_path / "s.db", "--data-dir", data_dir), asked("check", "--data-dir", data_dir)):
        assert refused.exit_code == 1
        assert "the record of /pods/n/7" in refused.output
    assert not (tmp_path / "s.db").exists()


def test_there_must_be_something_to_save(tmp_path: Path) -> None:
    refused = asked("save", tmp_path / "s.db", "--data-dir", tmp_path / "nothing")
    assert (refused.exit_code, refused.output) == (
        1,
        f"Error: no cluster is stored in {tmp_path}/nothing/fairlead.db.\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_beside_writers_is_one_moment(tmp_path: Path) -> None:
    """Objects are written one after the other: no snapshot has one without those before it."""

    async def write() -> list[int]:
        store, counts = SQLiteStore(database_in(tmp_path)), list[int]()
        await store.open(lambda changes: None)

        async def writer() -> None:
            for number in range(400):
                await store.put(f"/pods/n/{number:03}", value(), 0)

        writing = asyncio.create_task(writer())
        while not writing.done():
            target = tmp_path / f"s{len(counts)}.db"
            contents = await asyncio.to_thread(snapshot.save, database_in(tmp_path), target, is_served=True)
            assert sorted(contents.objects) == [f"/pods/n/{number:03}" for number in range(contents.revision)]
            counts.append(contents.revision)
        await writing
        await store.close()
        return counts

    counts = asyncio.run(write())
    assert counts == sorted(counts)


def test_a_running_cluster_is_saved_and_its_snapshot_starts(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    with fairlead_up(tmp_path / "data", *API) as up:
        client = Client(load(up.kubeconfig))
        code, made = client.ask("POST", CONFIG_MAPS, {"metadata": {"name": "kept"}})
        assert code == 201
        assert asked("save", file, "--data-dir", up.data_dir).exit_code == 0
        assert asked("check", "--data-dir", up.data_dir).exit_code == 0
        refused = asked("restore", file, "--data-dir", up.data_dir)
        assert (refused.exit_code, "is in use by another fairlead" in refused.output) == (1, True)
        client.ask("POST", CONFIG_MAPS, {"metadata": {"name": "later"}})
        client.close()
    assert asked("restore", file, "--data-dir", tmp_path / "again").exit_code == 0
    with fairlead_up(tmp_path / "again", *API) as up:
        client = Client(load(up.kubeconfig))
        assert client.ask("GET", f"{CONFIG_MAPS}/kept") == (200, made)
        assert client.ask("GET", f"{CONFIG_MAPS}/later")[0] == 404
        since = made["metadata"]["resourceVersion"]
        assert (
            client.ask("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion={since}&timeoutSeconds=5")[1]["object"]["code"]
            == 410
        )
        client.close()
