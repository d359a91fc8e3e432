"""How long one of many may hold the event loop before the others get a turn."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

from fairlead.runtime.clock import running_loop, stopwatch
from fairlead.runtime.loops import VirtualLoop

T = TypeVar("T")

TURN_SECONDS: Final = 0.05


class Turn:
    """A turn that begins now.

    In virtual time it never ends: nobody waits there, and what a run does must not depend on how fast the machine is.
    """

    __slots__ = ("_end",)

    def __init__(self, seconds: float | None = None) -> None:
        """`seconds`: how long it is, if it is not as long as all others."""
        length = TURN_SECONDS if seconds is None else seconds
        self._end = math.inf if isinstance(running_loop(), VirtualLoop) else stopwatch() + length

    @property
    def is_over(self) -> bool:
        return stopwatch() > self._end


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """One after the other; others have turns in between."""
    turn = Turn()
    for item in items:
        yield item
        if turn.is_over:
            await asyncio.sleep(0)
            turn = Turn()
