"""Finds what blocks the event loop: a callback that takes long keeps everything else in the process waiting.

A timer on the loop beats twenty times a second, and a thread samples as often which task runs. If all samples between
two late beats show the same task, or so many in a row as the longest turn may have, that task blocked the loop: it is
counted, and logged by its name, which is the component and the object that it works on (`statefulset-controller
default/web`). There is no cost per callback, and no watchdog in virtual time.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import msgspec

from fairlead.runtime.clock import running_loop

#: A callback that takes longer than this is counted and logged.
LONGEST_SECONDS: Final = 0.2
#: One that takes longer than this is logged before it ends.
_ENDLESS_SECONDS: Final = 2.0
_BEAT_SECONDS: Final = 0.05
#: In this time each task is logged once, and at most so many tasks.
_QUIET_SECONDS: Final = 60.0
_MOST_LOGGED: Final = 20

log = logging.getLogger(__name__)

_Task = asyncio.Task[Any] | None
#: Who held the loop and was never seen.
_UNKNOWN: Final = "unknown"


def working_on(component: str, name: str) -> None:
    """Name the current task after what it works on, for the log."""
    if (task := asyncio.current_task(running_loop())) is not None:
        task.set_name(f"{component} {name}")


def current_name() -> str | None:
    """The name of the current task, for tasks that it starts."""
    task = asyncio.current_task(running_loop())
    return task.get_name() if task is not None else None


class Holds:
    """How often, and for how long, each component has blocked the loop of this process."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.seconds: dict[str, float] = {}

    def add(self, component: str, seconds: float) -> None:
        self.count[component] = self.count.get(component, 0) + 1
        self.seconds[component] = self.seconds.get(component, 0.0) + seconds


#: Those of this process.
HOLDS: Final = Holds()


@contextmanager
def watched(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Watch the loop, which runs in this thread, while the block runs."""
    dog = _Watchdog(loop, threading.get_ident())
    dog.beat()
    thread = threading.Thread(target=dog.watch, name="watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        dog.stop()
        thread.join()


class _Turn(msgspec.Struct):
    """A task, or a callback without one, as long as it was seen in a row."""

    task: _Task
    looks: int = 0
    #: The source line where it was seen last.
    where: str = ""

    @property
    def seconds(self) -> float:
        return self.looks * _BEAT_SECONDS


class _Watchdog:
    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        self._loop, self._thread = loop, thread
        self._stopped = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._beat_at, self._worked = time.monotonic(), time.process_time()
        self._turns: list[_Turn] = []  # since the last beat
        self._logged_at: dict[str, float] = {}  # by name, when it was last logged

    def stop(self) -> None:
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()

    # -- on the loop

    def beat(self) -> None:
        """Runs on the loop whenever it is free: measures the gap since the last beat."""
        now, worked = time.monotonic(), time.process_time()
        gap = now - self._beat_at - _BEAT_SECONDS
        if gap > LONGEST_SECONDS:
            self._report(gap, worked - self._worked)
        self._beat_at, self._worked, self._turns = now, worked, []
        self._timer = self._loop.call_later(_BEAT_SECONDS, self.beat)

    def _report(self, gap: float, worked: float) -> None:
        turns = self._turns
        if worked < gap / 2 and sum(turn.seconds for turn in turns) < gap / 2:
            return  # neither the loop nor this thread ran: the process was suspended, or the machine overloaded
        if len(turns) > 1:
            tasks = [turn for turn in turns if turn.task is not None and turn.seconds > LONGEST_SECONDS]
            for turn in tasks:  # none: many short ones, of which none blocked it
                self._hold(turn.task, turn.seconds, turn.seconds, turn.where)
        else:
            self._hold(turns[0].task if turns else _UNKNOWN, gap, worked, turns[0].where if turns else "")

    def _hold(self, task: _Task | str, seconds: float, worked: float, where: str) -> None:
        name = task if isinstance(task, str) else _name(task)
        HOLDS.add(name.partition(" ")[0], seconds)
        self._tell(name, "%s held the event loop for %.1f s (%.1f s of CPU), %s", name, seconds, worked, where)

    # -- in the thread

    def watch(self) -> None:
        """Sample until stopped."""
        while not self._stopped.wait(_BEAT_SECONDS):
            since = self._beat_at
            if time.monotonic() - since > 2 * _BEAT_SECONDS:
                self._look(since)

    def _look(self, since: float) -> None:
        task, turns = asyncio.current_task(self._loop), self._turns  # the loop may begin others at any moment
        frame = sys._current_frames().get(self._thread)
        if since != self._beat_at:
            return  # the loop beat meanwhile
        if not turns or turns[-1].task is not task:
            turns.append(_Turn(task))
        turn = turns[-1]
        turn.looks, turn.where = turn.looks + 1, _location(frame)
        if turn.seconds > _ENDLESS_SECONDS and (task is not None or len(turns) == 1):
            name = _name(task)
            self._tell(name, "%s has been holding the event loop for %.1f s, %s", name, _ENDLESS_SECONDS, turn.where)

    def _tell(self, name: str, text: str, *values: object) -> None:
        now = time.monotonic()
        self._logged_at = {culprit: at for culprit, at in self._logged_at.items() if now - at < _QUIET_SECONDS}
        if name not in self._logged_at and len(self._logged_at) < _MOST_LOGGED:
            self._logged_at[name] = now
            log.warning(text, *values)


def _name(task: _Task) -> str:
    """The component and, if any, the object; for a task without a name, its function."""
    if task is None:
        return "callback"
    name = task.get_name()
    return name if not name.startswith("Task-") else getattr(task.get_coro(), "__qualname__", "task")


def _location(frame: FrameType | None) -> str:
    """The innermost running line of our own code."""
    while frame is not None:
        package, _, module = frame.f_code.co_filename.rpartition("/fairlead/")
        if package:
            return f"in {module}:{frame.f_lineno} ({frame.f_code.co_name})"
        frame = frame.f_back
    return "in other people's code"
