"""How a container is told to stop: its hook, its signal, and SIGKILL when its time is over.

The time may become shorter while it stops, and never longer. Source: killContainer of pkg/kubelet/kuberuntime.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

from fairlead.agent.runtimes.base import Runtime, State
from fairlead.node.grace_periods import LEAST_STOP_SECONDS
from fairlead.runtime.clock import monotonic


class Stopping:
    def __init__(self, runtime: Runtime, container_id: str, hook: Callable[[float], Awaitable[None]] | None) -> None:
        self._runtime, self._id, self._hook = runtime, container_id, hook
        self._deadline = float("inf")
        self._changed = asyncio.Event()

    def within(self, seconds: float) -> None:
        """It has so long from now on."""
        deadline = monotonic() + seconds
        if deadline < self._deadline:
            self._deadline = deadline
            self._changed.set()

    def has_ended(self) -> None:
        self._changed.set()

    async def run(self) -> bool:
        """Return when it has ended."""
        if self._hook is not None:
            await self._hook(max(self._deadline - monotonic(), 0.0))
            self._deadline = max(self._deadline, monotonic() + LEAST_STOP_SECONDS)
        status = self._runtime.status(self._id)
        if status is None:
            return True
        await self._runtime.signal(self._id, status.stop_signal)
        while not self._is_over():
            left = self._deadline - monotonic()
            if left <= 0:
                await self._runtime.signal(self._id, signal.SIGKILL)
                left = float(LEAST_STOP_SECONDS)  # and again, should a process have been made meanwhile
            self._changed.clear()
            try:
                async with asyncio.timeout(left if left != float("inf") else None):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return True

    def _is_over(self) -> bool:
        status = self._runtime.status(self._id)
        return status is None or status.state is State.EXITED
