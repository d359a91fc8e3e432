"""Pods whose claims get devices when the pods get nodes: what is written, waited for and given back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.builtin import DEVICE_CLASSES, EVENTS, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api, DeleteOptions, PatchType
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from tests.scheduler.devices_world import DRIVER, asked, claim_obj, class_obj, device, first_of, named_claims, slice_obj

FINALIZER = "resource.kubernetes.io/delete-protection"


def live(test: Callable[[Api], Awaitable[None]], nodes: int = 2, **settings: Any) -> None:
    """Run a test in a whole cluster, in virtual time, with two devices on node-1 and a class for them."""

    async def run() -> None:
        made = tuple(uniform(nodes, NodeShape()))
        async with simulation(Settings(nodes=made, **settings)) as (api, _):
            await api.create(DEVICE_CLASSES, class_obj("gpu", f"device.driver == '{DRIVER}'"))
            await api.create(RESOURCE_SLICES, slice_obj("node-1", "gpu-0", "gpu-1", node="node-1"))
            await test(api)

    rng.seed(1)
    run_virtual(run())


def pod_obj(name: str, *claims: str, **more: Any) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": claim} for claim in claims]}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container], "resourceClaims": named_claims(*claims)} | more,
    }


async def create(api: Api, *objects: Obj) -> None:
    for obj in objects:
        resource = PODS if "containers" in obj["spec"] else RESOURCE_CLAIMS
        obj["metadata"].pop("uid", None)
        await api.create(resource, obj, "default")


async def claim_of(api: Api, name: str) -> Obj:
    return (await api.get(RESOURCE_CLAIMS, name, "default")).obj()


async def pod_of(api: Api, name: str) -> Obj:
    return (await api.get(PODS, name, "default")).obj()


async def message_of(api: Api, name: str) -> str:
    """What is told of why it waits."""
    conditions = (await pod_of(api, name))["status"].get("conditions", ())
    return next((found["message"] for found in conditions if found["type"] == "PodScheduled"), "")


def devices(claim: Obj) -> list[str]:
    allocation = claim.get("status", {}).get("allocation", {})
    return [result["device"] for result in allocation.get("devices", {}).get("results", ())]


def test_a_pod_gets_a_node_that_has_a_device_for_its_claim() -> None:
    async def test(api: Api) -> None:
        await create(api, claim_obj("a"), pod_obj("p", "a"))
        await asyncio.sleep(5)
        pod, claim = await pod_of(api, "p"), await claim_of(api, "a")
        assert pod["spec"]["nodeName"] == "node-1"
        assert devices(claim) == ["gpu-0"]
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
        assert claim["status"]["allocation"]["allocationTimestamp"]

    live(test)


def test_pods_wait_for_devices_until_some_are_given_back() -> None:
    async def test(api: Api) -> None:
        await create(api, *(claim_obj(name) for name in "abc"), *(pod_obj(f"p-{name}", name) for name in "abc"))
        await asyncio.sleep(5)
        placed = [(await pod_of(api, f"p-{name}"))["spec"].get("nodeName") for name in "abc"]
        assert placed.count("node-1") == 2
        waits = "abc"[placed.index(None)]
        helpless = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        told = f"0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, {helpless}"
        assert await message_of(api, f"p-{waits}") == told
        first = next(name for name in "abc" if name != waits)
        given_back = {"status": {"allocation": None, "reservedFor": None}}
        await api.delete(PODS, f"p-{first}", "default", DeleteOptions(grace_period_seconds=0))
        await api.patch(RESOURCE_CLAIMS, first, "default", given_back, PatchType.MERGE, subresource="status")
        await asyncio.sleep(15)
        assert (await pod_of(api, f"p-{waits}"))["spec"]["nodeName"] == "node-1"

    live(test)


def test_new_devices_help_a_pod_that_waits() -> None:
    async def test(api: Api) -> None:
        await create(api, claim_obj("a", asked(count=3)), pod_obj("p", "a"))
        await asyncio.sleep(5)
        assert "nodeName" not in (await pod_of(api, "p"))["spec"]
        await api.create(RESOURCE_SLICES, slice_obj("node-2", "x", "y", "z", node="node-2"))
        await asyncio.sleep(15)
        assert (await pod_of(api, "p"))["spec"]["nodeName"] == "node-2"
        assert devices(await claim_of(api, "a")) == ["x", "y", "z"]

    live(test)


def test_several_pods_share_a_claim_where_its_devices_are() -> None:
    async def test(api: Api) -> None:
        await create(api, claim_obj("a"), *(pod_obj(f"p-{number}", "a") for number in range(4)))
        await asyncio.sleep(20)
        claim = await claim_of(api, "a")
        assert sorted(consumer["name"] for consumer in claim["status"]["reservedFor"]) == ["p-0", "p-1", "p-2", "p-3"]
        assert {(await pod_of(api, f"p-{number}"))["spec"]["nodeName"] for number in range(4)} == {"node-1"}
        assert devices(claim) == ["gpu-0"]

    live(test)


def test_a_pod_is_not_tried_before_its_claims_are_there() -> None:
    async def test(api: Api) -> None:
        await create(api, pod_obj("p", "late"))
        await asyncio.sleep(5)
        events = [event.obj() for event in (await api.list(EVENTS, "default")).items]
        assert not [event for event in events if event["reason"] == "FailedScheduling"]
        await create(api, claim_obj("late"))
        await asyncio.sleep(5)
        assert (await pod_of(api, "p"))["spec"]["nodeName"] == "node-1"

    live(test)


def test_a_class_that_nobody_made_is_waited_for() -> None:
    async def test(api: Api) -> None:
        await create(api, claim_obj("a", asked("fast")), pod_obj("p", "a"))
        await asyncio.sleep(5)
        told = await message_of(api, "p")
        assert told.startswith("0/2 nodes are available: request r0: device class fast does not exist.")
        await api.create(DEVICE_CLASSES, class_obj("fast"))
        await asyncio.sleep(15)
        assert (await pod_of(api, "p"))["spec"]["nodeName"] == "node-1"

    live(test)


def test_a_selector_that_fails_is_told_and_tried_again() -> None:
    async def test(api: Api) -> None:
        colour = f'device.attributes["{DRIVER}"].colour == "red"'
        await create(api, claim_obj("a", asked("gpu", 1, colour)), pod_obj("p", "a"))
        await asyncio.sleep(5)
        assert "nodeName" not in (await pod_of(api, "p"))["spec"]
        assert await message_of(api, "p") == (
            'running "DynamicResources" filter plugin: claim default/a: selector #0: '
            "CEL runtime error: no such key: colour"
        )
        slices = (await api.list(RESOURCE_SLICES)).items
        red = slices[0].obj()["spec"] | {"devices": [device("gpu-0", colour="red"), device("gpu-1", colour="blue")]}
        await api.patch(RESOURCE_SLICES, "node-1-slice", "", {"spec": red})
        await asyncio.sleep(30)
        assert devices(await claim_of(api, "a")) == ["gpu-0"]

    live(test)


def test_a_device_that_has_to_be_prepared_is_waited_for_and_given_up() -> None:
    async def test(api: Api) -> None:
        far = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"], "bindsToNode": True}
        await api.delete(RESOURCE_SLICES, "node-1-slice")
        await api.create(
            RESOURCE_SLICES, slice_obj("fabric", *({"name": f"f{n}"} | far for n in range(2)), allNodes=True)
        )
        await create(api, claim_obj("a"), pod_obj("p", "a"))
        await asyncio.sleep(5)
        assert "nodeName" not in (await pod_of(api, "p"))["spec"]
        assert devices(await claim_of(api, "a")) == ["f0"]

        async def say(kind: str, name: str) -> None:
            told = {
                "type": kind,
                "status": "True",
                "reason": "R",
                "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            told_of = {"driver": DRIVER, "pool": "fabric", "device": name, "conditions": [told]}
            await api.patch(
                RESOURCE_CLAIMS,
                "a",
                "default",
                {"status": {"devices": [told_of]}},
                PatchType.MERGE,
                subresource="status",
            )

        await say("broken", "f0")
        await asyncio.sleep(1)
        assert 'binding failed: reason=R, message="m"' in await message_of(api, "p")
        await asyncio.sleep(60)
        claim = await claim_of(api, "a")
        assert devices(claim) == ["f0"]  # deallocated, and chosen again
        assert "devices" not in claim["status"]
        await say("attached", "f0")
        await asyncio.sleep(5)
        assert (await pod_of(api, "p"))["spec"]["nodeName"]
        events = [event.obj() for event in (await api.list(EVENTS, "default")).items]
        assert [event for event in events if event["reason"] == "BindingConditionsPending"]

    live(test)


def test_a_pod_that_goes_while_its_device_is_prepared_leaves_it() -> None:
    async def test(api: Api) -> None:
        far = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
        await api.delete(RESOURCE_SLICES, "node-1-slice")
        await api.create(RESOURCE_SLICES, slice_obj("fabric", {"name": "f0"} | far, allNodes=True))
        await create(api, claim_obj("a"), pod_obj("p", "a"))
        await asyncio.sleep(5)
        await api.delete(PODS, "p", "default", DeleteOptions(grace_period_seconds=0))
        await asyncio.sleep(5)
        assert "allocation" not in (await claim_of(api, "a")).get("status", {})
        await create(api, pod_obj("q", "a"))
        await asyncio.sleep(5)
        assert [consumer["name"] for consumer in (await claim_of(api, "a"))["status"]["reservedFor"]] == ["q"]

    live(test)


def test_what_takes_long_to_find_is_found_by_several_tries() -> None:
    """One decision about devices has a bound; the next goes on where it ended."""

    async def test(api: Api) -> None:
        costly = " && ".join(["device.attributes.all(a, device.attributes.all(b, a != 'x' && b != 'y'))"] * 4)
        domains = {f"d{number}.example.com/x": {"int": number} for number in range(20)}
        many = [{"name": f"d{number}", "attributes": domains} for number in range(100)]
        last = {"name": "last", "attributes": domains | {"wanted": {"bool": True}}}
        await api.create(RESOURCE_SLICES, slice_obj("large", *many, last, node="node-2"))
        wanted = f"({costly}) && device.attributes['{DRIVER}'].?wanted.orValue(false)"
        await create(api, claim_obj("a", asked("gpu", 1, wanted)), pod_obj("p", "a"))
        await asyncio.sleep(0.5)
        assert "1 timed out trying to allocate devices" in await message_of(api, "p")
        await asyncio.sleep(120)
        assert devices(await claim_of(api, "a")) == ["last"]

    live(test)


# --- extended resources ----------------------------------------------------------------------------------------------


def requesting(name: str, **amounts: str) -> Obj:
    amounts = {f"example.com/{resource}": amount for resource, amount in amounts.items()}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


GATED: Obj = {"schedulingGates": [{"name": "later"}]}
BUSY: list[Obj] = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]


async def extended_claims(api: Api) -> list[Obj]:
    return [claim.obj() for claim in (await api.list(RESOURCE_CLAIMS, "default")).items]


def test_a_class_of_devices_stands_for_an_extended_resource() -> None:
    async def test(api: Api) -> None:
        await create(api, requesting("p", gpu="2"))
        await asyncio.sleep(5)
        assert "2 Insufficient example.com/gpu" in await message_of(api, "p")
        await api.create(DEVICE_CLASSES, class_obj("any", extendedResourceName="example.com/gpu"))
        await asyncio.sleep(15)
        pod, (claim,) = await pod_of(api, "p"), await extended_claims(api)
        assert pod["spec"]["nodeName"] == "node-1"
        assert devices(claim) == ["gpu-0", "gpu-1"]
        assert claim["metadata"]["name"].startswith("p-extended-resources-")
        assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
        mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
        assert pod["status"]["extendedResourceClaimStatus"] == {
            "resourceClaimName": claim["metadata"]["name"],
            "requestMappings": [mapping],
        }

    live(test)


def test_extended_resources_beyond_the_devices_wait_and_a_node_that_has_them_itself_claims_nothing() -> None:
    async def test(api: Api) -> None:
        await api.create(DEVICE_CLASSES, class_obj("any", extendedResourceName="example.com/gpu"))
        await create(api, requesting("p", gpu="3"))
        await asyncio.sleep(5)
        assert "2 cannot allocate all claims" in await message_of(api, "p")
        status = {"status": {kind: {"example.com/gpu": "4"} for kind in ("capacity", "allocatable")}}
        await api.patch(NODES, "node-2", "", status, PatchType.MERGE, subresource="status")
        await asyncio.sleep(15)
        assert (await pod_of(api, "p"))["spec"]["nodeName"] == "node-2"
        assert not await extended_claims(api)

    live(test)


def test_a_claim_that_a_scheduler_left_of_an_earlier_try_gives_way() -> None:
    """It was killed before it bound the pod."""

    async def test(api: Api) -> None:
        await api.create(DEVICE_CLASSES, class_obj("any", extendedResourceName="example.com/gpu"))
        await create(api, requesting("p", gpu="2") | {"spec": requesting("p", gpu="2")["spec"] | GATED})
        uid = (await pod_of(api, "p"))["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
        left = claim_obj("left", asked("any", 2))
        left["metadata"] = {
            "name": "left",
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [owner],
            "finalizers": [FINALIZER],
        }
        await api.create(RESOURCE_CLAIMS, left, "default")
        results = [{"request": "r0", "driver": DRIVER, "pool": "node-1", "device": f"gpu-{n}"} for n in range(2)]
        status = {"status": {"allocation": {"devices": {"results": results}}}}
        await api.patch(RESOURCE_CLAIMS, "left", "default", status, PatchType.MERGE, subresource="status")
        await api.patch(PODS, "p", "default", {"spec": {"schedulingGates": None}}, PatchType.MERGE)
        await asyncio.sleep(15)
        assert (await pod_of(api, "p"))["spec"].get("nodeName") == "node-1"
        (claim,) = await extended_claims(api)
        assert claim["metadata"]["name"] != "left"

    live(test)


def test_a_class_by_its_name_is_a_resource() -> None:
    async def test(api: Api) -> None:
        name = "deviceclass.resource.kubernetes.io/gpu"
        pod = requesting("p")
        pod["spec"]["containers"][0]["resources"] = {"requests": {name: "1"}, "limits": {name: "1"}}
        await create(api, pod)
        await asyncio.sleep(5)
        assert (await pod_of(api, "p"))["spec"]["nodeName"] == "node-1"
        assert [devices(claim) for claim in await extended_claims(api)] == [["gpu-0"]]

    live(test)


def test_of_several_nodes_that_with_the_better_alternative_is_taken() -> None:
    """Wherever else the pod would go: the node with the worse one is empty."""

    async def test(api: Api) -> None:
        await api.create(RESOURCE_SLICES, slice_obj("node-2", device("large", size=2), node="node-2"))
        await create(api, pod_obj("busy", nodeName="node-2", containers=BUSY))
        alternatives = [asked("gpu", 1, f"device.attributes['{DRIVER}'].?size.orValue(0) == {size}") for size in (2, 0)]
        await create(api, claim_obj("a", first_of(*alternatives)), pod_obj("p", "a"))
        await asyncio.sleep(5)
        assert (await pod_of(api, "p"))["spec"]["nodeName"] == "node-2"
        assert devices(await claim_of(api, "a")) == ["large"]

    live(test)
