"""Kinds that arrive at run time are collected, watched and forgotten like all others (X-10)."""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead.api import builtin
from fairlead.api.meta import Object
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.client.informer import Informers
from fairlead.controllers.base import World
from fairlead.controllers.disruption import DisruptionBudgets
from fairlead.controllers.dynamic_informers import resource_of
from fairlead.controllers.garbage import GarbageCollector
from fairlead.controllers.table import ControllerManager
from fairlead.runtime.loops import run_virtual
from tests.played import played
from tests.registry_api import RegistryApi, definition_of

WIDGETS = Resource(group="x.io", version="v1", plural="widgets", kind="Widget", singular="widget")


async def widget(api: RegistryApi, name: str, *owners: Obj) -> Obj:
    meta = {"name": name, "namespace": "n", "ownerReferences": list(owners)}
    made = await api.create(WIDGETS, {"metadata": meta, "spec": {"replicas": 4}}, "n")
    return {"apiVersion": "x.io/v1", "kind": "Widget", "name": name, "uid": made.view(Object).metadata.uid}


def run(test: Any, *controllers: Any) -> None:
    async def main() -> None:
        async with RegistryApi() as api:
            informers = Informers(api)
            manager = ControllerManager(lambda account: api, informers, controllers)
            tasks = [asyncio.create_task(informers.run()), asyncio.create_task(manager.run())]
            await asyncio.sleep(0.1)
            try:
                await test(api)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(main())


@played(run, GarbageCollector)
async def test_custom_objects_own_and_are_owned(api: RegistryApi) -> None:
    await api.define(WIDGETS)
    await asyncio.sleep(0.1)
    top = await widget(api, "top")
    middle = await widget(api, "middle", top)
    config = {"metadata": {"name": "c", "namespace": "n", "ownerReferences": [middle]}}
    await api.create(builtin.CONFIG_MAPS, config, "n")
    await api.delete(WIDGETS, "top", "n")
    await asyncio.sleep(1)
    assert (await api.list(WIDGETS, "n")).items == []
    assert (await api.list(builtin.CONFIG_MAPS, "n")).items == []


@played(run, GarbageCollector)
async def test_dependents_of_a_kind_that_is_not_served_wait_for_it(api: RegistryApi) -> None:
    missing = {"apiVersion": "x.io/v1", "kind": "Widget", "name": "w", "uid": "u-1"}
    config = {"metadata": {"name": "c", "namespace": "n", "ownerReferences": [missing]}}
    await api.create(builtin.CONFIG_MAPS, config, "n")
    await asyncio.sleep(3600)
    assert len((await api.list(builtin.CONFIG_MAPS, "n")).items) == 1
    await api.define(WIDGETS)
    await asyncio.sleep(1)
    assert (await api.list(builtin.CONFIG_MAPS, "n")).items == []


@played(run, DisruptionBudgets)
async def test_a_percentage_of_pods_is_one_of_the_scale_of_their_custom_owner(api: RegistryApi) -> None:
    await api.define(WIDGETS)
    owner = await widget(api, "w")
    meta = {"name": "p", "namespace": "n", "labels": {"a": "b"}, "ownerReferences": [owner | {"controller": True}]}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await api.create(builtin.PODS, {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}}, "n")
    await api.patch(builtin.PODS, "p", "n", {"status": ready}, subresource="status")
    spec = {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": "50%"}
    budget = {"metadata": {"name": "b", "namespace": "n"}, "spec": spec}
    await api.create(builtin.POD_DISRUPTION_BUDGETS, budget, "n")
    await asyncio.sleep(1)
    status = (await api.get(builtin.POD_DISRUPTION_BUDGETS, "b", "n")).obj()["status"]
    assert (status["expectedPods"], status["desiredHealthy"], status["currentHealthy"]) == (4, 2, 1)


def test_a_kind_is_followed_as_long_as_it_is_served() -> None:
    async def main() -> None:
        async with RegistryApi() as api:
            informers = Informers(api)
            world = World(informers)
            seen: list[bool] = []
            everything = world.everything
            task = asyncio.create_task(informers.run())
            await everything.synced()
            everything.subscribe(
                lambda resource, old, new: seen.append(new is not None) if resource.kind == "Widget" else None
            )
            taken = Resource("x.io", "v1", "gadgets", "Gadget", singular="widget")
            await api.define(taken)
            await api.create(builtin.CUSTOM_RESOURCE_DEFINITIONS, definition_of(WIDGETS))
            await asyncio.sleep(1)
            assert resource_of(world, "x.io/v1", "Widget") is None  # its names are not free
            await api.delete(builtin.CUSTOM_RESOURCE_DEFINITIONS, taken.qualified)
            await asyncio.sleep(1)
            await widget(api, "w")
            await asyncio.sleep(1)
            assert seen == [True]
            await api.delete(builtin.CUSTOM_RESOURCE_DEFINITIONS, WIDGETS.qualified)
            await asyncio.sleep(1)
            assert seen == [True, False]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())
