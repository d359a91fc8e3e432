"""What the scheduler counts of claims that it makes, and of devices that have to be prepared."""

from __future__ import annotations

import asyncio

from fairlead.api import builtin
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from fairlead.client.informer import Informers
from fairlead.runtime.loops import run_virtual
from fairlead.runtime.metrics import Counts
from fairlead.scheduler.cluster_model import ClusterModel
from fairlead.scheduler.loop import Scheduler
from tests.registry_api import RegistryApi
from tests.scheduler.devices_world import DRIVER, claim_obj, class_obj, slice_obj
from tests.scheduler.scheduler_world import node_obj, pod_obj

CLAIMS = builtin.RESOURCE_CLAIMS


def counted(scheduler: Scheduler) -> dict[str, dict[tuple[str, ...], float]]:
    """By the names of metrics, what was counted; how often, of what was measured."""
    found = {}
    for family in scheduler.device_metrics.families:
        readings = dict(family.read())
        found[family.name.removeprefix("scheduler_")] = {
            labels: sum(reading.buckets) if isinstance(reading, Counts) else reading
            for labels, reading in readings.items()
        }
    return found


async def tell(api: RegistryApi, claim: str, kind: str) -> None:
    """As its driver, of the device of a claim."""
    obj = (await api.get(CLAIMS, claim, "default")).obj()
    (result,) = obj["status"]["allocation"]["devices"]["results"]
    condition = {
        "type": kind,
        "status": "True",
        "reason": "R",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    device: Obj = {name: result[name] for name in ("driver", "pool", "device")} | {"conditions": [condition]}
    status = {"status": {"devices": [device]}}
    await api.patch(CLAIMS, claim, "default", status, PatchType.MERGE, subresource="status")


def test_claims_that_are_made_and_devices_that_are_prepared_are_counted() -> None:
    far = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}

    async def story(api: RegistryApi, scheduler: Scheduler) -> None:
        await api.put(builtin.NODES, node_obj())
        await api.create(
            builtin.DEVICE_CLASSES, class_obj("gpu", "device.driver == 'near'", extendedResourceName="x.dev/gpu")
        )
        await api.create(builtin.DEVICE_CLASSES, class_obj("far", f"device.driver == '{DRIVER}'"))
        await api.create(builtin.RESOURCE_SLICES, slice_obj("n1", "a", node="n1", driver="near"))
        await api.create(
            builtin.RESOURCE_SLICES, slice_obj("fabric", *({"name": name} | far for name in "ab"), allNodes=True)
        )
        extended = pod_obj("extended")
        extended["spec"]["containers"][0]["resources"] = {"requests": {"x.dev/gpu": "1"}, "limits": {"x.dev/gpu": "1"}}
        await api.put(builtin.PODS, extended)
        for name in ("good", "bad"):
            claim = claim_obj(name)
            claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "far"
            await api.create(CLAIMS, claim | {"metadata": {"name": name}}, "default")
            await api.put(builtin.PODS, pod_obj(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]))
        await asyncio.sleep(5)
        await tell(api, "good", "attached")
        await tell(api, "bad", "broken")
        await asyncio.sleep(1)
        waits = {("default-scheduler", DRIVER, status): 1 for status in ("success", "failure")}
        assert counted(scheduler) == {
            "resourceclaim_creates_total": {("success",): 1},
            "dra_bindingconditions_allocations_total": waits,
            "dra_bindingconditions_wait_duration_seconds": waits,
        }

    async def play() -> None:
        async with RegistryApi() as api:
            informers = Informers(api)
            scheduler = Scheduler(api, ClusterModel(informers))
            tasks = [asyncio.create_task(part) for part in (informers.run(), scheduler.run())]
            await story(api, scheduler)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(play())
