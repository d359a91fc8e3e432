"""The namespaces that every cluster has are made again when they are gone.

Source: pkg/controlplane/controller/systemnamespaces (1.36), which looks every minute.
"""

from __future__ import annotations

import asyncio
import logging

from fairlead.api.builtin import NAMESPACES
from fairlead.api.errors import ApiError
from fairlead.server.registry.bootstrap import SYSTEM_NAMESPACES, ensure
from fairlead.server.registry.registry import Registry

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 60.0


class SystemNamespaces:
    """Hears of every namespace that goes. Make it before the registry is opened, then run it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._gone = asyncio.Event()
        registry.observers[NAMESPACES.qualified] = self._observe

    def _observe(self, namespace: str, name: str, raw: bytes | None) -> None:
        if raw is None and name in SYSTEM_NAMESPACES:
            self._gone.set()

    async def run(self) -> None:
        """Make them again, until cancelled."""
        while True:
            await self._gone.wait()
            self._gone.clear()
            try:
                for name in SYSTEM_NAMESPACES:
                    await ensure(self._registry, NAMESPACES, {"metadata": {"name": name}})
            except ApiError as error:
                log.warning("a system namespace cannot be made again for now: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
                self._gone.set()
