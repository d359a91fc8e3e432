"""What is for a slow place (a disk, a pipe) is written by a thread, so that nobody waits for it.

Between the loop and the thread there is room for a bounded number of items, and of bytes. When there is none, because
the place is slower than items come, or stands still, new ones are dropped: they are counted, and the log says so. So
it goes for those that cannot be written.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

from fairlead.runtime.token_bucket import TokenBucket

#: Items are handed to the thread so often, all that came meanwhile at once: waking it costs as much as several of them.
GATHER_SECONDS: Final = 0.05
#: How long the end waits for what was not written yet.
_END_SECONDS: Final = 5.0
#: The shortest time between two complaints.
_REPORT_SECONDS: Final = 10.0
#: How many items the thread writes at once.
_MOST_AT_ONCE: Final = 500

T = TypeVar("T")

log = logging.getLogger(__name__)


class BackgroundWriter(Generic[T]):
    """Made and used on a loop, but for `write`, which a thread calls."""

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[T]], None],
        *,
        max_items: int,
        max_bytes: int,
        gather_seconds: float = GATHER_SECONDS,
    ) -> None:
        """`write` appends items, and raises OSError if it cannot; `name` is what is complained of."""
        self._name, self._write, self._gather_seconds = name, write, gather_seconds
        self._max_items, self._max_bytes = max_items, max_bytes
        self._loop = asyncio.get_running_loop()
        self._gathered: list[T] = []
        self._gathered_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._batches: SimpleQueue[tuple[list[T], int] | None] = SimpleQueue()
        #: What came in, which the loop counts, and what went out again, written or not, which the thread counts.
        self.taken = self._bytes_in = self._items_out = self._bytes_out = 0
        #: Items that are lost: without room, and not written.
        self.dropped = self.failed = 0
        self._complaints = TokenBucket(1 / _REPORT_SECONDS, 1, self._loop.time())
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, item: T, size: int) -> bool:
        """Take an item of about so many bytes, which nobody changes any more; False: there is no room."""
        has_room = self.taken - self._items_out < self._max_items
        if not has_room or self._bytes_in - self._bytes_out + size > self._max_bytes:
            self.dropped += 1
            self._tell("there is no room for what is not written yet", self.dropped)
            return False
        self.taken += 1
        self._bytes_in += size
        self._gathered.append(item)
        self._gathered_bytes += size
        if self._timer is None:
            self._timer = self._loop.call_later(self._gather_seconds, self._hand_over)
        return True

    async def close(self) -> bool:
        """Write what there is, if that takes no longer than it may; whether the thread has ended."""
        if self._timer is not None:
            self._timer.cancel()
        self._hand_over()
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join, _END_SECONDS)
        if left := self.taken - self._items_out:
            log.error("%s: %d lines could not be written in time", self._name, left)
        return not self._thread.is_alive()

    def _hand_over(self) -> None:
        self._timer = None
        if self._gathered:
            self._batches.put((self._gathered, self._gathered_bytes))
            self._gathered, self._gathered_bytes = [], 0

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            items, size = batch
            for start in range(0, len(items), _MOST_AT_ONCE):
                self._write_out(items[start : start + _MOST_AT_ONCE])
            self._bytes_out += size

    def _write_out(self, items: list[T]) -> None:
        try:
            self._write(items)
        except OSError as error:
            self.failed += len(items)
            self._tell(error.strerror or str(error), self.failed)
        except Exception:  # a bug, which must not end the thread
            self.failed += len(items)
            log.exception("%s: %d lines are lost", self._name, len(items))
        self._items_out += len(items)

    def _tell(self, why: str, lost: int) -> None:
        if self._complaints.take(self._loop.time()):
            log.error("%s: %s: %d lines lost so far", self._name, why, lost)
