"""A registry in virtual time, over a store in memory that can be opened again as if by the next process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fairlead.api import builtin
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, ListQuery, WatchEvent, WatchQuery
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.server.registry.custom_kinds import CustomKinds
from fairlead.store.base import Store
from fairlead.store.memory import MemoryStore

NAMESPACE = "n"
POD_SPEC: Obj = {"containers": [{"name": "c", "image": "i"}]}


def scheduled(**meta: Any) -> Obj:
    """A pod that is on a node already."""
    return {"metadata": {"name": "p"} | meta, "spec": POD_SPEC | {"nodeName": "node"}}


class World:
    """What a test does with a registry; objects are plain dicts, in namespace `n` where they have one."""

    def __init__(self, server: Server) -> None:
        self.registry, self.api = server.registry, server.api

    async def create(self, resource: Resource, obj: Obj, **more: Any) -> Obj:
        return (await self.api.create(resource, obj, _space(resource), **more)).obj()

    async def get(self, resource: Resource, name: str, subresource: str = "") -> Obj | None:
        try:
            return (await self.api.get(resource, name, _space(resource), subresource)).obj()
        except NotFound:
            return None

    async def names(self, resource: Resource, **query: Any) -> list[str]:
        listing = await self.api.list(resource, _space(resource), ListQuery(**query))
        return [item.obj()["metadata"]["name"] for item in listing.items]

    async def config(self, name: str, **meta: Any) -> Obj:
        return await self.create(builtin.CONFIG_MAPS, {"metadata": {"name": name} | meta})


def _space(resource: Resource) -> str:
    return NAMESPACE if resource.namespaced else ""


@asynccontextmanager
async def world(store: Store) -> AsyncIterator[World]:
    """One life of a server on that store."""
    server = Server(store)
    await server.open(["ServiceAccount"])
    kinds = CustomKinds(server.registry)
    await kinds.load_definitions()
    following = asyncio.create_task(kinds.run())
    try:
        yield World(server)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def run(test: Callable[[World], Awaitable[None]]) -> None:
    """Run a test against a new registry with one namespace, in no time."""

    async def main() -> None:
        async with world(MemoryStore()) as made:
            await made.create(builtin.NAMESPACES, {"metadata": {"name": NAMESPACE}})
            await test(made)

    run_virtual(main())


class Watching:
    """The events of a watch, gathered in the background."""

    def __init__(self, api: Api, resource: Resource, **query: Any) -> None:
        self.events: list[tuple[str, Obj]] = []
        self._watch = api.watch(resource, _space(resource), WatchQuery(**query))
        self.task = asyncio.create_task(self._gather())

    async def _gather(self) -> None:
        async for event in self._watch:
            self._took(event)

    def _took(self, event: WatchEvent) -> None:
        self.events.append((event.type, event.object.obj()))

    async def seen_events(self) -> list[tuple[str, str]]:
        """(type, name) of everything so far."""
        await asyncio.sleep(0.01)
        return [(type_, obj["metadata"]["name"]) for type_, obj in self.events]
