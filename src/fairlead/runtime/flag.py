"""An `asyncio.Event` for what there are thousands of: that has room for sixty who wait before anybody does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


class Flag:
    """It is set, or some wait until it is. One loop uses it."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        self._is_set = is_set
        self._waiting: tuple[asyncio.Future[None], ...] = ()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Everybody who waits goes on."""
        self._is_set = True
        waiting, self._waiting = self._waiting, ()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    def wait(self) -> Awaitable[None]:
        """Done when it is set; to be awaited once."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_set:
            future.set_result(None)
        else:
            self._waiting = (*(each for each in self._waiting if not each.done()), future)
        return future
