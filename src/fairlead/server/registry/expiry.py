"""Deletes events an hour after they were last written, as kube-apiserver's --event-ttl has it (X-08)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from itertools import islice
from typing import Final

from fairlead.api.builtin import EVENTS
from fairlead.runtime.clock import monotonic
from fairlead.server.registry.registry import Registry
from fairlead.store.base import RevisionMismatch, StoreUnavailable

log = logging.getLogger(__name__)

EVENT_TTL_SECONDS = 3600.0
#: So many are deleted at once, for one wait for the disk: events come as fast.
_AT_ONCE: Final = 64


class EventExpiry:
    """Remembers when each event was last written. Make it before the registry is opened, then run it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._written: OrderedDict[tuple[str, str], float] = OrderedDict()  # those of longest ago first
        self._arrived = asyncio.Event()
        registry.observers[EVENTS.qualified] = self._observe

    def _observe(self, namespace: str, name: str, raw: bytes | None) -> None:
        self._written.pop((namespace, name), None)
        if raw is not None:
            self._written[namespace, name] = monotonic()
            self._arrived.set()

    async def run(self) -> None:
        """Delete events, until cancelled. Sleeps until the next is due."""
        while True:
            while not self._written:
                self._arrived.clear()
                await self._arrived.wait()
            written_by = monotonic() - EVENT_TTL_SECONDS
            first = next(iter(self._written.values()))
            if first > written_by:
                await asyncio.sleep(first - written_by)
                continue
            due = [key for key, at in islice(self._written.items(), _AT_ONCE) if at <= written_by]
            for key in due:
                del self._written[key]
            async with asyncio.TaskGroup() as group:
                for key in due:
                    group.create_task(self._forget(*key), name="event expiry")

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
