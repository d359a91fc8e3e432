"""Pods leave devices with a NoExecute taint, as long as their claims tolerate it later."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import convert
from msgspec.structs import replace

from fairlead.api.builtin import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from fairlead.api.devices import ResourceSlice
from fairlead.api.objects import Obj
from fairlead.client.informer import Informers
from fairlead.controllers.base import World
from fairlead.controllers.devicetaints import DeviceTaintEviction
from tests.controllers.cluster import Cluster, run
from tests.controllers.test_resourceclaims import one_device, pod
from tests.registry_api import RegistryApi
from tests.work import growth

TAINT = {"key": "broken", "effect": "NoExecute"}


def devices(name: str = "s", generation: int = 1, **taints: list[Obj]) -> Obj:
    """A slice of one pool, with these devices and their taints."""
    return named(name, taints, generation)


def named(name: str, taints: dict[str, list[Obj]], generation: int = 1) -> Obj:
    found = [{"name": device, "taints": these} for device, these in taints.items()]
    pool = {"name": "p", "generation": generation, "resourceSliceCount": 1}
    return {
        "metadata": {"name": name},
        "spec": {"driver": "d.example.com", "nodeName": "somewhere", "pool": pool, "devices": found},
    }


async def running(cluster: Cluster, name: str, device: str, *tolerations: Obj) -> None:
    """A pod on a node that has a device."""
    result: Obj = {"request": "r", "driver": "d.example.com", "pool": "p", "device": device}
    if tolerations:
        result["tolerations"] = list(tolerations)
    await cluster.create(RESOURCE_CLAIMS, {"metadata": {"name": name}, "spec": one_device()})
    made = await cluster.create(PODS, pod(name, claims=(name,), node="somewhere"))
    user = {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    await cluster.patch(RESOURCE_CLAIMS, name, {"status": status}, "status")


async def leaving(cluster: Cluster) -> list[str]:
    return [one["metadata"]["name"] for one in await cluster.all(PODS) if "deletionTimestamp" in one["metadata"]]


async def taint(cluster: Cluster, found: Obj) -> None:
    await cluster.patch(RESOURCE_SLICES, found["metadata"]["name"], {"spec": found["spec"]})
    await asyncio.sleep(1)


def live(check: Any) -> None:
    run(check, DeviceTaintEviction)


def test_the_pods_of_a_device_that_gets_a_taint_leave_and_the_others_stay() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_SLICES, devices(a=[], b=[]))
        await running(cluster, "pa", "a")
        await running(cluster, "pb", "b")
        await asyncio.sleep(1)
        assert await leaving(cluster) == []
        await taint(cluster, devices(a=[TAINT], b=[TAINT | {"effect": "NoSchedule"}]))
        assert await leaving(cluster) == ["pa"]
        assert await cluster.events() == [("Normal", "DeviceTaintManagerEviction", "Marking for deletion")]
        gone = await cluster.get(PODS, "pa")
        assert gone is not None
        condition = next(one for one in gone["status"]["conditions"] if one["type"] == "DisruptionTarget")
        assert condition["reason"] == "DeletionByDeviceTaintManager"
        assert condition["message"] == "Device Taint manager: deleting due to NoExecute taint"

    live(check)


def test_a_taint_that_is_there_already_counts() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_SLICES, devices(a=[TAINT]))
        await running(cluster, "pa", "a")
        await asyncio.sleep(1)
        assert await leaving(cluster) == ["pa"]

    live(check)


def test_what_is_tolerated_for_a_time_drives_away_then_unless_the_taint_goes() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_SLICES, devices(a=[], b=[]))
        toleration = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
        await running(cluster, "for-ever", "a", toleration)
        await running(cluster, "a-minute", "a", toleration | {"tolerationSeconds": 60})
        await running(cluster, "saved", "b", toleration | {"tolerationSeconds": 60})
        await asyncio.sleep(1)
        await taint(cluster, devices(a=[TAINT], b=[TAINT]))
        await asyncio.sleep(30)
        assert await leaving(cluster) == []
        added = (await cluster.all(RESOURCE_SLICES, ""))[0]["spec"]["devices"][0]["taints"][0]["timeAdded"]
        await taint(cluster, devices(a=[TAINT | {"timeAdded": added}], b=[]))
        await asyncio.sleep(30)
        assert await leaving(cluster) == ["a-minute"]
        assert [text for _, _, text in await cluster.events()] == ["Cancelling deletion", "Marking for deletion"]
        await asyncio.sleep(600)
        assert await leaving(cluster) == ["a-minute"]

    live(check)


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_SLICES, devices("new", generation=2, a=[]))
        await cluster.create(RESOURCE_SLICES, devices("old", generation=1, a=[TAINT]))
        await running(cluster, "pa", "a")
        await asyncio.sleep(1)
        assert await leaving(cluster) == []
        await cluster.delete(RESOURCE_SLICES, "new")
        await asyncio.sleep(1)
        assert await leaving(cluster) == ["pa"]

    live(check)


def test_a_taint_that_goes_with_a_generation_is_no_reason_any_more() -> None:
    async def check(cluster: Cluster) -> None:
        await cluster.create(RESOURCE_SLICES, devices("s", a=[TAINT]))
        await cluster.create(RESOURCE_SLICES, devices("other", b=[TAINT]))
        toleration = {"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
        await running(cluster, "pa", "a", toleration)
        await asyncio.sleep(1)
        await taint(cluster, devices("s", generation=2, a=[]))
        await asyncio.sleep(600)
        assert await leaving(cluster) == []
        assert [text for _, _, text in await cluster.events()] == ["Cancelling deletion"]

    live(check)


def test_many_devices_of_a_pool_are_linear() -> None:
    def lived(size: int) -> None:
        async def check(cluster: Cluster) -> None:
            for number in range(size):
                await cluster.create(RESOURCE_SLICES, named(f"s{number}", {f"d{number}": [TAINT]}))
                await running(cluster, f"p{number}", f"d{number}")
            await asyncio.sleep(10)
            assert len(await leaving(cluster)) == size

        live(check)

    assert growth(lived, 30) < 2.1


def test_a_pool_of_many_generations_is_not_searched_for_the_newest_at_each_change() -> None:
    compared = 0

    class Generation(int):
        def __gt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) > int(other)

        __hash__ = int.__hash__

    def lived(size: int) -> int:
        nonlocal compared
        compared, found = 0, World(Informers(RegistryApi()))
        changed = DeviceTaintEviction().watches[1].wakes
        assert changed is not None
        for number in range(size):
            slice_ = convert(named(f"s{number}", {"d": [TAINT]}), ResourceSlice)
            pool = replace(slice_.spec.pool, generation=Generation(number))
            assert not list(changed(found, None, replace(slice_, spec=replace(slice_.spec, pool=pool))))
        return compared

    assert lived(200) < 2.1 * lived(100)
