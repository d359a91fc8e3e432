"""A cluster whose tasks are all ended at once, as at the end of a loop, ends: none waits for another that has gone.

It happens in the midst of work with claims, quotas and a store that takes its time; each seed ends it at another write.
In virtual time a task that waits for what nobody will bring is an error (`Stalled`), and not a hang.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest

from fairlead.api.builtin import DEVICE_CLASSES, RESOURCE_QUOTAS, RESOURCE_SLICES
from fairlead.compose import Settings, components, opened
from fairlead.runtime.loops import VirtualLoop
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.store.base import Record
from fairlead.store.embedded import EmbeddedStore, PendingWrite
from tests.scheduler.devices_world import class_obj, device, slice_obj
from tests.scheduler.test_e2e_devices import Builder

NODES = tuple(uniform(3, NodeShape()))


class SlowStore(EmbeddedStore):
    """As one whose thread works on whatever becomes of the task. The loop is stopped with its last write."""

    def __init__(self, random: Random, last: int) -> None:
        super().__init__()
        self._random, self._left = random, last

    async def put(self, key: str, value: bytes, expected: int) -> Record:
        self._left -= 1
        if not self._left:
            asyncio.get_running_loop().stop()
        return await super().put(key, value, expected)

    async def _persist(self, writes: list[PendingWrite]) -> None:
        for _ in range(self._random.randrange(5)):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)


async def busy(store: EmbeddedStore) -> None:
    settings = Settings(nodes=NODES)
    running = await opened(store, settings)
    async with components(running, settings, heartbeats=False):
        builder, api = Builder(running.api), running.api
        hard = {"pods": "100", "count/resourceclaims.resource.k8s.io": "100"}
        await api.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}}, "default")
        await builder.create(DEVICE_CLASSES, class_obj("gpu"))
        for node in NODES:
            name = node["metadata"]["name"]
            await builder.create(RESOURCE_SLICES, slice_obj(name, device("a"), device("b"), node=name))
        template = await builder.template()

        async def come_and_go() -> None:
            while True:
                pod = await builder.pod(template=template)
                await builder.running(pod)
                await builder.delete(pod)

        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(come_and_go())


@pytest.mark.parametrize("seed", [0, 1, 2, 24, 26, 30])
def test_a_cluster_ends_wherever_it_is(seed: int) -> None:
    random, loop = Random(seed), VirtualLoop()
    store = SlowStore(random, last=random.randrange(400, 900))
    try:
        cluster = loop.create_task(busy(store))
        loop.run_forever()
        assert not cluster.done()
        tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
        random.shuffle(tasks)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(tasks))
    finally:
        loop.close()
