"""One device plugin that has registered: which devices it has, and what a container gets with one.

A list is looked at once, and one a second at most, the newest: a plugin may say something else as fast as it likes.
Source: pkg/kubelet/cm/devicemanager/endpoint.go and plugin/v1beta1/client.go (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

import msgspec

from fairlead.agent.device_plugins.errors import DevicePluginError
from fairlead.agent.device_plugins.inventory import Inventory, inventory_of
from fairlead.agent.device_plugins.messages import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERENCES,
    LIST_AND_WATCH,
    PRE_START,
    Allocated,
    AllocateRequest,
    AllocateRequests,
    Options,
    PreferenceRequest,
    PreferenceRequests,
    PreStartRequest,
)
from fairlead.agent.grpc.client import CallFailed, Client
from fairlead.agent.grpc.methods import Answer, Asked, Method, Nothing
from fairlead.agent.grpc.newest import newest
from fairlead.agent.grpc.protobuf import Malformed
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.runtime.offload import offload

#: As much as a kubelet takes: what gRPC has for Go.
_LONGEST_ANSWER: Final = 4 << 20
#: Of what comes with the devices of a container: it is kept for as long as the pod is there.
_LONGEST_GIVEN: Final = 1 << 20
_OPTIONS_SECONDS: Final = 10.0
_PRE_START_SECONDS: Final = 30.0
#: A kubelet would wait for ever, and admit no pod meanwhile.
_ALLOCATE_SECONDS: Final = 120.0
_PREFERENCE_SECONDS: Final = 30.0
#: What is looked at beside the loop.
_LONG_LIST: Final = 16 << 10
#: How long until the next list is looked at: the status of the node, and of pods, is written for each.
_PAUSE_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class DevicePlugin:
    def __init__(self, resource: str, endpoint: str) -> None:
        self.resource, self.endpoint, self.options = resource, endpoint, Options()
        self._client = Client(endpoint, f"the device plugin of {resource}", _LONGEST_ANSWER)
        self._watch: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """DevicePluginError where nobody answers there."""
        try:
            self.options = await self._call(GET_OPTIONS, Nothing(), _OPTIONS_SECONDS)
        except DevicePluginError as problem:
            self._client.close()
            raise DevicePluginError(f"failed to get device plugin options: {problem}") from None

    def watch(self, listed: Callable[[Inventory], None], gone: Callable[[], None]) -> None:
        """From now on `listed` is called with all of its devices, and `gone` once when it hangs up."""
        self._watch = asyncio.create_task(self._follow(listed, gone), name=f"devices {self.resource}")

    async def allocate(self, devices: Sequence[str]) -> Allocated:
        """DevicePluginError."""
        asked = AllocateRequests(container_requests=[AllocateRequest(devices_ids=list(devices))])
        answer = await self._call(ALLOCATE, asked, _ALLOCATE_SECONDS)
        if not answer.container_responses:
            raise DevicePluginError("no containers return in allocation response &AllocateResponse{}")
        given = answer.container_responses[0]
        if len(msgspec.json.encode(given)) > _LONGEST_GIVEN:
            raise DevicePluginError(
                f"the device plugin of {self.resource} gives a container more than {_LONGEST_GIVEN} bytes"
            )
        return given

    async def preferred(self, available: Sequence[str], included: Sequence[str], count: int) -> Sequence[str]:
        """Which of these it would rather give; nothing where it does not say. DevicePluginError."""
        if not self.options.get_preferred_allocation_available:
            return ()
        request = PreferenceRequest(available=list(available), must_include=list(included), allocation_size=count)
        try:
            answer = await self._call(
                GET_PREFERENCES, PreferenceRequests(container_requests=[request]), _PREFERENCE_SECONDS
            )
        except DevicePluginError as problem:
            raise DevicePluginError(f"device plugin GetPreferredAllocation rpc failed with err: {problem}") from None
        return answer.container_responses[0].device_ids if answer.container_responses else ()

    async def pre_start(self, devices: Sequence[str]) -> None:
        """Before each start of a container that has these, if the plugin wants to be asked. DevicePluginError."""
        if self.options.pre_start_required:
            try:
                await self._call(PRE_START, PreStartRequest(devices_ids=list(devices)), _PRE_START_SECONDS)
            except DevicePluginError as problem:
                raise DevicePluginError(f"device plugin PreStartContainer rpc failed with err: {problem}") from None

    def close(self) -> None:
        """Nobody is told that it has gone."""
        if self._watch is not None:
            self._watch.cancel()
        self._client.close()

    async def _call(self, method: Method[Asked, Answer], asked: Asked, seconds: float) -> Answer:
        try:
            return await self._client.call(method, asked, seconds)
        except CallFailed as failure:
            raise DevicePluginError(str(failure)) from None
        except RuntimeFailure as failure:
            raise DevicePluginError(f"rpc error: code = Unavailable desc = {failure}") from None

    async def _follow(self, listed: Callable[[Inventory], None], gone: Callable[[], None]) -> None:
        try:
            await self._read(listed)
            why = "it has ended its list"
        except (RuntimeFailure, Malformed) as failure:
            why = str(failure)
        log.warning("%s has gone: %s", self.resource, why)
        self._client.close()
        gone()

    async def _read(self, listed: Callable[[Inventory], None]) -> None:
        last: bytes | None = None
        async with (
            aclosing(self._client.stream_bytes(LIST_AND_WATCH, Nothing())) as every,
            aclosing(newest(every, _PAUSE_SECONDS)) as told,
        ):
            async for data in told:
                if data != last:
                    listed(await offload(partial(inventory_of, data), is_long=len(data) > _LONG_LIST))
                    last = data
