"""The drivers of this node: those whose plugins have registered. What the others offered is offered no more.

Source: pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fairlead.agent.devices.health import DeviceHealths
from fairlead.agent.devices.messages import SERVICES
from fairlead.agent.devices.metrics import DraMetrics
from fairlead.agent.plugins.messages import PluginInfo
from fairlead.api.builtin import RESOURCE_SLICES
from fairlead.api.devices import ResourceSlice
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.verbs import Api, ListQuery

if TYPE_CHECKING:
    from fairlead.agent.devices.plugin import Plugin

#: What plugins of drivers call themselves.
DRA: Final = "DRAPlugin"
#: For so long a driver may be away, for it to start anew, before its slices go.
WIPE_SECONDS: Final = 30.0
_LONGEST_AGAIN_SECONDS: Final = 300.0

log = logging.getLogger(__name__)


class NoDriver(Exception):
    """No plugin of that driver has registered."""


class DeviceDrivers:
    def __init__(self, api: Api, node_name: str, wipe_seconds: float = WIPE_SECONDS) -> None:
        self._api, self._node_name, self._wipe_seconds = api, node_name, wipe_seconds
        self._plugins: dict[str, list[Plugin]] = defaultdict(list)  # by driver, in the order of their registration
        self.healths, self.metrics = DeviceHealths(), DraMetrics()
        self._wipes: dict[str, asyncio.Task[None]] = {}  # by driver; "" stands for all

    async def run(self) -> None:
        """Until cancelled. Whatever drivers offered before is not known to be there until they register."""
        self._wipe("", 0.0)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for wipe in self._wipes.values():
                wipe.cancel()
            for plugin in [each for plugins in self._plugins.values() for each in plugins]:
                plugin.close()
            self._plugins.clear()

    def plugin(self, driver: str) -> Plugin:
        """The newest, and rather one that is connected. NoDriver."""
        plugins = self._plugins.get(driver) or []
        if not plugins:
            raise NoDriver(f"DRA driver {driver} is not registered")
        return next((plugin for plugin in reversed(plugins) if plugin.is_connected), plugins[-1])

    async def register(self, info: PluginInfo, endpoint: str) -> str:
        """Why it cannot be, or nothing."""
        from fairlead.agent.devices.plugin import Plugin  # with what speaks gRPC

        about = f"DRA driver plugin {info.name} at endpoint {endpoint}"
        service = next((each for each in info.supported_versions if each in SERVICES), "")
        if not service:
            said = " ".join(f'"{each}"' for each in info.supported_versions)
            known = " ".join(f'"{each}"' for each in SERVICES)
            why = f"none of services supported by the plugin ([{said}]) are supported by the kubelet ([{known}])"
            if not info.supported_versions:
                why = "empty list of supported gRPC services (aka supported versions)"
            return f"plugin validation failed with err: invalid supported gRPC versions of {about}: {why}"
        why = ""
        if any(plugin.endpoint == endpoint for plugin in self._plugins.get(info.name) or ()):
            why = f"endpoint {endpoint} already registered for DRA driver plugin {info.name}"
        elif not info.name:
            why = "DRA driver name is empty"
        if why:
            return f"plugin registration failed with err: {why}"
        plugin = Plugin(info.name, endpoint, service, lambda: self._sync(info.name), self.healths, self.metrics)
        self._plugins[info.name].append(plugin)
        log.info("%s has registered", about)
        self._sync(info.name)
        return ""

    def deregister(self, driver: str, endpoint: str) -> None:
        for plugin in [each for each in self._plugins[driver] if each.endpoint == endpoint]:
            self._plugins[driver].remove(plugin)
            plugin.close()
            log.info("DRA driver plugin %s at endpoint %s has gone", driver, endpoint)
        if not self._plugins[driver]:
            del self._plugins[driver]
        self._sync(driver)

    def _sync(self, driver: str) -> None:
        """Whether it can be used has changed, perhaps."""
        if any(plugin.is_connected for plugin in self._plugins.get(driver) or ()):
            if (wipe := self._wipes.pop(driver, None)) is not None:
                wipe.cancel()
        elif driver not in self._wipes:
            self._wipe(driver, self._wipe_seconds)

    def _wipe(self, driver: str, seconds: float) -> None:
        async def wipe() -> None:
            await asyncio.sleep(seconds)
            await self._delete_slices(driver)
            self._wipes.pop(driver, None)

        self._wipes[driver] = asyncio.create_task(wipe(), name="resource slices")

    async def _delete_slices(self, driver: str) -> None:
        """Nobody is to get devices that nobody can prepare."""
        fields = f"spec.nodeName={self._node_name}" + (f",spec.driver={driver}" if driver else "")
        again = 1.0
        while True:
            try:
                for found in (await self._api.list(RESOURCE_SLICES, query=ListQuery(fields=fields))).items:
                    slice_ = found.view(ResourceSlice)
                    if driver or slice_.spec.driver not in self._plugins:  # who has registered meanwhile sees to his
                        with suppress(NotFound):
                            await self._api.delete(RESOURCE_SLICES, slice_.metadata.name)
            except NotFound:  # they are not served
                return
            except (ApiError, OSError) as error:
                log.info("resource slices of %s cannot be deleted yet: %s", driver or "this node", error)
                await asyncio.sleep(again)
                again = min(2 * again, _LONGEST_AGAIN_SECONDS)
            else:
                return
