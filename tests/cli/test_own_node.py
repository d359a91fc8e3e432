"""What `fairlead up` sets up for the real node that comes with it."""

from __future__ import annotations

import asyncio

from fairlead.api.builtin import SERVICES
from fairlead.api.objects import Obj
from fairlead.api.users import MASTERS, User
from fairlead.cli.own_node import serve_names
from fairlead.server.assembly import Server
from fairlead.server.context import RequestContext
from fairlead.server.registry.registry import UserApi
from fairlead.store.memory import MemoryStore


def test_the_service_of_names_is_there_at_the_next_start_too() -> None:
    async def start_twice() -> list[Obj]:
        server = Server(MemoryStore())
        await server.open()
        api = UserApi(server.registry, RequestContext(User("up", (MASTERS,))))
        for _ in range(2):
            await serve_names(api)
        return [found.obj() for found in (await api.list(SERVICES, "kube-system")).items]

    (service,) = asyncio.run(start_twice())
    assert service["spec"]["clusterIP"] == "10.0.0.10"
