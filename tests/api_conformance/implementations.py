"""The implementations of `Api` that the suite holds to it, each over a server of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import uvloop

from fairlead.api.users import MASTERS, User
from fairlead.api.verbs import Api
from fairlead.client.http import HttpApi
from fairlead.client.kubeconfig import Access
from fairlead.runtime.http.listener import bind, serving
from fairlead.runtime.loops import VirtualLoop
from fairlead.server.assembly import Server
from fairlead.server.auth.tokens import anybody
from fairlead.server.http.app import Application
from fairlead.server.http.documents import Documents
from fairlead.server.registry.registry import Registry
from fairlead.store.memory import MemoryStore

#: Whoever comes in through a listener: of components nobody notes which fields they write.
CLIENT = User("client", (MASTERS,))


@dataclass(frozen=True, slots=True)
class Implementation:
    """Makes an `Api` over a registry, to be used on loops of that kind."""

    loop: Callable[[], asyncio.AbstractEventLoop]
    over: Callable[[Registry], AbstractAsyncContextManager[Api]]


@asynccontextmanager
async def _in_process(registry: Registry) -> AsyncIterator[Api]:
    yield registry.as_user(CLIENT, tracks_fields=True)


@asynccontextmanager
async def _http(registry: Registry) -> AsyncIterator[Api]:
    sock = bind(0)
    host, port = sock.getsockname()[:2]
    application = Application(registry, Documents(registry, f"{host}:{port}"), anybody)
    async with serving(application, sock), HttpApi(Access(f"http://{host}:{port}")) as api:
        yield api


IMPLEMENTATIONS = {
    "registry": Implementation(VirtualLoop, _in_process),
    "http": Implementation(uvloop.new_event_loop, _http),
}


@asynccontextmanager
async def running(implementation: Implementation) -> AsyncIterator[Api]:
    """A server with nothing but what every cluster has, and an `Api` of it."""
    server = Server(MemoryStore())
    await server.open(["ServiceAccount"])
    following = asyncio.create_task(server.run())
    try:
        async with implementation.over(server.registry) as api:
            yield api
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
