"""Objects that the tests of the suite write, and what they look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, cast

from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, EventType, Listing, WatchEvent, WatchQuery

#: How long a test waits for what must come; on a virtual loop that is no time at all.
PATIENCE = 30.0

CONTAINER: Obj = {"name": "c", "image": "i"}


def config_map(name: str, data: Obj | None = None, **meta: Any) -> Obj:
    return {"metadata": {"name": name, **meta}, "data": data or {"k": "v"}}


def pod(name: str, *, node: str = "", **meta: Any) -> Obj:
    spec: Obj = {"containers": [CONTAINER]} | ({"nodeName": node} if node else {})
    return {"metadata": {"name": name, **meta}, "spec": spec}


def deployment(name: str, replicas: int = 2) -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def names(listing: Listing) -> list[str]:
    return [item.obj()["metadata"]["name"] for item in listing.items]


def version_of(obj: Obj) -> str:
    return str(obj["metadata"]["resourceVersion"])


class Watching:
    """The events of a watch, gathered as they come."""

    def __init__(self, api: Api, resource: Resource, namespace: str = "", **query: Any) -> None:
        self.events: list[tuple[EventType, Obj]] = []
        self._came = asyncio.Event()
        self._task = asyncio.create_task(self._gather(api, resource, namespace, WatchQuery(**query)))

    async def _gather(self, api: Api, resource: Resource, namespace: str, query: WatchQuery) -> None:
        # Both implementations are generators, which release the watch when they are closed.
        events = cast(Any, api.watch(resource, namespace, query))
        async with aclosing(events):
            async for event in cast(AsyncIterator[WatchEvent], events):
                self.events.append((event.type, event.object.obj()))
                self._came.set()

    async def until(self, holds: Callable[[list[tuple[EventType, Obj]]], bool]) -> list[tuple[EventType, Obj]]:
        """What has come as soon as that holds."""
        async with asyncio.timeout(PATIENCE):
            while not holds(self.events):
                self._came.clear()
                coming = asyncio.create_task(self._came.wait())
                await asyncio.wait((coming, self._task), return_when=asyncio.FIRST_COMPLETED)
                coming.cancel()
                if self._task.done():
                    self._task.result()
                    assert holds(self.events), f"the watch has ended: {self.events}"
        return self.events

    async def told(self, count: int) -> list[tuple[str, str]]:
        """(type, name) of the first so many events."""
        events = await self.until(lambda events: len(events) >= count)
        return [(type_.value, obj["metadata"].get("name", "")) for type_, obj in events]

    async def ended(self) -> None:
        """Return when the watch has ended; raises what ended it."""
        async with asyncio.timeout(PATIENCE):
            await self._task

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
