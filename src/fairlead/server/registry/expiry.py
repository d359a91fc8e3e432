"""Deletes events an hour after they were last written, as kube-apiserver's --event-ttl has it (X-08)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from fairlead.api.builtin import EVENTS
from fairlead.runtime.clock import monotonic
from fairlead.server.registry.registry import Registry
from fairlead.store.base import RevisionMismatch, StoreUnavailable

log = logging.getLogger(__name__)

EVENT_TTL_SECONDS = 3600.0


class EventExpiry:
    """Remembers when each event was last written. Make it before the registry is opened, then run it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._written: deque[tuple[float, str, str]] = deque()
        self._latest: dict[tuple[str, str], float] = {}
        self._arrived = asyncio.Event()
        registry.observers[EVENTS.qualified] = self._observe

    def _observe(self, namespace: str, name: str, raw: bytes | None) -> None:
        if raw is None:
            self._latest.pop((namespace, name), None)
            return
        moment = self._latest[(namespace, name)] = monotonic()
        self._written.append((moment, namespace, name))
        self._arrived.set()

    async def run(self) -> None:
        """Delete event after event, until cancelled. Sleeps until the next is due."""
        while True:
            while not self._written:
                self._arrived.clear()
                await self._arrived.wait()
            at, namespace, name = self._written[0]
            due = at + EVENT_TTL_SECONDS
            if due > monotonic():
                await asyncio.sleep(due - monotonic())
                continue
            self._written.popleft()
            if self._latest.get((namespace, name)) == at:  # else it was written again, or is gone
                await self._forget(namespace, name)

    async def _forget(self, namespace: str, name: str) -> None:
        served = self._registry.catalogue.stored(EVENTS.qualified)
        assert served is not None
        key = served.key(namespace, name)
        record = (await self._registry.store.head(key)).record
        if record is None:
            return
        try:
            await self._registry.store.delete(key, record.revision)
        except RevisionMismatch:
            return  # it was written just now, and is in the queue again
        except StoreUnavailable as error:
            log.warning("event %s/%s stays for now: %s", namespace, name, error)
            self._observe(namespace, name, record.value)
