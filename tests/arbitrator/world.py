"""A simulated cluster with an arbitrator, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api import builtin
from fairlead.api.verbs import Api
from fairlead.arbitrator.objects import ALLOCATIONS, CONSUMER_GROUPS, CONSUMERS, THE_NAME
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform

Obj = dict[str, Any]


class World:
    """A cluster of simulated nodes with an arbitrator."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def namespace(self, name: str, **spec: Any) -> None:
        await self.api.create(builtin.NAMESPACES, {"metadata": {"name": name}})
        await self.settle()
        await self.consumer(name, **spec)

    async def consumer(self, namespace: str, **spec: Any) -> None:
        if spec:
            await self.api.patch(CONSUMERS, THE_NAME, namespace, {"spec": spec})

    async def group(self, name: str, **spec: Any) -> None:
        await self.api.create(CONSUMER_GROUPS, {"metadata": {"name": name}, "spec": spec})

    async def pods(self, namespace: str, count: int, cpu: str = "1", memory: str = "1Gi") -> None:
        for number in range(count):
            requests = {"cpu": cpu, "memory": memory}
            container = {"name": "c", "image": "x", "resources": {"requests": requests}}
            name = f"{cpu}-{memory}-{number}".lower()
            pod = {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": [container]}}
            await self.api.create(builtin.PODS, pod, namespace)

    async def settle(self) -> None:
        await asyncio.sleep(5)

    async def status(self, namespace: str) -> Obj:
        found: Obj = (await self.api.get(ALLOCATIONS, THE_NAME, namespace)).obj()["status"]
        return found

    async def condition(self, namespace: str, type_: str) -> tuple[str, str]:
        """Status and reason."""
        (found,) = [one for one in (await self.status(namespace))["conditions"] if one["type"] == type_]
        return found["status"], found["reason"]

    async def deserved(self, *namespaces: str, resource: str = "requests.cpu") -> list[str]:
        await self.settle()
        return [(await self.status(one))["deserved"][resource] for one in namespaces]


def scene(act: Callable[[World], Awaitable[None]], *, nodes: int = 1, cpu: str = "10", memory: str = "64Gi") -> None:
    async def play() -> None:
        settings = Settings(nodes=tuple(uniform(nodes, NodeShape(cpu, memory, 110))), arbitrator=True)
        async with simulation(settings) as (registry, _):
            await asyncio.sleep(5)
            await act(World(registry))

    run_virtual(play())
