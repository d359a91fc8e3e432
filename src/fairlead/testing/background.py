"""A cluster in a thread of its own, so that a test may wait for it in whatever way its client library does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

from fairlead.compose import Cluster, Settings, cluster
from fairlead.simulation.objects import ClusterStopped

T = TypeVar("T")


class BackgroundCluster:
    """Runs from `start` to `stop`. Nobody but its thread touches what is in it; `call` is the way in."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread = threading.Thread(target=self._run, name="fairlead cluster", daemon=True)
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self.running: Cluster
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event

    def start(self) -> None:
        """Return when the cluster is ready. Raises what kept it from that."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def stop(self) -> None:
        """Return when all of it is gone. Raises what a part of it failed with while it ran."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do that in the cluster's thread, and wait for it. Raises ClusterStopped when there is none any more."""
        try:
            self.check()
        except ClusterStopped:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def check(self) -> None:
        """Raises ClusterStopped when the cluster is gone."""
        if not self._thread.is_alive():
            raise ClusterStopped("this cluster has been stopped: whoever asks it does so in its block, or in its test")

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # for whoever waits in the other thread
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with cluster(self._settings) as self.running:
            self._started.set()
            await self._stopping.wait()
        if self.running.failure.done():
            self.running.failure.result()
