"""The steps of Kubernetes' end-to-end tests of devices (test/e2e/dra of 1.35 and 1.36) that need no driver on a node.

A test is called as there. What is asked of containers' environments needs one: `tests/agent/test_device_pods.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.api.errors import Forbidden, Invalid, NotFound
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import Api, DeleteOptions, PatchType
from fairlead.compose import Settings, simulation
from fairlead.runtime import rng
from fairlead.runtime.loops import run_virtual
from fairlead.sim.nodes import NodeShape, uniform
from tests.scheduler.devices_world import DRIVER, asked, class_obj, device, slice_obj

PODS, CLAIMS, CLASSES = builtin.PODS, builtin.RESOURCE_CLAIMS, builtin.DEVICE_CLASSES
SLICES, TEMPLATES = builtin.RESOURCE_SLICES, builtin.RESOURCE_CLAIM_TEMPLATES
NOW = DeleteOptions(grace_period_seconds=0)
ALL_TAINTS = {"operator": "Exists"}


class Builder:
    """What the tests make: claims of one device, and pods that have them."""

    def __init__(self, api: Api) -> None:
        self.api, self._count = api, 0

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"

    async def create(self, resource: Resource, obj: Obj) -> Obj:
        is_global = resource in (CLASSES, SLICES)
        return (await self.api.create(resource, obj, "" if is_global else "default")).obj()

    async def get(self, resource: Resource, name: str) -> Obj:
        return (await self.api.get(resource, name, "default")).obj()

    async def claim(self, *requests: Obj, **devices: Any) -> str:
        name = self._name("claim")
        given = [{"name": "r0", "exactly": asked()}] if not requests else list(requests)
        spec = {"devices": {"requests": given} | devices}
        await self.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})
        return name

    async def template(self, **request: Any) -> str:
        name = self._name("template")
        spec = {"devices": {"requests": [{"name": "r0", "exactly": asked(**request)}]}}
        await self.create(TEMPLATES, {"metadata": {"name": name}, "spec": {"spec": spec}})
        return name

    async def pod(self, *claims: str, template: str = "", count: int = 1, name: str = "", **spec: Any) -> str:
        """With claims that are there, or with one of its own."""
        named = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        named += [{"name": "own", "resourceClaimTemplateName": template}] if template else []
        used = {"resources": {"claims": [{"name": each["name"]} for each in named]}}
        made = [{"name": f"c{number}", "image": "i"} | used for number in range(count)]
        name = name or self._name("pod")
        given = {"containers": made, "resourceClaims": named} | spec
        await self.create(PODS, {"metadata": {"name": name}, "spec": given})
        return name

    async def requesting(self, *containers: Obj, init: Iterable[Obj] = (), **spec: Any) -> str:
        """A pod whose containers request and limit extended resources: each with its amounts."""
        name = self._name("pod")
        await self.create(
            PODS,
            {
                "metadata": {"name": name},
                "spec": {
                    "containers": [_requests(f"c{number}", amounts) for number, amounts in enumerate(containers)],
                    "initContainers": [_requests(f"i{number}", amounts) for number, amounts in enumerate(init)],
                }
                | spec,
            },
        )
        return name

    async def running(self, *names: str) -> None:
        for name in names:
            pod = await self._awaited(name, lambda pod: pod["status"].get("phase") == "Running")
            assert pod["status"]["phase"] == "Running", pod["status"]

    async def unschedulable(self, name: str) -> str:
        pod = await self._awaited(name, lambda pod: bool(_refusal(pod)))
        assert "nodeName" not in pod["spec"]
        return _refusal(pod)

    async def stays_pending(self, name: str) -> None:
        await asyncio.sleep(20)
        assert (await self.get(PODS, name))["status"]["phase"] == "Pending"

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.api.delete(PODS, name, "default", NOW)

    async def end(self, pod: str, phase: str = "Succeeded") -> None:
        status = {"status": {"phase": phase}}
        await self.api.patch(PODS, pod, "default", status, PatchType.MERGE, subresource="status")

    async def results(self, claim: str) -> list[Obj]:
        results: list[Obj] = (await self.get(CLAIMS, claim))["status"]["allocation"]["devices"]["results"]
        return results

    async def _awaited(self, name: str, is_so: Callable[[Obj], bool]) -> Obj:
        for _ in range(120):
            if is_so(pod := await self.get(PODS, name)):
                break
            await asyncio.sleep(1)
        return pod


def _requests(name: str, amounts: Obj) -> Obj:
    kept = {key: value for key, value in amounts.items() if key == "restartPolicy"}
    wanted = {key: value for key, value in amounts.items() if key not in kept}
    return {"name": name, "image": "i", "resources": {"requests": wanted, "limits": wanted}} | kept


def _refusal(pod: Obj) -> str:
    conditions = pod["status"].get("conditions", ())
    return next((found["message"] for found in conditions if found["status"] == "False" and "message" in found), "")


Test = Callable[[Builder], Awaitable[None]]


def played(nodes: int = 1, per_node: int = 1, *slices: Obj) -> Callable[[Test], Callable[[], None]]:
    """In virtual time, in a cluster whose nodes have so many devices each, or these slices."""

    def decorate(test: Test) -> Callable[[], None]:
        async def story() -> None:
            async with simulation(Settings(nodes=tuple(uniform(nodes, NodeShape())))) as (api, _):
                published = slices or tuple(
                    slice_obj(
                        f"node-{node + 1}", *(f"d{number}" for number in range(per_node)), node=f"node-{node + 1}"
                    )
                    for node in range(nodes)
                )
                builder = Builder(api)
                for slice_ in published:
                    await builder.create(SLICES, slice_)
                await builder.create(CLASSES, class_obj("gpu", f"device.driver == '{DRIVER}'"))
                await test(builder)

        def run() -> None:
            rng.seed(1)
            run_virtual(story())

        run.__name__ = test.__name__
        return run

    return decorate


# --- control plane, single node ---------------------------------------------------------------------------------------


@played()
async def test_supports_reusing_resources(b: Builder) -> None:
    template = await b.template()
    waiting = {await b.pod(template=template) for _ in range(5)}
    while waiting:
        await asyncio.sleep(1)
        phases = {name: (await b.get(PODS, name))["status"]["phase"] for name in waiting}
        running = [name for name, phase in phases.items() if phase == "Running"]
        assert len(running) <= 1
        await b.delete(*running)
        waiting.difference_update(running)


@played()
async def test_supports_sharing_a_claim_concurrently(b: Builder) -> None:
    claim = await b.claim()
    await b.running(*[await b.pod(claim) for _ in range(5)])


@played()
async def test_retries_pod_scheduling_after_creating_device_class(b: Builder) -> None:
    pod = await b.pod(template=await b.template(class_name="later"))
    await b.unschedulable(pod)
    await b.create(CLASSES, class_obj("later", f"device.driver == '{DRIVER}'"))
    await b.running(pod)


@played()
async def test_retries_pod_scheduling_after_updating_device_class(b: Builder) -> None:
    none = {"spec": {"selectors": [{"cel": {"expression": "false"}}]}}
    await b.api.patch(CLASSES, "gpu", "", none, PatchType.MERGE)
    pod = await b.pod(template=await b.template())
    await b.unschedulable(pod)
    some = {"spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}}
    await b.api.patch(CLASSES, "gpu", "", some, PatchType.MERGE)
    await b.running(pod)


@played()
async def test_runs_a_pod_without_a_generated_resource_claim(b: Builder) -> None:
    pod = await b.pod(template="never-made")
    status = {"status": {"resourceClaimStatuses": [{"name": "own"}]}}
    await b.api.patch(PODS, pod, "default", status, PatchType.STRATEGIC, subresource="status")
    await b.running(pod)


@played()
async def test_supports_simple_pod_referencing_inline_resource_claim(b: Builder) -> None:
    await b.running(await b.pod(template=await b.template(), count=3))


@played()
async def test_supports_external_claim_referenced_by_multiple_containers_of_multiple_pods(b: Builder) -> None:
    claim = await b.claim()
    await b.running(*[await b.pod(claim, count=3) for _ in range(3)])


@played()
async def test_must_deallocate_after_use(b: Builder) -> None:
    claim = await b.claim()
    pod = await b.pod(claim)
    await b.running(pod)
    assert len(await b.results(claim)) == 1
    await b.delete(pod)
    await asyncio.sleep(10)
    assert "allocation" not in (await b.get(CLAIMS, claim)).get("status", {})


@played(1, 2)
async def test_requests_an_already_allocated_and_a_new_claim_for_a_pod(b: Builder) -> None:
    first, second = await b.claim(), await b.claim()
    await b.running(await b.pod(first))
    await b.running(await b.pod(first, second))
    assert {result["device"] for claim in (first, second) for result in await b.results(claim)} == {"d0", "d1"}


@played()
async def test_truncates_the_name_of_a_generated_resource_claim(b: Builder) -> None:
    template, name = await b.template(), "p" * 63
    named = [{"name": "c" * 63, "resourceClaimTemplateName": template}]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "c" * 63}]}}
    await b.running(await b.pod(name=name, resourceClaims=named, containers=[container]))


@played()
async def test_validate_claims_for_admin_access(b: Builder) -> None:
    claim = {"name": "r0", "exactly": asked(adminAccess=True)}
    text = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the"
    with pytest.raises(Invalid, match=text):
        await b.claim(claim)
    with pytest.raises(Invalid, match=text):
        await b.template(adminAccess=True)
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    await b.api.patch(builtin.NAMESPACES, "default", "", labels, PatchType.MERGE)
    await b.claim(claim)
    await b.template(adminAccess=True)


@played()
async def test_supports_count_of_claims_in_a_quota(b: Builder) -> None:
    await b.claim()
    name = "count/resourceclaims.resource.k8s.io"
    quota = {"metadata": {"name": "object-count"}, "spec": {"hard": {name: "1"}}}
    await b.create(builtin.RESOURCE_QUOTAS, quota)
    await asyncio.sleep(10)
    assert (await b.get(builtin.RESOURCE_QUOTAS, "object-count"))["status"] == {
        "hard": {name: "1"},
        "used": {name: "1"},
    }
    text = f"exceeded quota: object-count, requested: {name}=1, used: {name}=1, limited: {name}=1"
    with pytest.raises(Forbidden, match=text):
        await b.claim()


@played()
async def test_must_be_possible_for_the_driver_to_update_the_status_of_devices(b: Builder) -> None:
    claim = await b.claim()
    await b.running(await b.pod(claim))
    (result,) = await b.results(claim)
    for count in range(2):
        told = {key: result[key] for key in ("driver", "pool", "device")} | {
            "conditions": [_condition(f"e{count}")],
            "data": {"foo": f"bar-{count}"},
            "networkData": {"interfaceName": f"inf{count}", "ips": ["10.9.8.0/24", "2001:db8::/64"]},
        }
        patch = {"status": {"devices": [told]}}
        await b.api.patch(CLAIMS, claim, "default", patch, PatchType.MERGE, subresource="status")
        assert (await b.get(CLAIMS, claim))["status"]["devices"] == [told]


def _condition(kind: str) -> Obj:
    since = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": "True", "message": "c", "reason": "d", "lastTransitionTime": since}


# --- control plane, several nodes -------------------------------------------------------------------------------------


@played(
    2,
    1,
    slice_obj("node-1", device("d0", healthy=True, exists=True), node="node-1"),
    slice_obj("node-2", device("d0", healthy=False), node="node-2"),
)
async def test_keeps_pod_pending_because_of_cel_runtime_errors(b: Builder) -> None:
    selectors = [{"cel": {"expression": f'device.attributes["{DRIVER}"].exists'}}]
    pod = await b.pod(template=await b.template(selectors=selectors))
    assert "CEL runtime error" in await b.unschedulable(pod)
    await b.stays_pending(pod)


@played(8)
async def test_uses_all_resources(b: Builder) -> None:
    template = await b.template()
    names = [await b.pod(template=template) for _ in range(8)]
    await b.running(*names)
    assert len({(await b.get(PODS, name))["spec"]["nodeName"] for name in names}) == 8


# --- reservations (kubelet) -------------------------------------------------------------------------------------------


@played()
async def test_must_not_run_a_pod_if_a_claim_is_not_ready(b: Builder) -> None:
    pod = await b.pod(await b.claim({"name": "r0", "exactly": asked("none")}), nodeName="node-1")
    await b.stays_pending(pod)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_must_cleanup_extended_resource_claims_when_pods_are_over(phase: str) -> None:
    @played()
    async def test(b: Builder) -> None:
        await b.create(CLASSES, class_obj("extended", extendedResourceName="example.com/r0"))
        pod = await b.requesting({"example.com/r0": "1"}, restartPolicy="Never")
        await b.running(pod)
        claim = (await b.get(PODS, pod))["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
        assert (await b.get(CLAIMS, claim))["status"]["allocation"]
        await b.end(pod, phase)
        await asyncio.sleep(60)
        with pytest.raises(NotFound):
            await b.get(CLAIMS, claim)

    test()


@played()
async def test_removes_reservation_from_claim_when_pod_is_done(b: Builder) -> None:
    claim, template = await b.claim(), await b.template()
    pod = await b.pod(claim, restartPolicy="Never")
    await b.running(pod)
    await b.end(pod)
    await asyncio.sleep(60)
    assert not (await b.get(CLAIMS, claim)).get("status", {}).get("reservedFor")
    own = await b.pod(template=template, restartPolicy="Never")
    await b.running(own)
    await b.end(own)
    await asyncio.sleep(60)
    assert [item.obj()["metadata"]["name"] for item in (await b.api.list(CLAIMS)).items] == [claim]


# --- alternatives, counters, capacity, taints -------------------------------------------------------------------------

TWO = slice_obj(
    "one",
    *(
        {"name": name, "attributes": {f"{DRIVER}/version": {"string": version}, f"{DRIVER}/root": {"string": root}}}
        for name, version, root in (("d1", "1.0.0", "bar"), ("d2", "2.0.0", "foo"))
    ),
    node="node-1",
)
OTHER = slice_obj(
    "two",
    {"name": "o1", "attributes": {f"{DRIVER}/version": {"string": "1.0.0"}, f"{DRIVER}/root": {"string": "foo"}}},
    node="node-1",
    driver="other.example.com",
)


def _alternatives(*counts: int) -> Obj:
    ways = [asked(count=count) | {"name": f"sub-{number + 1}"} for number, count in enumerate(counts)]
    return {"name": "request-1", "firstAvailable": ways}


def _config(value: str, *requests: str, driver: str = DRIVER) -> Obj:
    return {"requests": list(requests), "opaque": {"driver": driver, "parameters": {"is": value}}}


@played(1, 1, TWO, OTHER)
async def test_selects_the_first_subrequest_that_can_be_satisfied(b: Builder) -> None:
    configs = [_config("parent", "request-1"), _config("one", "request-1/sub-1"), _config("two", "request-1/sub-2")]
    claim = await b.claim(_alternatives(3, 2, 1), config=configs)
    await b.running(await b.pod(claim))
    assert [result["request"] for result in await b.results(claim)] == ["request-1/sub-2"] * 2
    config = (await b.get(CLAIMS, claim))["status"]["allocation"]["devices"]["config"]
    assert [each["opaque"]["parameters"]["is"] for each in config] == ["parent", "two"]


@played(1, 1, TWO, OTHER)
async def test_chooses_the_correct_subrequest_subject_to_constraints(b: Builder) -> None:
    await b.create(CLASSES, class_obj("other", "device.driver == 'other.example.com'"))
    second = {"name": "request-2", "exactly": asked("other")}
    constraints = [
        {"requests": ["request-1", "request-2"], "matchAttribute": f"{DRIVER}/version"},
        {"requests": ["request-1/sub-1", "request-2"], "matchAttribute": f"{DRIVER}/root"},
    ]
    claim = await b.claim(_alternatives(1, 1), second, constraints=constraints)
    await b.running(await b.pod(claim))
    assert [result["request"] for result in await b.results(claim)] == ["request-1/sub-2", "request-2"]


COUNTED = {"consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "4Gi"}}}]}
COUNTERS = slice_obj("node-1", node="node-1", of=2, called="counters")
COUNTERS["spec"] |= {"sharedCounters": [{"name": "set", "counters": {"memory": {"value": "6Gi"}}}]}
del COUNTERS["spec"]["devices"]
PARTS = slice_obj("node-1", {"name": "p1"} | COUNTED, {"name": "p2"} | COUNTED, node="node-1", of=2, called="parts")


@played(1, 1, COUNTERS, PARTS)
async def test_must_consume_and_free_up_counters(b: Builder) -> None:
    first = await b.pod(await b.claim())
    await b.running(first)
    second = await b.pod(await b.claim())
    await b.stays_pending(second)
    await b.delete(first)
    await b.running(second)


SHARED = {
    "name": "shared",
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}},
}


@played(1, 1, slice_obj("node-1", SHARED, node="node-1"))
async def test_must_allow_multiple_allocations_and_consume_capacity(b: Builder) -> None:
    pods = []
    for amount in ("4Gi", "8Gi", "4Gi"):
        request = {"name": "r0", "exactly": asked(capacity={"requests": {"memory": amount}})}
        pods.append(await b.pod(await b.claim(request)))
        if amount == "4Gi":
            await b.running(pods[-1])
    await b.stays_pending(pods[1])
    await b.delete(pods[0], pods[2])
    await b.running(pods[1])


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_taint_keeps_pod_pending_and_can_be_tolerated(effect: str) -> None:
    tainted = {"name": "d0", "taints": [{"key": "example.com/taint", "value": "tainted", "effect": effect}]}

    @played(1, 1, slice_obj("node-1", tainted, node="node-1"))
    async def test(b: Builder) -> None:
        await b.unschedulable(await b.pod(template=await b.template()))
        tolerant = await b.pod(template=await b.template(tolerations=[ALL_TAINTS | {"effect": effect}]))
        await b.running(tolerant)
        await asyncio.sleep(60)
        await b.running(tolerant)

    test()


# --- extended resources -----------------------------------------------------------------------------------------------

IMPLICIT, EXPLICIT = "deviceclass.resource.kubernetes.io/extended", "example.com/r0"


async def extended(b: Builder, pod: str) -> tuple[dict[str, int], set[tuple[str, str]]]:
    """How many devices each request has, and who has devices of which."""
    status = (await b.get(PODS, pod))["status"]["extendedResourceClaimStatus"]
    counts: dict[str, int] = {}
    for result in await b.results(status["resourceClaimName"]):
        counts[result["request"]] = counts.get(result["request"], 0) + 1
    mappings = {(each["containerName"], each["requestName"]) for each in status["requestMappings"]}
    return counts, mappings


@played(1, 10)
async def test_must_run_a_pod_with_extended_resource_whose_init_containers_use_those_of_others(b: Builder) -> None:
    await b.create(CLASSES, class_obj("extended", extendedResourceName=EXPLICIT))
    one, two = {EXPLICIT: "1"}, {EXPLICIT: "2"}
    pod = await b.requesting(one, init=[two, one | {"restartPolicy": "Always"}, one])
    await b.running(pod)
    counts, mappings = await extended(b, pod)
    sidecar, main = "container-1-request-0", "container-3-request-0"
    assert counts == {sidecar: 1, main: 1}
    assert mappings == {("i1", sidecar), ("c0", main), ("i0", sidecar), ("i0", main), ("i2", main)}


@played(1, 10)
async def test_init_containers_that_need_more_share_the_largest_amount_of_them(b: Builder) -> None:
    await b.create(CLASSES, class_obj("extended", extendedResourceName=EXPLICIT))
    pod = await b.requesting({EXPLICIT: "1"}, init=[{EXPLICIT: "2"}, {EXPLICIT: "4"}])
    await b.running(pod)
    counts, mappings = await extended(b, pod)
    beyond, main = "container-1-request-0", "container-2-request-0"
    assert counts == {beyond: 3, main: 1}
    assert mappings == {("c0", main), ("i0", main), ("i0", beyond), ("i1", main), ("i1", beyond)}


@played(1, 10)
async def test_must_run_a_pod_with_both_implicit_and_explicit_extended_resource_within_a_quota(b: Builder) -> None:
    await b.create(CLASSES, class_obj("extended", extendedResourceName=EXPLICIT))
    devices = "extended.deviceclass.resource.k8s.io/devices"
    limited = "count/resourceclaims.resource.k8s.io", f"requests.{EXPLICIT}", f"requests.{IMPLICIT}", devices
    hard = dict.fromkeys(limited, "10")
    await b.create(builtin.RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    one = {EXPLICIT: "1", IMPLICIT: "1"}
    pod = await b.requesting(one, init=[one, one | {"restartPolicy": "Always"}, one])
    await b.running(pod)
    claim = await b.claim({"name": "r0", "exactly": asked("extended")})
    await b.running(await b.pod(claim))
    await asyncio.sleep(60)
    used = (await b.get(builtin.RESOURCE_QUOTAS, "q"))["status"]["used"]
    assert used == dict.fromkeys(hard, "5") | {"count/resourceclaims.resource.k8s.io": "2"}


@played(1, 10)
async def test_must_run_a_pod_with_three_containers_multiple_resources_each(b: Builder) -> None:
    for number in range(6):
        await b.create(CLASSES, class_obj(f"c{number}", extendedResourceName=f"example.com/r{number}"))
    amounts = [{f"example.com/r{number}": "1" for number in range(*ends)} for ends in ((0, 1), (1, 3), (3, 6))]
    pod = await b.requesting(*amounts)
    await b.running(pod)
    counts, mappings = await extended(b, pod)
    names = [(place, number) for place, count in enumerate((1, 2, 3)) for number in range(count)]
    assert counts == {f"container-{place}-request-{number}": 1 for place, number in names}
    assert mappings == {(f"c{place}", f"container-{place}-request-{number}") for place, number in names}


@played(1, 10)
async def test_must_prevent_overcommitment_of_extended_resources(b: Builder) -> None:
    await b.create(CLASSES, class_obj("extended", extendedResourceName=EXPLICIT))
    first, second = await b.requesting({EXPLICIT: "10"}), await b.requesting({EXPLICIT: "10"})
    await b.running(first)
    await b.unschedulable(second)
    await b.delete(first)
    await b.running(second)


@played()
async def test_must_reject_pod_with_invalid_extended_resource_name(b: Builder) -> None:
    with pytest.raises(Invalid):
        await b.requesting({"invalid_resource_name": "1"})


@played()
async def test_must_run_a_pod_with_extended_resource_requesting_zero(b: Builder) -> None:
    await b.create(CLASSES, class_obj("extended", extendedResourceName=EXPLICIT))
    pod = await b.requesting({EXPLICIT: "0"})
    await b.running(pod)
    assert "extendedResourceClaimStatus" not in (await b.get(PODS, pod))["status"]


@played()
async def test_must_process_extended_resource_after_device_class_creation(b: Builder) -> None:
    pod = await b.requesting({EXPLICIT: "1"})
    await b.unschedulable(pod)
    await b.create(CLASSES, class_obj("extended", extendedResourceName=EXPLICIT))
    await b.running(pod)


@played(2, 2, slice_obj("node-1", "d0", "d1", node="node-1"))
async def test_must_run_pods_on_nodes_with_devices_and_on_nodes_with_device_plugins(b: Builder) -> None:
    await b.create(CLASSES, class_obj("extended", extendedResourceName=EXPLICIT))
    status = {"status": {kind: {EXPLICIT: "2"} for kind in ("capacity", "allocatable")}}
    await b.api.patch(builtin.NODES, "node-2", "", status, PatchType.MERGE, subresource="status")
    pods = [await b.requesting({EXPLICIT: "2"}) for _ in range(2)]
    await b.running(*pods)
    found = {(pod := await b.get(PODS, name))["spec"]["nodeName"]: pod["status"] for name in pods}
    assert "extendedResourceClaimStatus" in found["node-1"]
    assert "extendedResourceClaimStatus" not in found["node-2"]
