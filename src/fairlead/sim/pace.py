"""How many pods the simulated nodes work on at once: fewer while others write more than they do.

A real kubelet has a machine of its own; simulated nodes share one with the server that they report to, and with
everybody who waits for it. So they stand back in a rush, and make up for it afterwards. Who else writes is told by the
resource version: every write of anybody raises it by one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Final

#: Somebody is always let through: a rush may last, and its pods are to run.
LEAST: Final = 1
MOST: Final = 64
#: After how many writes of anybody it is looked at again whose they were.
SAMPLE: Final = 16


class Pace:
    """`async with pace:` around the work on one pod, `wrote` after every write."""

    def __init__(self) -> None:
        self.window = MOST
        self.under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._own = 0
        self._since = 0

    def wrote(self, revision: int) -> None:
        """The nodes wrote something; `revision` is the latest resource version that they know of.

        Writes of one commit are told at once, and the revision moves between them: without that there is nothing to
        judge by, however many the nodes' own were.
        """
        self._own += 1
        passed = revision - self._since
        if passed < SAMPLE:
            return
        others = passed - self._own
        self.window = max(self.window // 2, LEAST) if others > self._own else min(self.window * 2, MOST)
        self._own, self._since = 0, revision

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
