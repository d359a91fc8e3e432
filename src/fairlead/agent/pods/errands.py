"""What a pod has under way. Decisions ask at every step, and the first who asks begins it.

Decisions are functions of what is known now; pulling an image takes minutes. So an errand is asked for as if it were
done already: None means not yet, and when it is done the pod is looked at again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


class Errands:
    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    def ask(self, key: Hashable, begin: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """What came of it; None while it is under way. A bug in it is raised to whoever asks."""
        task: asyncio.Task[T] | None = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(begin(), name=f"errand {key}")
            task.add_done_callback(self._done)
        if not task.done():
            return None
        if task.exception() is not None:
            self.forget(key)
        return task.result()

    def again(self, key: Hashable, begin: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Begin it anew, unless it is under way still. A bug in the last one is raised."""
        if self.is_under_way(key):
            return
        if key in self._tasks:
            self.ask(key, begin)
        self.forget(key)
        self.ask(key, begin)

    def is_under_way(self, key: Hashable) -> bool:
        return (task := self._tasks.get(key)) is not None and not task.done()

    def forget(self, key: Hashable) -> None:
        """The next who asks begins it anew."""
        if (task := self._tasks.pop(key, None)) is not None:
            task.cancel()

    def forget_after(self, key: Hashable, seconds: float) -> None:
        """The same in a while, for what has failed."""

        def later() -> None:
            self.forget(key)
            self._wake()

        asyncio.get_running_loop().call_later(seconds, later)

    async def close(self) -> None:
        """End what is under way, but for the one that asks for this."""
        tasks = [task for task in self._tasks.values() if task is not asyncio.current_task()]
        self._tasks = {key: task for key, task in self._tasks.items() if task is asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            self._wake()
