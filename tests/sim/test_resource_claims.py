"""Pods of simulated nodes wait for the devices of their claims, and give them back."""

from __future__ import annotations

import asyncio

from fairlead.api.builtin import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from fairlead.api.objects import Obj
from fairlead.api.verbs import DeleteOptions
from fairlead.client.informer import Informers
from fairlead.server.registry.registry import UserApi
from tests.controllers.test_resourceclaims import FINALIZER, RESULT, one_device, pod, template
from tests.sim.test_fleet import phase, simulated

NAMESPACE = "default"


async def told(api: UserApi) -> list[str]:
    every = [entry.obj() for entry in api.registry.each("events", NAMESPACE)]
    return [one["message"] for one in every if one["reason"] == "FailedPrepareDynamicResources"]


async def allocate(api: UserApi, claim: str, *reserved: Obj) -> None:
    await api.patch(RESOURCE_CLAIMS, claim, NAMESPACE, {"metadata": {"finalizers": [FINALIZER]}})
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": list(reserved)}
    await api.patch(RESOURCE_CLAIMS, claim, NAMESPACE, {"status": status}, subresource="status")


def test_a_pod_starts_once_its_claim_is_there_and_reserved_for_it() -> None:
    async def check(api: UserApi, informers: Informers) -> None:
        made = (await api.create(PODS, pod("p", claims=("c",), node="node-1"), NAMESPACE)).obj()
        await asyncio.sleep(30)
        assert await phase(api, "p") == ("Pending", "")
        missing = 'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'
        prefix = "Failed to prepare dynamic resources: prepare dynamic resources: "
        assert await told(api) == [prefix + missing]
        claim = (await api.create(RESOURCE_CLAIMS, {"metadata": {"name": "c"}, "spec": one_device()}, NAMESPACE)).obj()
        await asyncio.sleep(30)
        ids = made["metadata"]["uid"], claim["metadata"]["uid"]
        other = f"pod p ({ids[0]}) is not allowed to use ResourceClaim c ({ids[1]})"
        assert (await told(api))[1:] == [prefix + other]
        await allocate(api, "c")
        await asyncio.sleep(30)
        assert await phase(api, "p") == ("Running", "")
        waits = (await api.get(PODS, "p", NAMESPACE)).obj()["status"]["containerStatuses"][0]["state"]
        assert "running" in waits

    simulated(1, check)


def test_a_pod_waits_for_the_claim_of_a_template() -> None:
    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(PODS, pod("p", "t", node="node-1"), NAMESPACE)
        await asyncio.sleep(30)
        assert (await told(api))[0].endswith(
            'prepare dynamic resources: pod "default/p": ResourceClaim not created yet'
        )
        await api.create(RESOURCE_CLAIM_TEMPLATES, template(), NAMESPACE)
        await asyncio.sleep(30)
        claims = [entry.obj() for entry in api.registry.each(RESOURCE_CLAIMS.qualified, NAMESPACE)]
        assert await phase(api, "p") == ("Pending", "")
        await allocate(api, claims[0]["metadata"]["name"])
        await asyncio.sleep(30)
        assert await phase(api, "p") == ("Running", "")

    simulated(1, check)


def test_a_task_gives_its_devices_back_and_its_claim_goes() -> None:
    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(RESOURCE_CLAIM_TEMPLATES, template(), NAMESPACE)
        manifest = pod("p", "t", node="node-1")
        manifest["metadata"]["annotations"] = {"sim.fairlead.dev/lifetime-seconds": "10"}
        manifest["spec"]["restartPolicy"] = "Never"
        await api.create(PODS, manifest, NAMESPACE)
        await asyncio.sleep(1)
        (claim,) = [entry.obj() for entry in api.registry.each(RESOURCE_CLAIMS.qualified, NAMESPACE)]
        await allocate(api, claim["metadata"]["name"])
        await asyncio.sleep(60)
        assert await phase(api, "p") == ("Succeeded", "")
        assert list(api.registry.each(RESOURCE_CLAIMS.qualified, NAMESPACE)) == []

    simulated(1, check)


def test_a_pod_that_is_deleted_in_the_foreground_goes_with_its_claim() -> None:
    """It waits for the claim, which waits until the pod has ended; not for each other."""

    async def check(api: UserApi, informers: Informers) -> None:
        await api.create(RESOURCE_CLAIM_TEMPLATES, template(), NAMESPACE)
        await api.create(PODS, pod("p", "t", node="node-1"), NAMESPACE)
        await asyncio.sleep(1)
        (claim,) = [entry.obj() for entry in api.registry.each(RESOURCE_CLAIMS.qualified, NAMESPACE)]
        await allocate(api, claim["metadata"]["name"])
        await asyncio.sleep(30)
        assert await phase(api, "p") == ("Running", "")
        await api.delete(PODS, "p", NAMESPACE, DeleteOptions(propagation_policy="Foreground"))
        await asyncio.sleep(60)
        assert list(api.registry.each(PODS.qualified, NAMESPACE)) == []
        assert list(api.registry.each(RESOURCE_CLAIMS.qualified, NAMESPACE)) == []

    simulated(1, check)
