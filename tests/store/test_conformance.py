"""What every driver of `Store` promises, as one suite: `fairlead.store.base` is the contract."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.api.encoded import Encoded, stamp, storable
from fairlead.store.base import Record, RevisionMismatch, Store, StoreChange
from fairlead.store.memory import MemoryStore
from fairlead.store.sqlite import SQLiteStore
from tests.examples import examples
from tests.store.unreliable import UnreliableMemory, UnreliableSQLite, Weather

DRIVERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SQLiteStore(folder / "store.db"),
    "slow": lambda folder: UnreliableMemory(Weather(1, calm=True)),
}
Test = Callable[[Store, list[StoreChange]], Awaitable[None]]


@pytest.fixture(params=DRIVERS, scope="module")
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(driver: str, test: Test) -> None:
    """Run a test on a new store; it also gets the list of what is delivered."""

    async def main(folder: Path) -> None:
        store, delivered = DRIVERS[driver](folder), list[StoreChange]()
        await store.open(delivered.extend)
        try:
            await test(store, delivered)
        finally:
            await store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))


def value(text: str = "") -> bytes:
    return storable({"metadata": {"name": text}}, "Thing", "v1")


def test_a_new_store_is_empty_at_revision_zero(driver: str) -> None:
    async def test(store: Store, delivered: list[StoreChange]) -> None:
        assert store.revision == 0
        assert (await store.head("/a")).record is None
        assert await store.scan("/") == []
        assert delivered == []

    run(driver, test)


def test_what_is_put_is_read_back_with_its_revision_stamped_in(driver: str) -> None:
    async def test(store: Store, delivered: list[StoreChange]) -> None:
        record = await store.put("/a", value("x"), 0)
        assert record == Record(stamp(value("x"), 1), 1)
        assert Encoded(record.value).obj()["metadata"] == {"resourceVersion": "1", "name": "x"}
        assert (await store.head("/a")).record == record
        assert store.revision == 1

    run(driver, test)


def test_a_write_that_has_returned_has_been_delivered(driver: str) -> None:
    async def test(store: Store, delivered: list[StoreChange]) -> None:
        record = await store.put("/a", value(), 0)
        assert delivered == [StoreChange("/a", 1, record)]
        assert await store.delete("/a", 1) == 2
        assert delivered[1:] == [StoreChange("/a", 2, None)]
        assert store.revision == 2

    run(driver, test)


@pytest.mark.parametrize("expected", [1, 5])
def test_a_put_on_a_key_that_does_not_exist_says_so(driver: str, expected: int) -> None:
    async def test(store: Store, delivered: list[StoreChange]) -> None:
        with pytest.raises(RevisionMismatch) as refused:
            await store.put("/a", value(), expected)
        assert (refused.value.key, refused.value.current) == ("/a", 0)
        assert delivered == []
        assert store.revision == 0

    run(driver, test)


def test_of_two_writers_that_saw_the_same_state_one_is_refused(driver: str) -> None:
    """X-05: no writer ever overwrites what it has not seen."""

    async def test(store: Store, delivered: list[StoreChange]) -> None:
        await store.put("/a", value(), 0)
        outcomes = await asyncio.gather(
            store.put("/a", value("first"), 1), store.put("/a", value("second"), 1), return_exceptions=True
        )
        assert isinstance(outcomes[0], Record)
        assert isinstance(outcomes[1], RevisionMismatch)
        assert outcomes[1].current == outcomes[0].revision
        assert (await store.head("/a")).record == outcomes[0]

    run(driver, test)


def test_a_deletion_of_what_has_changed_is_refused(driver: str) -> None:
    async def test(store: Store, delivered: list[StoreChange]) -> None:
        await store.put("/a", value(), 0)
        await store.put("/a", value("new"), 1)
        for expected in (0, 1, 3):
            with pytest.raises(RevisionMismatch):
                await store.delete("/a", expected)
        assert len(delivered) == 2

    run(driver, test)


def test_a_deleted_key_can_be_created_again_but_not_updated(driver: str) -> None:
    async def test(store: Store, delivered: list[StoreChange]) -> None:
        await store.put("/a", value(), 0)
        await store.delete("/a", 1)
        with pytest.raises(RevisionMismatch):
            await store.put("/a", value(), 1)
        assert (await store.put("/a", value(), 0)).revision == 3

    run(driver, test)


def test_a_writer_reads_its_write_before_it_is_committed(driver: str) -> None:
    async def test(store: Store, delivered: list[StoreChange]) -> None:
        writing = asyncio.create_task(store.put("/a", value("mine"), 0))
        await asyncio.sleep(0)
        seen = (await store.head("/a")).record
        assert seen is not None
        assert seen.value == stamp(value("mine"), 1)
        assert await writing == seen

    run(driver, test)


def test_what_is_under_way_is_told_to_nobody_who_does_not_wait_for_it(driver: str) -> None:
    """A scan shows what is committed alone; a head says when it is, be it a value or that there is none."""

    async def test(store: Store, delivered: list[StoreChange]) -> None:
        first = await store.put("/a", value("first"), 0)
        writes = [
            asyncio.create_task(store.put("/b", value(), 0)),
            asyncio.create_task(store.delete("/a", first.revision)),
        ]
        await asyncio.sleep(0)
        assert await store.scan("/") == [
            (change.key, change.record) for change in delivered if change.key in _present(delivered)
        ]
        for key in ("/a", "/b"):
            head = await store.head(key)
            assert await head.settled()
            assert (head.record is not None) == (key in _present(delivered))
        await asyncio.gather(*writes)
        assert [key for key, _ in await store.scan("/")] == ["/b"]

    run(driver, test)


def _present(delivered: list[StoreChange]) -> set[str]:
    """The keys that exist, going by what was delivered."""
    present: set[str] = set()
    for change in delivered:
        (present.add if change.record else present.discard)(change.key)
    return present


def test_a_scan_finds_what_begins_with_the_prefix_sorted_by_key(driver: str) -> None:
    async def test(store: Store, delivered: list[StoreChange]) -> None:
        for key in ("/pods/b/2", "/pods/a/1", "/podsets/a/1", "/pod", "/pods/b/1"):
            await store.put(key, value(), 0)
        await store.delete("/pods/a/1", 2)
        assert [key for key, _ in await store.scan("/pods/")] == ["/pods/b/1", "/pods/b/2"]

    run(driver, test)


def test_changes_of_many_writers_are_delivered_in_the_order_of_their_revisions(driver: str) -> None:
    async def test(store: Store, delivered: list[StoreChange]) -> None:
        async def writer(key: str) -> None:
            revision = 0
            for _ in range(20):
                revision = (await store.put(key, value(), revision)).revision
            await store.delete(key, revision)

        await asyncio.gather(*(writer(f"/{number}") for number in range(10)))
        revisions = [change.revision for change in delivered]
        assert revisions == list(range(1, 211))

    run(driver, test)


def test_a_writer_that_gives_up_leaves_a_store_that_goes_on(driver: str) -> None:
    async def test(store: Store, delivered: list[StoreChange]) -> None:
        writing = asyncio.create_task(store.put("/a", value(), 0))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await store.put("/b", value(), 0)
        assert [change.key for change in delivered] == ["/a", "/b"]

    run(driver, test)


_KEYS = st.sampled_from(["/a", "/b", "/c"])
_WRITES = st.lists(st.tuples(_KEYS, st.booleans(), st.integers(0, 2)), max_size=40)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_WRITES)
def test_replaying_what_was_delivered_gives_what_is_stored(driver: str, writes: list[tuple[str, bool, int]]) -> None:
    """Whatever is written at once, with right and wrong expectations: both sides tell the same story."""

    async def test(store: Store, delivered: list[StoreChange]) -> None:
        async def write(key: str, is_put: bool, off: int) -> None:
            found = (await store.head(key)).record
            expected = max((found.revision if found else 0) - off, 0)
            if is_put:
                await store.put(key, value(str(off)), expected)
            else:
                await store.delete(key, expected)

        await asyncio.gather(*(write(*arguments) for arguments in writes), return_exceptions=True)
        replayed: dict[str, Record] = {}
        for change in delivered:
            if change.record:
                replayed[change.key] = change.record
            else:
                replayed.pop(change.key, None)
        assert sorted(replayed.items()) == await store.scan("/")
        revisions = [change.revision for change in delivered]
        assert revisions == sorted(set(revisions))
        assert store.revision == (revisions[-1] if revisions else 0)

    run(driver, test)


UNRELIABLE: dict[str, Callable[[Path, Weather], Store]] = {
    "memory": lambda folder, weather: UnreliableMemory(weather),
    "sqlite": lambda folder, weather: UnreliableSQLite(folder / "store.db", weather),
}


@pytest.mark.parametrize("kind", UNRELIABLE)
@pytest.mark.parametrize("seed", range(15))
def test_a_head_says_whether_it_came_to_be(kind: str, seed: int, tmp_path: Path) -> None:
    """Commits fail at random: what was settled stays, and no revision means two things."""

    async def main() -> None:
        store, delivered = UNRELIABLE[kind](tmp_path, Weather(seed)), list[StoreChange]()
        await store.open(delivered.extend)
        seen: dict[int, Record | None] = {}

        async def writer(text: str) -> None:
            for number in range(8):
                head = await store.head("/a")
                if head.record is None:
                    write: Awaitable[object] = store.put("/a", value(f"{text}{number}"), 0)
                elif number % 3:
                    write = store.put("/a", value(f"{text}{number}"), head.record.revision)
                else:
                    write = store.delete("/a", head.record.revision)
                await asyncio.gather(write, return_exceptions=True)

        async def reader() -> None:
            for _ in range(60):
                head = await store.head("/a")
                if await head.settled() and head.record:
                    assert seen.setdefault(head.record.revision, head.record) == head.record
                await asyncio.sleep(0)

        await asyncio.gather(writer("x"), writer("y"), reader(), reader())
        committed = {change.revision: change.record for change in delivered}
        assert {revision: committed.get(revision) for revision in seen} == seen
        await store.close()

    asyncio.run(main())


async def reopened(driver: str, folder: Path, known: Store) -> tuple[Store, Sequence[StoreChange]]:
    """The same store, as the next process finds it; a store in memory has only this process."""
    store = known if driver != "sqlite" else DRIVERS[driver](folder)
    delivered: list[StoreChange] = []
    await store.open(delivered.extend)
    return store, delivered


def test_opening_again_delivers_everything_sorted_by_key_and_goes_on_counting(driver: str, tmp_path: Path) -> None:
    async def main() -> None:
        store = DRIVERS[driver](tmp_path)
        await store.open(lambda changes: None)
        for key in ("/b", "/a", "/gone"):
            await store.put(key, value(key), 0)
        await store.put("/b", value("new"), 1)
        await store.delete("/gone", 3)
        await store.close()

        again, delivered = await reopened(driver, tmp_path, store)
        assert [(change.key, change.revision) for change in delivered] == [("/a", 2), ("/b", 4)]
        assert [change.record for change in delivered] == [
            (await again.head(change.key)).record for change in delivered
        ]
        assert again.revision == 5
        assert (await again.put("/c", value(), 0)).revision == 6
        await again.close()

    asyncio.run(main())
