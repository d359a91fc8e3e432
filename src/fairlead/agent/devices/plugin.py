"""One plugin of a driver: how it prepares claims, and how its devices are.

Source: pkg/kubelet/cm/dra/plugin (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final

from grpclib.const import Status

from fairlead.agent.devices.health import DeviceHealths
from fairlead.agent.devices.messages import WATCH_HEALTH, Claim, Claims, Device, DevicesHealth, prepare, unprepare
from fairlead.agent.devices.metrics import DraMetrics
from fairlead.agent.grpc.client import CallFailed, Client, decoded
from fairlead.agent.grpc.methods import Answer, Method, Nothing
from fairlead.agent.grpc.newest import newest
from fairlead.agent.grpc.protobuf import Malformed
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.runtime.clock import monotonic

_CALL_SECONDS: Final = 45.0
#: How soon a plugin that hangs up is connected to again.
_AGAIN_SECONDS: Final = 1.0
_WATCH_AGAIN_SECONDS: Final = 5.0
#: How long until is looked again at what a driver tells of its devices: the status of their pods is written for each.
_PAUSE_SECONDS: Final = 1.0
#: As much as a kubelet takes: what gRPC has for Go.
_LONGEST_ANSWER: Final = 4 << 20


class PluginFailure(Exception):
    """A driver could not do it; the text says why, in a kubelet's words."""


class Plugin:
    """`changed` is called when it is connected, or is no more."""

    def __init__(
        self,
        driver: str,
        endpoint: str,
        service: str,
        changed: Callable[[], None],
        healths: DeviceHealths,
        metrics: DraMetrics,
    ) -> None:
        self.driver, self.endpoint, self.service = driver, endpoint, service
        self.is_connected = False
        self._changed, self._healths, self._metrics = changed, healths, metrics
        self._client = Client(endpoint, f"the plugin of driver {driver}", _LONGEST_ANSWER)
        self._tasks = [
            asyncio.create_task(self._stay_connected(), name=f"driver {driver}"),
            asyncio.create_task(self._watch_health(), name=f"health of devices of {driver}"),
        ]

    async def prepare(self, claims: Sequence[Claim]) -> Mapping[str, Sequence[Device]]:
        """The devices of each claim, by its uid. PluginFailure."""
        call, answer = "NodePrepareResources", await self._call(prepare(self.service), claims)
        results = {each.uid: each.result for each in answer.claims}
        _check(call, claims, {uid: result.error for uid, result in results.items()})
        return {uid: result.devices for uid, result in results.items()}

    async def unprepare(self, claims: Sequence[Claim]) -> None:
        """PluginFailure."""
        call, answer = "NodeUnprepareResources", await self._call(unprepare(self.service), claims)
        _check(call, claims, {each.uid: each.result.error for each in answer.claims})

    async def _call(self, method: Method[Claims, Answer], claims: Sequence[Claim]) -> Answer:
        began, code = monotonic(), "OK"
        try:
            return await self._client.call(method, Claims(claims=list(claims)), _CALL_SECONDS)
        except RuntimeFailure as failure:
            code = failure.code if isinstance(failure, CallFailed) else "Unavailable"
            raise PluginFailure(f"{method.path.rpartition('/')[2]}: {failure}") from None
        finally:
            self._metrics.call(self.driver, method.path, monotonic() - began, code)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._client.close()

    async def _stay_connected(self) -> None:
        """So it is known at once when the plugin has gone; it may come back at the same socket."""
        while True:
            with suppress(RuntimeFailure):
                lost = await self._client.connected()
                self._is(connected=True)
                await lost
            self._is(connected=False)
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _watch_health(self) -> None:
        """Until the driver says that it tells nothing of this."""
        try:
            while True:
                try:
                    await self._read_health()
                except CallFailed as failure:
                    if failure.status is Status.UNIMPLEMENTED:
                        return
                except (RuntimeFailure, Malformed):
                    pass
                self._healths.forget(self.driver)
                await asyncio.sleep(_WATCH_AGAIN_SECONDS)
        finally:
            self._healths.forget(self.driver)

    async def _read_health(self) -> None:
        async with (
            aclosing(self._client.stream_bytes(WATCH_HEALTH, Nothing())) as every,
            aclosing(newest(every, _PAUSE_SECONDS)) as told,
        ):
            async for data in told:
                await self._healths.told(self.driver, (await decoded(data, DevicesHealth)).devices)

    def _is(self, *, connected: bool) -> None:
        if connected is not self.is_connected:
            self.is_connected = connected
            self._changed()


def _check(call: str, claims: Sequence[Claim], errors: Mapping[str, str]) -> None:
    names = {claim.uid: claim.name for claim in claims}
    for uid, error in errors.items():
        if uid not in names:
            raise PluginFailure(f"{call} returned result for unknown claim UID {uid}")
        if error:
            raise PluginFailure(f"{call} failed for ResourceClaim {names[uid]}: {error}")
    if left := len(names) - len(errors):
        raise PluginFailure(f"{call} skipped {left} ResourceClaims")
