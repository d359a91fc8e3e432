"""What all embedded drivers share: the newest state in a dict, revisions from a counter, and group commit.

An embedded store lives in one process. A write gets its revision at once; writes are committed in groups: while a group
is made durable (`_persist`, which is all that a driver adds), the next one gathers. So a thousand writers pay for a few
commits, in the order of their revisions. If a commit fails, all writes that are not durable yet are undone in memory
and refused, including those gathered since: they rest on the failed ones.

    put ─▶ _gathering ──(nothing being persisted)──▶ _persist ──▶ delivered ──▶ put returns

Whoever ends all tasks of a loop ends the writer, too, while others write yet: what they have begun, or what takes it
back. So what is being persisted is persisted, and what gathers gets another writer: everybody is answered.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from fairlead.api.encoded import stamp
from fairlead.runtime.clock import running_loop
from fairlead.store.base import Deliver, Head, History, Record, RevisionMismatch, StoreChange, StoreUnavailable

log = logging.getLogger(__name__)

#: While several writers are active, a group waits this long for more writes: few large commits cost far less.
LINGER_SECONDS = 0.002


class PendingWrite(msgspec.Struct, frozen=True, gc=False):
    """A change that is not committed yet, and what it replaces, so that it can be undone."""

    change: StoreChange
    replaced: Record | None


class _Group:
    """Writes that are committed together, the futures of their callers, and the result of the commit."""

    __slots__ = ("commit", "waiting", "writes")

    def __init__(self) -> None:
        self.writes: list[PendingWrite] = []
        self.waiting: list[asyncio.Future[None]] = []
        self.commit: asyncio.Future[bool] = running_loop().create_future()


def _nobody(changes: object) -> None:
    raise RuntimeError("the store is not open")


class EmbeddedStore:
    """A store without a place to keep anything; drivers implement `_persist`."""

    def __init__(self) -> None:
        self._head: dict[str, Record] = {}
        self._last = 0  # the newest revision given out
        self._committed = 0
        self._deliver: Deliver = _nobody
        self._persisting: _Group | None = None
        self._gathering: _Group | None = None
        self._under_way: dict[str, _Group] = {}  # by key: the group of its newest uncommitted write
        self._writer: asyncio.Task[None] | None = None
        self.trouble = ""

    @property
    def revision(self) -> int:
        return self._committed

    @property
    def size_bytes(self) -> int:
        return 0

    async def open(self, deliver: Deliver) -> None:
        self._deliver = deliver
        deliver([StoreChange(key, record.revision, record) for key, record in sorted(self._head.items())])

    def take_history(self) -> History:
        """None: drivers that keep some say so."""
        return History(self._committed)

    def compact(self, revision: int) -> None:
        """There is nothing to forget."""

    async def head(self, key: str) -> Head:
        group = self._under_way.get(key)
        return Head(self._head.get(key), group.commit if group else None)

    async def scan(self, prefix: str) -> list[tuple[str, Record]]:
        state = {key: record for key, record in self._head.items() if key.startswith(prefix)}
        for group in (self._gathering, self._persisting):
            if group is not None:
                _undo(state, [write for write in group.writes if write.change.key.startswith(prefix)])
        return sorted(state.items(), key=lambda item: item[0])

    async def put(self, key: str, value: bytes, expected: int) -> Record:
        replaced = self._check(key, expected)
        self._last += 1
        record = self._head[key] = Record(stamp(value, self._last), self._last)
        await self._commit(PendingWrite(StoreChange(key, self._last, record), replaced))
        return record

    async def delete(self, key: str, expected: int) -> int:
        replaced = self._check(key, expected)
        self._last += 1
        revision = self._last
        self._head.pop(key, None)
        await self._commit(PendingWrite(StoreChange(key, revision, None), replaced))
        return revision

    async def close(self) -> None:
        """Finish the commits under way."""
        while self._writer is not None:
            await asyncio.wait([self._writer])
            await asyncio.sleep(0)  # for `_writer_ended`, if it had ended before

    def _check(self, key: str, expected: int) -> Record | None:
        found = self._head.get(key)
        current = found.revision if found else 0
        if current != expected:
            raise RevisionMismatch(key, current)
        return found

    async def _persist(self, writes: list[PendingWrite]) -> None:
        """Make all of these durable, or raise and leave everything as it was. It cannot be cancelled."""
        raise NotImplementedError

    async def _commit(self, write: PendingWrite) -> None:
        done: asyncio.Future[None] = running_loop().create_future()
        group = self._gathering
        if group is None:
            group = self._gathering = _Group()
        group.writes.append(write)
        group.waiting.append(done)
        self._under_way[write.change.key] = group
        if self._writer is None:
            self._begin_writing()
        await done

    def _begin_writing(self) -> None:
        self._writer = asyncio.create_task(self._write_groups(), name="store writer")
        self._writer.add_done_callback(self._writer_ended)

    def _writer_ended(self, _writer: asyncio.Task[None]) -> None:
        self._writer = None
        if self._gathering is not None:  # it was cancelled, perhaps before it had begun
            self._begin_writing()

    async def _write_groups(self) -> None:
        is_rush = False
        while self._gathering is not None:
            if is_rush:
                await asyncio.sleep(LINGER_SECONDS)
            group, self._gathering = self._gathering, None
            is_rush = len(group.writes) > 1
            await self._write_group(group)

    async def _write_group(self, group: _Group) -> None:
        """Commit, deliver, answer. Every waiting writer gets an answer, whatever fails."""
        self._persisting = group
        try:
            await self._persist(group.writes)
        except Exception as error:
            self._persisting = None
            self._give_up(group, str(error))
            return
        self._persisting = None
        for write in group.writes:
            if self._under_way.get(write.change.key) is group:
                del self._under_way[write.change.key]
        failure: Exception | None = None
        try:
            self._publish(group.writes)
        except Exception as error:
            failure = error
        group.commit.set_result(True)
        for done in group.waiting:
            if done.done():  # its request was cancelled meanwhile
                continue
            if failure:
                done.set_exception(failure)
            else:
                done.set_result(None)

    def _publish(self, writes: list[PendingWrite]) -> None:
        self.trouble = ""
        self._committed = writes[-1].change.revision
        self._deliver([write.change for write in writes])

    def _give_up(self, group: _Group, why: str) -> None:
        """Undo and refuse this group and the one that gathered since."""
        if why != self.trouble:  # log it once while it lasts
            log.error("cannot write: %s", why)
            self.trouble = why
        behind, self._gathering = self._gathering, None
        for undone in (behind, group):  # newest first, so that the oldest state wins
            if undone is None:
                continue
            _undo(self._head, undone.writes)
            undone.commit.set_result(False)
            for done in undone.waiting:
                if not done.done():
                    done.set_exception(StoreUnavailable(why))
        self._under_way.clear()


def _undo(state: dict[str, Record], writes: list[PendingWrite]) -> None:
    for write in reversed(writes):
        if write.replaced is None:
            state.pop(write.change.key, None)
        else:
            state[write.change.key] = write.replaced
