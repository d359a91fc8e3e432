"""How a container is told to stop: its hook, in its turn its signal, and SIGKILL when its time is over.

The time may become shorter while it stops, and never longer. Source: killContainer of pkg/kubelet/kuberuntime.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from fairlead.agent.runtimes.base import Runtime, State
from fairlead.node.grace_periods import LEAST_STOP_SECONDS
from fairlead.runtime.clock import monotonic


class Stopping:
    def __init__(self, runtime: Runtime, container_id: str, hook: Callable[[float], Awaitable[None]] | None) -> None:
        self._runtime, self._id, self._hook = runtime, container_id, hook
        self._deadline, self._has_turn = float("inf"), False
        self._changed = asyncio.Event()

    def within(self, seconds: float) -> None:
        """It has so long from now on."""
        deadline = monotonic() + seconds
        if deadline < self._deadline:
            self._deadline = deadline
            self._changed.set()

    def take_turn(self) -> None:
        """Nothing has to end before it any more."""
        if not self._has_turn:
            self._has_turn = True
            self._changed.set()

    def has_ended(self) -> None:
        self._changed.set()

    async def run(self) -> bool:
        """Return when it has ended."""
        if self._hook is not None:
            await self._hook(max(self._deadline - monotonic(), 0.0))
            self._deadline = max(self._deadline, monotonic() + LEAST_STOP_SECONDS)
        await self._come_to_turn()
        status = self._runtime.status(self._id)
        if status is None:
            return True
        await self._runtime.signal(self._id, status.stop_signal)
        while not self._is_over():
            left = self._deadline - monotonic()
            if left <= 0:
                await self._runtime.signal(self._id, signal.SIGKILL)
                left = float(LEAST_STOP_SECONDS)  # and again, should a process have been made meanwhile
            await self._wait(left)
        return True

    async def _come_to_turn(self) -> None:
        """At the latest when its time is over."""
        if self._has_turn:
            return
        while not self._has_turn and not self._is_over() and (left := self._deadline - monotonic()) > 0:
            await self._wait(left)
        self._deadline = max(self._deadline, monotonic() + LEAST_STOP_SECONDS)

    async def _wait(self, seconds: float) -> None:
        """Until something has changed, at most so long."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds if seconds != float("inf") else None):
                await self._changed.wait()

    def _is_over(self) -> bool:
        status = self._runtime.status(self._id)
        return status is None or status.state is State.EXITED
