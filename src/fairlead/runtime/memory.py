"""Settings of the garbage collector. Looking at a million objects stops a server for a second.

Simulations otherwise spend an eighth of their time on objects that are never freed, and a command's start runs 170
collections over modules that stay.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: How many objects a process may still gain before those that are excluded are looked at again.
_MANY: Final = 200_000
#: 10,000 objects the first time, 50,000 the second, 150,000 the third.
_IN_PARTS: Final = 10_000, 4, 1
_MOST_AT_ONCE: Final = 150_000
#: So long they must have been too many: those of a request are gone by then.
_CALM_SECONDS: Final = 60.0


def collect_seldom() -> None:
    """Collect less often: modules are never freed, and requests create few cycles."""
    gc.set_threshold(20_000, 20, 50)


def keep_started() -> None:
    """Exclude all objects that exist now: they live until the process ends.

    A start leaves too little garbage to be worth the 70 ms of looking for it first.
    """
    gc.freeze()


def collect_in_parts() -> None:
    """In a process that answers: what has survived a full collection is excluded from the next, which looks at what is
    new alone, however much there is.

    Excluded objects are freed like all others once nobody refers to them. For circles among them, which that leaves,
    they are all looked at again when they have become twice as many.
    """
    gc.set_threshold(*_IN_PARTS)
    gc.callbacks.append(_Parts().collected)


class _Parts:
    """Which objects are excluded: all that have been looked at, until these have become too many."""

    def __init__(self) -> None:
        self._is_whole = False  # the next full collection looks at all objects
        self._most = self._bound = 0
        self._is_over = False  # there were too many when they were counted last, perhaps those of one large request
        self._next_count = -math.inf
        self._begin(gc.get_freeze_count())

    def _begin(self, count: int) -> None:
        self._most = 2 * count + _MANY
        self._bound = count  # there are no more; to count a million takes 0.1 s
        self._is_over = False

    def collected(self, phase: str, details: dict[str, int]) -> None:
        if phase != "stop" or details["generation"] != 2:
            return
        gc.freeze()
        if self._is_whole:
            self._is_whole = False
            self._begin(gc.get_freeze_count())
            return
        self._bound += _MOST_AT_ONCE
        if self._bound <= self._most or (now := time.monotonic()) < self._next_count:
            return
        self._bound = gc.get_freeze_count()
        was_over, self._is_over = self._is_over, self._bound > self._most
        if not self._is_over:
            return
        self._next_count = now + _CALM_SECONDS
        if was_over:
            self._is_whole = True
            gc.unfreeze()


@contextmanager
def loading() -> Iterator[None]:
    """Collect nothing meanwhile: what is read stays."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def keeping_loaded() -> Iterator[None]:
    """Exclude all objects that exist now from collections meanwhile, and no longer: others may follow."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def leave_to_system() -> None:
    """Free nothing any more: the process ends, and object by object that took a second for a cluster of 20,000 pods."""
    gc.freeze()
