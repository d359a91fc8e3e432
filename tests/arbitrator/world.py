"""A simulated cluster with an arbitrator, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.errors import NotFound
from fairlead.api.verbs import Api, EventType, WatchQuery
from fairlead.arbitrator.objects import ALLOCATIONS, CONSUMER_GROUPS, CONSUMERS, THE_NAME
from fairlead.compose import Settings, simulation
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform

Obj = dict[str, Any]


class World:
    """A cluster of simulated nodes with an arbitrator."""

    def __init__(self, api: Api) -> None:
        self.api = api
        #: The pods, `namespace/name`, that the Eviction API has sent away, in their order.
        self.evicted: list[str] = []

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Note evictions while the block runs."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    async def _watch(self) -> None:
        async for event in self.api.watch(builtin.PODS, "", WatchQuery()):
            pod = event.object.obj()
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            reasons = {condition.get("reason") for condition in pod.get("status", {}).get("conditions", ())}
            if "EvictionByEvictionAPI" in reasons and event.type is not EventType.ADDED and key not in self.evicted:
                self.evicted.append(key)

    async def namespace(self, name: str, **spec: Any) -> None:
        """It begins with a Consumer and a service account."""
        await self.api.create(builtin.NAMESPACES, {"metadata": {"name": name}})
        await self.until(lambda: self._is_furnished(name))
        await self.consumer(name, **spec)

    async def _is_furnished(self, namespace: str) -> bool:
        try:
            await self.api.get(builtin.SERVICE_ACCOUNTS, "default", namespace)
            await self.api.get(CONSUMERS, THE_NAME, namespace)
        except NotFound:
            return False
        return True

    async def consumer(self, namespace: str, **spec: Any) -> None:
        if spec:
            await self.api.patch(CONSUMERS, THE_NAME, namespace, {"spec": spec})

    async def group(self, name: str, **spec: Any) -> None:
        await self.api.create(CONSUMER_GROUPS, {"metadata": {"name": name}, "spec": spec})

    async def pods(self, namespace: str, count: int, cpu: str = "1", memory: str = "1Gi") -> None:
        for number in range(count):
            await self.pod(namespace, f"{cpu}-{memory}-{number}".lower(), cpu=cpu, memory=memory)

    async def pod(self, namespace: str, name: str, *, cpu: str = "1", memory: str = "1Gi", **spec: Any) -> None:
        """A pod of its own: nobody replaces it."""
        pod = {"metadata": {"name": name, "namespace": namespace}, "spec": _running(cpu, memory) | spec}
        await self.api.create(builtin.PODS, pod, namespace)

    async def controller(
        self, namespace: str, name: str, replicas: int, *, cpu: str = "1", memory: str = "1Gi", **more: Any
    ) -> None:
        """A ReplicationController: it replaces whoever goes."""
        template = {"metadata": {"labels": {"app": name}}, "spec": _running(cpu, memory) | more}
        spec = {"replicas": replicas, "selector": {"app": name}, "template": template}
        made = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        await self.api.create(builtin.REPLICATION_CONTROLLERS, made, namespace)

    async def daemons(self, namespace: str, name: str, *, cpu: str = "1", memory: str = "1Gi") -> None:
        template = {"metadata": {"labels": {"app": name}}, "spec": _running(cpu, memory)}
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        made = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        await self.api.create(builtin.DAEMON_SETS, made, namespace)

    async def scale(self, namespace: str, name: str, replicas: int) -> None:
        await self.api.patch(builtin.REPLICATION_CONTROLLERS, name, namespace, {"spec": {"replicas": replicas}})

    async def budget(self, namespace: str, app: str, min_available: int) -> None:
        spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}}
        made = {"metadata": {"name": app, "namespace": namespace}, "spec": spec}
        await self.api.create(builtin.POD_DISRUPTION_BUDGETS, made, namespace)

    async def of(self, namespace: str) -> list[Obj]:
        """The pods of a namespace that are not on their way out."""
        found = [entry.obj() for entry in (await self.api.list(builtin.PODS, namespace)).items]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    async def running(self, *namespaces: str) -> list[int]:
        """How many pods run there."""
        pods = [await self.of(namespace) for namespace in namespaces]
        return [sum(pod["status"]["phase"] == "Running" for pod in some) for some in pods]

    async def are_running(self, namespaces: Iterable[str], counts: list[int]) -> bool:
        return await self.running(*namespaces) == counts

    async def until(self, holds: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
        """Wait until it holds; no longer than that."""
        async with asyncio.timeout(seconds):
            while True:
                if await holds():
                    return
                await asyncio.sleep(0.2)

    async def why(self, namespace: str) -> set[str]:
        """What the waiting pods say of themselves."""
        conditions = [
            condition for pod in await self.of(namespace) for condition in pod["status"].get("conditions", ())
        ]
        return {
            condition["message"]
            for condition in conditions
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        }

    async def events(self, namespace: str, reason: str) -> list[Obj]:
        found = [entry.obj() for entry in (await self.api.list(builtin.EVENTS, namespace)).items]
        return [event for event in found if event["reason"] == reason]

    async def settle(self, seconds: float = 5) -> None:
        await asyncio.sleep(seconds)

    async def status(self, namespace: str) -> Obj:
        found: Obj = (await self.api.get(ALLOCATIONS, THE_NAME, namespace)).obj()["status"]
        return found

    async def condition(self, namespace: str, type_: str) -> tuple[str, str]:
        """Status and reason."""
        (found,) = [
            condition for condition in (await self.status(namespace))["conditions"] if condition["type"] == type_
        ]
        return found["status"], found["reason"]

    async def deserved(self, *namespaces: str, resource: str = "requests.cpu") -> list[str]:
        await self.settle()
        return [(await self.status(namespace))["deserved"][resource] for namespace in namespaces]


def _running(cpu: str, memory: str) -> Obj:
    requests = {"cpu": cpu, "memory": memory}
    return {"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]}


def scene(act: Callable[[World], Awaitable[None]], *, nodes: int = 1, cpu: str = "10", memory: str = "64Gi") -> None:
    async def play() -> None:
        settings = Settings(nodes=tuple(uniform(nodes, NodeShape(cpu, memory, 110))), arbitrator=True)
        async with simulation(settings) as (registry, _):
            await asyncio.sleep(5)
            world = World(registry)
            async with world.watching():
                await act(world)

    run_virtual(play())
