"""A cluster in virtual time: the real registry over a store in memory, and the controllers that a test asks for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fairlead.api import builtin
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.users import controller_user
from fairlead.api.verbs import DeleteOptions, PatchType
from fairlead.client.informer import Informers
from fairlead.controllers.base import Controller
from fairlead.controllers.table import ControllerManager
from fairlead.runtime.loops import run_virtual
from fairlead.server.assembly import Server
from fairlead.store.memory import MemoryStore

Made = Callable[[], Controller[Any]]


class Cluster:
    """What a test does with it; objects are plain dicts."""

    def __init__(self, server: Server) -> None:
        self.server, self.api, self.registry = server, server.api, server.registry

    async def create(self, resource: Resource, obj: Obj, namespace: str = "n") -> Obj:
        return (await self.api.create(resource, obj, namespace if resource.namespaced else "")).obj()

    async def get(self, resource: Resource, name: str, namespace: str = "n") -> Obj | None:
        try:
            return (await self.api.get(resource, name, namespace if resource.namespaced else "")).obj()
        except NotFound:
            return None

    async def all(self, resource: Resource, namespace: str = "n") -> list[Obj]:
        listing = await self.api.list(resource, namespace if resource.namespaced else "")
        return [one.obj() for one in listing.items]

    async def patch(
        self, resource: Resource, name: str, patch: Obj, subresource: str = "", namespace: str = "n"
    ) -> Obj:
        where = namespace if resource.namespaced else ""
        done = await self.api.patch(resource, name, where, patch, PatchType.MERGE, subresource=subresource)
        return done.obj()

    async def delete(self, resource: Resource, name: str, namespace: str = "n", **options: Any) -> None:
        where = namespace if resource.namespaced else ""
        await self.api.delete(resource, name, where, DeleteOptions(**options))

    async def all_events(self) -> list[Obj]:
        """Those about objects without a namespace, too."""
        return [one.obj() for one in (await self.api.list(builtin.EVENTS, "")).items]

    async def events(self, namespace: str = "n") -> list[tuple[str, str, str]]:
        found = await self.all(builtin.EVENTS, namespace)
        return sorted((one["type"], one["reason"], one["message"]) for one in found)


def run(test: Callable[[Cluster], Awaitable[None]], *controllers: Made, namespaces: Iterable[str] = ("n",)) -> None:
    """Run a test against a cluster with those controllers, in no time."""

    async def main() -> None:
        async with cluster(controllers, namespaces) as running:
            await test(running)

    run_virtual(main())


@asynccontextmanager
async def cluster(
    controllers: Iterable[Made], namespaces: Iterable[str] = ("n",), server: Server | None = None
) -> AsyncIterator[Cluster]:
    """`server`: that of an earlier cluster, whose controllers are gone."""
    logging.raiseExceptions = False  # a task that is cancelled late has nowhere to log to
    if server is None:
        server = Server(MemoryStore())
        await server.open(["ServiceAccount"])
    api = server.api
    for name in namespaces:
        if server.registry.find(builtin.NAMESPACES.qualified, name) is None:
            await api.create(builtin.NAMESPACES, {"metadata": {"name": name}})
    informers = Informers(api)
    manager = ControllerManager(
        lambda account: server.registry.as_user(controller_user(account)), informers, controllers
    )
    tasks = [asyncio.create_task(informers.run()), asyncio.create_task(manager.run())]
    await asyncio.sleep(0.1)
    try:
        yield Cluster(server)
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, BaseExceptionGroup):
                raise outcome
