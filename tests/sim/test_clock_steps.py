"""Somebody sets the clock, or a laptop wakes up: what has lasted so long has lasted no longer for that."""

from __future__ import annotations

import asyncio

import pytest

from fairlead.api.builtin import NODES, PODS
from fairlead.api.objects import Obj
from fairlead.api.verbs import DeleteOptions
from fairlead.compose import Cluster, Settings, components
from fairlead.runtime.clock import now, timestamp
from fairlead.runtime.loops import VirtualLoop, run_virtual
from fairlead.server.assembly import Server
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.store.memory import MemoryStore

POD: Obj = {"containers": [{"name": "c", "image": "i"}], "tolerations": []}


@pytest.mark.parametrize("hours", [8, -8])
def test_no_node_falls_silent_and_new_pods_run_when_the_clock_is_set(hours: int) -> None:
    async def main() -> None:
        running = Cluster(server := Server(MemoryStore()))
        await server.open()
        api, loop = server.api, asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)

        async def ready(name: str) -> Obj:
            pod = (await api.get(PODS, name, "default")).obj()
            return {condition["type"]: condition["status"] for condition in pod["status"].get("conditions", ())} | {
                "of": pod
            }

        async with components(running, Settings(nodes=tuple(uniform(2, NodeShape()))), heartbeats=True):
            await api.create(PODS, {"metadata": {"name": "before"}, "spec": POD}, "default")
            choosy = POD | {"nodeSelector": {"disk": "ssd"}}
            await api.create(PODS, {"metadata": {"name": "choosy"}, "spec": choosy}, "default")
            await asyncio.sleep(30)
            loop.epoch += hours * 3600
            before = timestamp()
            await api.patch(NODES, "node-1", "", {"metadata": {"labels": {"disk": "ssd"}}})
            await asyncio.sleep(30)
            assert (await ready("choosy"))["Ready"] == "True"  # its back-off has ended
            for _ in range(40):
                await asyncio.sleep(10)
                for found in api.registry.each(NODES.qualified):
                    conditions = {
                        condition["type"]: condition["status"] for condition in found.obj()["status"]["conditions"]
                    }
                    assert (conditions["Ready"], found.obj()["spec"].get("taints")) == ("True", None)
            await api.create(PODS, {"metadata": {"name": "after"}, "spec": POD}, "default")
            await asyncio.sleep(10)
            assert (await ready("before"))["Ready"] == (await ready("after"))["Ready"] == "True"
            assert (await ready("after"))["of"]["metadata"]["creationTimestamp"] >= before
            await api.delete(PODS, "after", "default", DeleteOptions(grace_period_seconds=5))
            await asyncio.sleep(60)
            assert api.registry.find("pods", "after", "default") is None
            assert not running.failure.done()
            assert now() == loop.time() + loop.epoch

    run_virtual(main())
