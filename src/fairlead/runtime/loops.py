"""The two kinds of time: real, on uvloop, and virtual, where an idle loop jumps to its next timer.

Under a `VirtualLoop`, `await asyncio.sleep(3600)` takes no time and keeps its place in the order of events, so
weeks of a cluster run in minutes and every run of one seed is the same. Waiting for something that nothing will
ever bring is an error (`Stalled`), not a hang.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import Context
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

import uvloop

from fairlead.runtime.clock import ticking
from fairlead.runtime.watchdog import watched

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Second zero of virtual time unless the caller names another: 2026-01-01T00:00:00Z.
DEFAULT_EPOCH = 1_767_225_600.0
#: A timer is due within this much of now: asyncio's own nanosecond is lost in rounding after half a year.
_DUE_SECONDS: Final = 1e-7
#: The least that a timer waits, so that it is not due when it is set.
_SHORTEST_SECONDS: Final = 2 * _DUE_SECONDS


class Stalled(RuntimeError):
    """Every task waits and no timer is set: the simulation can never go on."""


class _Jumping(selectors.BaseSelector):
    """A selector that never waits: it moves the loop's clock instead."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.elapsed = 0.0
        #: Resolved when nothing is left to do, before the clock moves.
        self.idle: list[asyncio.Future[None]] = []
        #: Resolved when there is nobody of those either.
        self.last: list[asyncio.Future[None]] = []
        #: Resolved when the clock has moved.
        self.moved: list[asyncio.Future[None]] = []
        #: How many threads work for tasks of the loop: the clock waits for them.
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0 and len(self._real.get_map()) == 1:
            return []  # callbacks are ready, and only the loop's own pipe is registered: it can wait
        if ready := self._real.select(None if self.threads and timeout != 0 else 0):
            return ready
        if (waiting := self.idle or self.last) and timeout != 0:
            _resolve(waiting)
            return []
        if timeout is None:
            raise Stalled("all tasks wait for something that no timer will bring")
        self.elapsed += max(timeout, 0.0)
        _resolve(self.moved)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


def _resolve(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()


class _Moment(float):
    """When a timer is due. Of those due at one moment the one that was set first is first: asyncio leaves that to the
    shape of its heap, so that any timer more, of no matter whom, would change who comes before whom.
    """

    __slots__ = ("number",)
    number: int

    def __lt__(self, other: float) -> bool:
        if self != other:
            return float.__lt__(self, other)
        return isinstance(other, _Moment) and self.number < other.number


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock starts at zero and moves only when nothing is left to do."""

    def __init__(self, epoch: float = DEFAULT_EPOCH) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)
        self._clock_resolution = _DUE_SECONDS
        self.epoch = epoch
        #: How many clusters there are on it.
        self.clusters = 0
        self._timers = 0  # that were ever set

    def run_forever(self) -> None:
        with ticking(self, self):
            super().run_forever()

    def time(self) -> float:
        return self._jumping.elapsed

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        moment = _Moment(when)
        moment.number = self._timers = self._timers + 1
        return super().call_at(moment, callback, *args, context=context)

    async def settled(self, *, last: bool = False) -> None:
        """Return when everything is done that is done without time passing; `last`: also by others who wait for it."""
        await self._among(self._jumping.last if last else self._jumping.idle)

    async def moved(self) -> None:
        """Return when time has passed: at the next timer, whosever it is."""
        await self._among(self._jumping.moved)

    async def _among(self, waiters: list[asyncio.Future[None]]) -> None:
        waiter: asyncio.Future[None] = self.create_future()
        waiters.append(waiter)
        await waiter

    def run_in_executor(
        self, executor: Executor | None, function: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """What a thread does takes no virtual time, as what tasks do."""
        working = super().run_in_executor(executor, function, *args)
        self._jumping.threads += 1
        working.add_done_callback(self._thread_done)
        return working

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio's name
        self._jumping.threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._jumping.threads -= 1

    def _thread_done(self, _working: asyncio.Future[T]) -> None:
        self._jumping.threads -= 1

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Whoever waits at all is called when some time has passed. Woken a rounding too early, he waits for the rest
        of it: if he were woken at the same moment again, time would stand still, for he is never idle."""
        if 0 < delay < _SHORTEST_SECONDS:
            delay = _SHORTEST_SECONDS
        return super().call_later(delay, callback, *args, context=context)

    def pass_by(self, seconds: float) -> None:
        """Advance the clock, as if the current callback took so long; otherwise computing takes no virtual time."""
        self._jumping.elapsed += seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run in real time, on uvloop, watching who holds the loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_watched(main))


async def _watched(main: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    with ticking(loop), watched(loop):
        return await main


def run_virtual(main: Coroutine[Any, Any, T], epoch: float = DEFAULT_EPOCH) -> T:
    """Run in virtual time; in a thread of its own where a loop runs already, as it does in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_virtual(main, epoch)
    with ThreadPoolExecutor(1, "virtual time") as thread:
        return thread.submit(_run_virtual, main, epoch).result()


def _run_virtual(main: Coroutine[Any, Any, T], epoch: float) -> T:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(epoch)) as runner:
        return runner.run(main)
