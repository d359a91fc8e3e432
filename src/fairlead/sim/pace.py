"""How many pods the simulated nodes work on at once: few while many others write.

A real kubelet has a machine of its own; simulated nodes share one with the server that they report to, and with
everybody who waits for it. So they stand back in a rush, and make up for it afterwards. How many others write at once
is reckoned from the resource version, which every write of anybody raises by one: those who write ten times while each
worker of the nodes writes once must be about ten.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Final

#: Somebody is always let through: a rush may last, and its pods are to run.
LEAST: Final = 1
MOST: Final = 64
#: More others than this at once are a rush. Events that are still to be written come from two or three writers.
CROWD: Final = 8
#: After how many writes of anybody it is looked at again whose they were.
SAMPLE: Final = 16


class Pace:
    """`async with pace:` around the work on one pod, and `wrote` after every report on one."""

    def __init__(self) -> None:
        self.window = MOST
        self.under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._reports = 0
        self._beside = 0
        self._since = self._latest = 0

    def wrote_beside(self) -> None:
        """The nodes wrote something that the window does not hold back, such as a lease."""
        self._beside += 1

    def wrote(self, revision: int) -> None:
        """The nodes reported on a pod; `revision` is the latest resource version that they know of.

        Reports of one commit are told at once, at one revision: only when it moves on is that commit complete.
        """
        if revision != self._latest:
            self._judge()
            self._latest = revision
        self._reports += 1

    def _judge(self) -> None:
        passed = self._latest - self._since
        if passed < SAMPLE:
            return
        others = (passed - self._reports - self._beside) * self.window / self._reports
        self.window = max(self.window // 2, LEAST) if others > CROWD else min(self.window * 2, MOST)
        self._reports, self._beside, self._since = 0, 0, self._latest

    async def __aenter__(self) -> None:
        while self.under_way >= self.window:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self.under_way += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.under_way -= 1
        room = self.window - self.under_way
        while room > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1
