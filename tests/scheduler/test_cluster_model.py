"""The model of the cluster by itself: questions about pods are answered without a scheduler that runs."""

from __future__ import annotations

import asyncio

from fairlead.api import builtin
from fairlead.api.scheduling import Pod
from fairlead.api.verbs import DeleteOptions
from fairlead.client.informer import Informers
from fairlead.runtime.loops import run_virtual
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.framework import ClusterEvent, EventKind
from fairlead.scheduler.whatif import WhatIf
from tests.registry_api import RegistryApi
from tests.scheduler.scheduler_world import node_obj, pod, pod_obj


class Record:
    """What an observer is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pod_waits(self, old: Pod | None, pod: Pod) -> None:
        self.told.append(f"{pod.metadata.name} waits")

    def pod_left(self, pod: Pod) -> None:
        self.told.append(f"{pod.metadata.name} left")

    def on_cluster_event(self, event: ClusterEvent, most_important: int | None = None) -> None:
        self.told.extend(str(kind.name) for kind in EventKind if kind in event.kinds)


async def model_of(api: RegistryApi, record: Record) -> tuple[ClusterModel, asyncio.Task[None]]:
    informers = Informers(api)
    model = ClusterModel(informers)
    model.observe(record)
    running = asyncio.create_task(informers.run())
    await model.synced()
    return model, running


def test_what_if_is_asked_of_a_model_alone() -> None:
    async def play() -> list[str]:
        async with RegistryApi() as api:
            await api.put(builtin.NODES, node_obj("n1", cpu=2))
            await api.put(builtin.PODS, pod_obj("full", cpu=2, nodeName="n1"))
            model, running = await model_of(api, Record())
            full = model.pod("default/full")
            assert full is not None
            wanted, what_if = pod("w", cpu=1), WhatIf(model)
            answers = [what_if.fits(wanted, [], []), what_if.fits(wanted, [full], [])]
            answers.append(what_if.fits(wanted, [full], [(pod("other", cpu=2), "n1")]))
            running.cancel()
            return answers

    assert run_virtual(play()) == ["", "n1", ""]


def test_observers_are_told_of_pods_that_wait_and_of_what_may_help_them() -> None:
    async def play() -> list[str]:
        async with RegistryApi() as api:
            record = Record()
            _, running = await model_of(api, record)
            await api.put(builtin.NODES, node_obj("n1"))
            await asyncio.sleep(1)
            await api.put(builtin.PODS, pod_obj("w"))
            await asyncio.sleep(1)
            binding = {"metadata": {"name": "w"}, "target": {"kind": "Node", "name": "n1"}}
            await api.create(builtin.PODS, binding, "default", name="w", subresource="binding")
            await asyncio.sleep(1)
            await api.delete(builtin.PODS, "w", "default", DeleteOptions(grace_period_seconds=0))
            await asyncio.sleep(1)
            running.cancel()
            return record.told

    assert run_virtual(play()) == ["NODE_ADDED", "w waits", "w left", "POD_PLACED", "w left", "POD_REMOVED"]
