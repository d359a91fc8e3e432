"""A queue of keys: each is worked on by one worker at a time, and no change of it is lost.

       add ──▶ waiting ──get──▶ working ──done──▶ (gone, or waiting again if added meanwhile)
       add_after / retry ──(timer)──▶ waiting
       hold_back: for a while, every `add` of the key becomes an `add_after`

The semantics are those of client-go's workqueue: adding a key that waits already changes nothing, adding one that is
being worked on queues it once more when the worker is done.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Generic, TypeVar

from fairlead.runtime.clock import monotonic, running_loop, stopwatch

if TYPE_CHECKING:
    from fairlead.runtime.workqueue_metrics import QueueMetrics, WorkQueueMetrics

K = TypeVar("K")

#: client-go's default item back-off: 5 ms, doubling, at most 1000 s.
FIRST_RETRY_SECONDS = 0.005
LONGEST_RETRY_SECONDS = 1000.0


class WorkQueue(Generic[K]):
    """Keys to work on, in the order in which they came."""

    def __init__(self) -> None:
        #: Since when each waits, or is being worked on.
        self._waiting: OrderedDict[K, float] = OrderedDict()
        self._working: dict[K, float] = {}
        self._again: set[K] = set()
        #: When a key is due, on the loop's clock. (uvloop's handle does not say it for less than a millisecond.)
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        self._failures: dict[K, int] = {}
        self._held: dict[K, float] = {}  # until when
        self._idle: deque[asyncio.Future[None]] = deque()  # workers that wait, each to be woken by one key
        self._metrics: QueueMetrics | None = None

    def measure(self, name: str, metrics: WorkQueueMetrics) -> None:
        """Count under that name from now on."""
        self._metrics = metrics.of(name, self)

    @property
    def begun_at(self) -> list[float]:
        """When the work that is being done began, by the stopwatch."""
        return list(self._working.values())

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is being worked on; timers may still be set."""
        return not self._waiting and not self._working

    def add(self, key: K) -> None:
        if self._held and (remaining := self._remaining(key)) > 0:
            self.add_after(key, remaining)
        elif key in self._working:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = stopwatch()
            if self._metrics is not None:
                self._metrics.added()
            self._wake_one()

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key later; of several timers for a key, the earliest wins."""
        if seconds <= 0:
            self.add(key)
            return
        loop = running_loop()
        due = loop.time() + seconds
        if (timer := self._timers.get(key)) is not None:
            earlier, handle = timer
            if earlier <= due:
                return
            handle.cancel()
        self._timers[key] = due, loop.call_later(seconds, self._timed, key)

    def _timed(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    def retry(self, key: K) -> None:
        """Add the key after its back-off, which doubles until `forget`."""
        if self._metrics is not None:
            self._metrics.retried()
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(FIRST_RETRY_SECONDS * 2 ** min(failures, 30), LONGEST_RETRY_SECONDS))

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts a new back-off."""
        self._failures.pop(key, None)

    def hold_back(self, key: K, seconds: float) -> None:
        """Work on the key again no earlier than after this time, whatever is added."""
        self._held[key] = monotonic() + seconds

    def _remaining(self, key: K) -> float:
        until = self._held.get(key)
        if until is None:
            return 0.0
        remaining = until - monotonic()
        if remaining <= 0:
            del self._held[key]
        return remaining

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key; the caller must call `done` with it."""
        while not self._waiting:
            waiter: asyncio.Future[None] = running_loop().create_future()
            self._idle.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()  # it was woken for a key that another worker must take now
                raise
        key, since = self._waiting.popitem(last=False)
        now = self._working[key] = stopwatch()
        if self._metrics is not None:
            self._metrics.waited.observe(now - since)
        return key

    def _wake_one(self) -> None:
        """Wake one worker: waking all of them for one key costs more than the work."""
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def done(self, key: K) -> None:
        began = self._working.pop(key, None)
        if self._metrics is not None and began is not None:
            self._metrics.worked.observe(stopwatch() - began)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
