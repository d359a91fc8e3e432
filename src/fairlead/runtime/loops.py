"""The two kinds of time: real, on uvloop, and virtual, where an idle loop jumps to its next timer.

Under a `VirtualLoop`, `await asyncio.sleep(3600)` takes no time and keeps its place in the order of events, so
weeks of a cluster run in minutes and every run of one seed is the same. Waiting for something that nothing will
ever bring is an error (`Stalled`), not a hang.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
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

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0 and len(self._real.get_map()) == 1:
            return []  # callbacks are ready, and only the loop's own pipe is registered: it can wait
        if ready := self._real.select(0):
            return ready
        if self.idle and timeout != 0:
            for waiter in self.idle:
                if not waiter.done():
                    waiter.set_result(None)
            self.idle.clear()
            return []
        if timeout is None:
            raise Stalled("all tasks wait for something that no timer will bring")
        self.elapsed += max(timeout, 0.0)
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

    async def settled(self) -> None:
        """Return when everything is done that is done without time passing."""
        waiter: asyncio.Future[None] = self.create_future()
        self._jumping.idle.append(waiter)
        await waiter

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
