"""One plugin of a driver: what it says of itself at its socket, and how it prepares claims.

Source: pkg/kubelet/cm/dra/plugin, pkg/kubelet/pluginmanager/operationexecutor (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.agent.devices.messages import (
    GET_INFO,
    NOTIFY,
    Claim,
    Claims,
    Device,
    PluginInfo,
    RegistrationStatus,
    prepare,
    unprepare,
)
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.runtimes.cri.client import Client
from fairlead.agent.runtimes.cri.messages import Nothing

_INFO_SECONDS: Final = 1.0
_NOTIFY_SECONDS: Final = 5.0
_CALL_SECONDS: Final = 45.0
#: How soon a plugin that hangs up is connected to again.
_AGAIN_SECONDS: Final = 1.0


class PluginFailure(Exception):
    """A driver could not do it; the text says why, in a kubelet's words."""


class Plugin:
    """`changed` is called when it is connected, or is no more."""

    def __init__(self, driver: str, endpoint: str, service: str, changed: Callable[[], None]) -> None:
        self.driver, self.endpoint, self.service = driver, endpoint, service
        self.is_connected = False
        self._changed = changed
        self._client = _client(endpoint, driver)
        self._task = asyncio.create_task(self._stay_connected(), name=f"driver {driver}")

    async def prepare(self, claims: Sequence[Claim]) -> Mapping[str, Sequence[Device]]:
        """The devices of each claim, by its uid. PluginFailure."""
        call = "NodePrepareResources"
        try:
            answer = await self._client.call(prepare(self.service), Claims(claims=list(claims)), _CALL_SECONDS)
        except RuntimeFailure as failure:
            raise PluginFailure(f"{call}: {failure}") from None
        results = {each.uid: each.result for each in answer.claims}
        _check(call, claims, {uid: result.error for uid, result in results.items()})
        return {uid: result.devices for uid, result in results.items()}

    async def unprepare(self, claims: Sequence[Claim]) -> None:
        """PluginFailure."""
        call = "NodeUnprepareResources"
        try:
            answer = await self._client.call(unprepare(self.service), Claims(claims=list(claims)), _CALL_SECONDS)
        except RuntimeFailure as failure:
            raise PluginFailure(f"{call}: {failure}") from None
        _check(call, claims, {each.uid: each.result.error for each in answer.claims})

    def close(self) -> None:
        self._task.cancel()
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

    def _is(self, *, connected: bool) -> None:
        if connected is not self.is_connected:
            self.is_connected = connected
            self._changed()


def _client(path: str, who: str) -> Client:
    return Client(path, f"the plugin of driver {who}")


def _check(call: str, claims: Sequence[Claim], errors: Mapping[str, str]) -> None:
    names = {claim.uid: claim.name for claim in claims}
    for uid, error in errors.items():
        if uid not in names:
            raise PluginFailure(f"{call} returned result for unknown claim UID {uid}")
        if error:
            raise PluginFailure(f"{call} failed for ResourceClaim {names[uid]}: {error}")
    if left := len(names) - len(errors):
        raise PluginFailure(f"{call} skipped {left} ResourceClaims")


async def register(socket: Path, accept: Callable[[PluginInfo], Awaitable[str]]) -> PluginInfo:
    """Ask whoever listens there who it is, and tell what becomes of that: `accept` says what is wrong, or nothing.

    PluginFailure where nobody answers, or is not accepted.
    """
    client = _client(str(socket), str(socket))
    try:
        info = await client.call(GET_INFO, Nothing(), _INFO_SECONDS)
        problem = await accept(info)
        status = RegistrationStatus(plugin_registered=not problem, error=problem)
        await client.call(NOTIFY, status, _NOTIFY_SECONDS)
    except RuntimeFailure as failure:
        raise PluginFailure(str(failure)) from None
    finally:
        client.close()
    if problem:
        raise PluginFailure(problem)
    return info
