"""Frees images of the node before it is short of disk: those of no use for long, and the longest unused of the others
when their file system is full to a mark. Every five minutes, and at the start.

Source: pkg/kubelet/images/image_gc_manager.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from fairlead.agent.measuring.measurer import Measurer
from fairlead.agent.reclaiming import Reclaimer
from fairlead.node.image_collection import ImagePolicy, failure_events
from fairlead.node.plan import NodeEvent
from fairlead.runtime.clock import monotonic

log = logging.getLogger(__name__)


class ImageCollector:
    """`tell` is called with what there is to say of it."""

    def __init__(
        self, policy: ImagePolicy, measurer: Measurer, reclaimer: Reclaimer, tell: Callable[[NodeEvent], None]
    ) -> None:
        self._policy, self._measurer, self._reclaimer, self._tell = policy, measurer, reclaimer, tell
        self._has_failed = False

    async def run(self, seconds: float) -> None:
        """Collect so often, until cancelled."""
        while True:
            try:
                await self._collect()
            except OSError as error:
                log.warning("images cannot be collected, trying again: %s", error)
            await asyncio.sleep(seconds)

    async def _collect(self) -> None:
        await self._reclaimer.forget_pulls()
        await self._reclaimer.remove_images(lambda since: self._policy.is_too_old(since, monotonic()))
        images = (await self._measurer.measure()).imagefs
        assert images is not None
        wanted = self._policy.bytes_to_free(images.available, images.capacity)
        freed = await self._reclaimer.free(wanted) if wanted else 0
        if freed < wanted:
            for event in failure_events(wanted, freed, has_failed_before=self._has_failed):
                self._tell(event)
        self._has_failed = freed < wanted
