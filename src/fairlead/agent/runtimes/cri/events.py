"""What a runtime tells of its containers by itself: containerd since 1.7, CRI-O where `enable_pod_events` is set.

    asked ─▶ (an event) heard ─▶ ended: asked again, and something may have been missed
       └▶ UNIMPLEMENTED, or the end at once: asked again in a while, for the runtime may be another by then

Whether it tells is known by the first event alone: until then a runtime says nothing, not even that it will.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

from grpclib.const import Status

from fairlead.agent.grpc.client import CallFailed, Client
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.runtimes.cri import messages as cri

_AGAIN_SECONDS: Final = 1.0
_UNKNOWN_AGAIN_SECONDS: Final = 60.0


class ContainerEvents:
    """`heard` is called with the id of a container, or a sandbox, that has ended or is gone."""

    def __init__(self, client: Client, heard: Callable[[str], None]) -> None:
        self._client, self._heard = client, heard
        self.are_told = False
        #: Whether something may have happened that nobody told; for whoever looks to take back.
        self.may_have_missed = True

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            seconds = _AGAIN_SECONDS
            try:
                await self._listen()
                if not self.are_told:
                    seconds = _UNKNOWN_AGAIN_SECONDS
            except CallFailed as failure:
                if failure.status is Status.UNIMPLEMENTED:
                    seconds = _UNKNOWN_AGAIN_SECONDS
            except RuntimeFailure:
                pass  # it is away
            finally:
                self.are_told, self.may_have_missed = False, True
            await asyncio.sleep(seconds)

    async def _listen(self) -> None:
        async with aclosing(self._client.stream(cri.CONTAINER_EVENTS, Nothing())) as events:
            async for event in events:
                self.are_told = True
                if event.type in (cri.STOPPED_EVENT, cri.DELETED_EVENT):
                    self._heard(event.container_id)
                await asyncio.sleep(0)  # thousands may have come at once
