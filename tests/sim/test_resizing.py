"""Pods on simulated nodes that are resized in place (KEP-1287), over the real server in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.builtin import EVENTS, NODES, PODS
from fairlead.api.encoded import encoded
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.verbs import PatchType
from fairlead.compose import Settings, simulation
from fairlead.node.pod_lifecycle import PodRun
from fairlead.node.status import PodAddresses
from fairlead.runtime import rng
from fairlead.runtime.loops import run_virtual
from fairlead.server.registry.registry import UserApi
from fairlead.sim.behaviour import STOP_SECONDS, SimulatedRuntime
from fairlead.sim.node_settings import NodeConfigurations
from fairlead.sim.nodes import NodeShape, uniform
from fairlead.sim.resizing import allocated_amounts

MIB = 1024**2


def on_a_node_of_4_cpus(check: Callable[[UserApi], Awaitable[None]], *flags: str) -> None:
    async def run() -> None:
        settings = Settings(nodes=tuple(uniform(1, NodeShape(cpu="4"))), configurations=NodeConfigurations(flags=flags))
        async with simulation(settings) as (api, _):
            await check(api)

    rng.seed(1)
    run_virtual(run())


def pod(name: str, resources: Obj, annotations: dict[str, str] | None = None, **container: Any) -> Obj:
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources, **container}]}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}


def cpu(amount: str) -> Obj:
    return {"requests": {"cpu": amount}}


def memory(amount: str) -> Obj:
    return {"requests": {"memory": amount}, "limits": {"memory": amount}}


async def resize(api: UserApi, name: str, resources: Obj) -> None:
    spec = {"containers": [{"name": "c", "resources": resources}]}
    await api.patch(PODS, name, "default", {"spec": spec}, PatchType.STRATEGIC, subresource="resize")


async def created(api: UserApi, *pods: Obj) -> None:
    for manifest in pods:
        await api.create(PODS, manifest, "default")
    await asyncio.sleep(5)


async def container(api: UserApi, name: str) -> Obj:
    found: Obj = (await api.get(PODS, name, "default")).obj()["status"]["containerStatuses"][0]
    return found


async def conditions(api: UserApi, name: str) -> dict[str, Obj]:
    """The conditions about resizing, by type."""
    found = (await api.get(PODS, name, "default")).obj()["status"]["conditions"]
    return {condition["type"]: condition for condition in found if "Resize" in condition["type"]}


async def events(api: UserApi, name: str, reason: str) -> list[str]:
    found = [entry.obj() for entry in (await api.list(EVENTS, "default")).items]
    return [entry["message"] for entry in found if (entry["involvedObject"]["name"], entry["reason"]) == (name, reason)]


def test_a_resize_that_fits_is_in_progress_and_then_done() -> None:
    async def check(api: UserApi) -> None:
        await created(api, pod("a", cpu("1")))
        before = await container(api, "a")
        await resize(api, "a", cpu("2"))
        await asyncio.sleep(0.5)
        begun = await container(api, "a")
        assert (begun["allocatedResources"], begun["resources"]) == ({"cpu": "2"}, cpu("1"))
        assert (await conditions(api, "a"))["PodResizeInProgress"]["observedGeneration"] == 2
        await asyncio.sleep(2)
        after = await container(api, "a")
        assert after["resources"] == cpu("2")
        assert after["containerID"] == before["containerID"]
        assert await conditions(api, "a") == {}
        summary = '{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}],"generation":2}'
        assert await events(api, "a", "ResizeStarted") == [f"Pod resize started: {summary}"]
        assert await events(api, "a", "ResizeCompleted") == [f"Pod resize completed: {summary}"]

    on_a_node_of_4_cpus(check)


def test_an_init_container_is_resized_while_it_runs_and_afterwards() -> None:
    """On by default since 1.36 (InPlacePodVerticalScalingInitContainers)."""

    async def check(api: UserApi) -> None:
        manifest = pod("a", cpu("1"), {"setup.sim.fairlead.dev/lifetime-seconds": "60"})
        manifest["spec"]["initContainers"] = [{"name": "setup", "image": "i", "resources": cpu("1")}]
        await created(api, manifest)

        async def resized(amount: str) -> Obj:
            spec = {"initContainers": [{"name": "setup", "resources": cpu(amount)}]}
            await api.patch(PODS, "a", "default", {"spec": spec}, PatchType.STRATEGIC, subresource="resize")
            await asyncio.sleep(5)
            assert await conditions(api, "a") == {}
            found: Obj = (await pod_status(api, "a"))["initContainerStatuses"][0]
            assert (found["allocatedResources"], found["resources"], found["restartCount"]) == (
                {"cpu": amount},
                cpu(amount),
                0,
            )
            return found

        assert "running" in (await resized("2"))["state"]
        await asyncio.sleep(60)
        assert "terminated" in (await resized("3"))["state"]
        assert (await pod_status(api, "a"))["phase"] == "Running"
        assert len(await events(api, "a", "ResizeCompleted")) == 2

    on_a_node_of_4_cpus(check)


def test_a_resize_without_room_is_deferred_until_a_pod_ends() -> None:
    async def check(api: UserApi) -> None:
        await created(api, pod("a", cpu("1")), pod("b", cpu("2")))
        await resize(api, "a", cpu("3"))
        await asyncio.sleep(5)
        pending = (await conditions(api, "a"))["PodResizePending"]
        message = "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"
        assert (pending["reason"], pending["message"], pending["observedGeneration"]) == ("Deferred", message, 2)
        assert (await container(api, "a"))["allocatedResources"] == {"cpu": "1"}
        assert len(await events(api, "a", "ResizeDeferred")) == 1
        await api.delete(PODS, "b", "default")
        await asyncio.sleep(40)
        assert await conditions(api, "a") == {}
        assert (await container(api, "a"))["resources"] == cpu("3")

    on_a_node_of_4_cpus(check)


def test_a_deferred_resize_is_tried_again_when_the_node_grows_and_forgotten_when_it_is_taken_back() -> None:
    async def check(api: UserApi) -> None:
        await created(api, pod("a", cpu("1")), pod("b", cpu("1")), pod("c", cpu("1")))
        await resize(api, "a", cpu("3"))
        await resize(api, "b", cpu("3500m"))
        await asyncio.sleep(5)
        assert "PodResizePending" in await conditions(api, "a")
        await resize(api, "b", cpu("1"))
        node = (await api.list(NODES)).items[0].obj()["metadata"]["name"]
        grown = {"status": {"capacity": {"cpu": "5"}, "allocatable": {"cpu": "5"}}}
        await api.patch(NODES, node, "", grown, subresource="status")
        await asyncio.sleep(5)
        assert (await container(api, "a"))["resources"] == cpu("3")
        assert await conditions(api, "b") == {}
        assert (await container(api, "b"))["resources"] == cpu("1")

    on_a_node_of_4_cpus(check)


def test_what_is_deferred_takes_no_room_and_what_is_allocated_does() -> None:
    """The node counts what is allocated, not what is desired."""

    async def check(api: UserApi) -> None:
        await created(api, pod("a", cpu("1")), pod("b", cpu("2")))
        await resize(api, "a", cpu("3"))
        await asyncio.sleep(5)
        past_the_scheduler = pod("c", cpu("1"))
        past_the_scheduler["spec"]["nodeName"] = (await api.list(NODES)).items[0].obj()["metadata"]["name"]
        await created(api, past_the_scheduler)
        assert (await api.get(PODS, "c", "default")).obj()["status"]["phase"] == "Running"
        await resize(api, "b", cpu("2500m"))
        await asyncio.sleep(5)
        assert (await conditions(api, "b"))["PodResizePending"]["reason"] == "Deferred"

    on_a_node_of_4_cpus(check)


def test_a_container_that_wants_a_restart_is_restarted() -> None:
    async def check(api: UserApi) -> None:
        policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        manifest = pod("a", memory("100Mi"), {STOP_SECONDS: "3"}, resizePolicy=policy)
        await created(api, manifest)
        await resize(api, "a", memory("200Mi"))
        await asyncio.sleep(3)
        assert (await container(api, "a"))["restartCount"] == 0, "it takes its time to stop"
        await asyncio.sleep(5)
        after = await container(api, "a")
        assert (after["restartCount"], after["resources"]) == (1, memory("200Mi"))
        assert after["lastState"]["terminated"]["exitCode"] == 143
        assert "running" in after["state"]
        assert await events(api, "a", "Killing") == ["Container c resize requires restart"]
        assert len(await events(api, "a", "ResizeCompleted")) == 1

    on_a_node_of_4_cpus(check)


def test_a_memory_limit_does_not_go_below_what_is_used() -> None:
    async def check(api: UserApi) -> None:
        await created(api, pod("a", memory("400Mi"), {"sim.fairlead.dev/usage-memory": "300Mi"}))
        await resize(api, "a", memory("200Mi"))
        await asyncio.sleep(30)
        refused = f"memory limit ({200 * MIB}) below current usage ({300 * MIB})"
        whole, own = f"attempting to set pod {refused}", f'attempting to set container "c" {refused}'
        progress = (await conditions(api, "a"))["PodResizeInProgress"]
        assert (progress["reason"], progress["message"]) == (
            "Error",
            f"cannot decrease memory limits: [{whole}, {own}]",
        )
        assert (await container(api, "a"))["resources"] == memory("400Mi")
        assert len(await events(api, "a", "ResizeError")) == 1
        await api.patch(PODS, "a", "default", {"metadata": {"annotations": {"sim.fairlead.dev/usage-memory": "100Mi"}}})
        await asyncio.sleep(15)
        assert await conditions(api, "a") == {}
        assert (await container(api, "a"))["resources"] == memory("200Mi")

    on_a_node_of_4_cpus(check)


def test_a_new_process_reads_what_is_allocated_from_the_status() -> None:
    """Not from the specification, which may desire something else."""
    deferred = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "m"}
    status = {
        "phase": "Running",
        "conditions": [deferred],
        "containerStatuses": [
            {"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
            | {"resources": cpu("1"), "allocatedResources": {"cpu": "1"}}
        ],
    }
    subject = encoded(pod("a", cpu("3")) | {"status": status}).view(Pod)
    run = PodRun(SimulatedRuntime(lambda pod, container, started_at: None, lambda *_: 0), subject, 1, 0.0)
    assert allocated_amounts(subject, run) == {"cpu": 1000}
    step = run.step(subject, PodAddresses("172.16.0.1", "10.64.0.1"), 0.0)
    assert step.wants_resize
    assert step.status is None, "it is known already"


def test_a_guaranteed_pod_is_not_resized_where_it_has_cpus_of_its_own() -> None:
    """Its node runs with the static CPU manager policy."""

    async def check(api: UserApi) -> None:
        amounts = {"cpu": "1", "memory": "1Gi"}
        await created(api, pod("a", {"requests": amounts, "limits": amounts}))
        more = amounts | {"cpu": "2"}
        await resize(api, "a", {"requests": more, "limits": more})
        await asyncio.sleep(5)
        pending = (await conditions(api, "a"))["PodResizePending"]
        message = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
        assert (pending["reason"], pending["message"]) == ("Infeasible", message)
        assert len(await events(api, "a", "ResizeInfeasible")) == 1

    on_a_node_of_4_cpus(check, "--cpu-manager-policy=static", "--system-reserved=cpu=500m")


async def resize_pod_level(api: UserApi, name: str, resources: Obj) -> None:
    await api.patch(
        PODS, name, "default", {"spec": {"resources": resources}}, PatchType.STRATEGIC, subresource="resize"
    )


async def pod_status(api: UserApi, name: str) -> Obj:
    found: Obj = (await api.get(PODS, name, "default")).obj()["status"]
    return found


def test_a_node_declares_what_it_can_do_of_what_kubelets_of_its_version_can() -> None:
    async def check(api: UserApi) -> None:
        node = (await api.get(NODES, "node-1")).obj()
        assert node["status"]["declaredFeatures"] == [
            "InPlacePodLevelResourcesVerticalScaling",
            "InPlacePodVerticalScalingInitContainers",
            "RestartAllContainersOnContainerExits",
        ]

    on_a_node_of_4_cpus(check)


def test_a_node_declares_nothing_where_its_gates_are_off() -> None:
    async def check(api: UserApi) -> None:
        assert not (await api.get(NODES, "node-1")).obj()["status"].get("declaredFeatures")

    on_a_node_of_4_cpus(check, "--feature-gates=NodeDeclaredFeatures=false")


def test_the_resources_of_a_pod_as_a_whole_are_resized_in_place() -> None:
    async def check(api: UserApi) -> None:
        manifest = pod("a", {})
        manifest["spec"]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
        await created(api, manifest)
        before = await pod_status(api, "a")
        assert before["resources"] == manifest["spec"]["resources"]
        assert before["allocatedResources"] == {"cpu": "1", "memory": "1Gi"}
        larger = {"requests": {"cpu": "3", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
        await resize_pod_level(api, "a", larger)
        await asyncio.sleep(0.5)
        begun = await pod_status(api, "a")
        assert (begun["allocatedResources"], begun["resources"]["limits"]) == (larger["requests"], {"memory": "1Gi"})
        assert "PodResizeInProgress" in await conditions(api, "a")
        await asyncio.sleep(3)
        after = await pod_status(api, "a")
        assert after["resources"] == larger
        assert await conditions(api, "a") == {}
        assert after["containerStatuses"][0]["restartCount"] == 0

    on_a_node_of_4_cpus(check)


def test_a_pod_as_a_whole_waits_for_room_and_does_not_shrink_below_what_it_uses() -> None:
    async def check(api: UserApi) -> None:
        manifest = pod("a", {}, {"sim.fairlead.dev/usage-memory": "300Mi"})
        manifest["spec"]["resources"] = {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
        await created(api, manifest, pod("b", cpu("2")))
        await resize_pod_level(api, "a", {"requests": {"cpu": "3"}})
        await asyncio.sleep(5)
        assert (await conditions(api, "a"))["PodResizePending"]["reason"] == "Deferred"
        assert (await pod_status(api, "a"))["allocatedResources"]["cpu"] == "1"
        await api.delete(PODS, "b", "default")
        await asyncio.sleep(10)
        assert (await pod_status(api, "a"))["allocatedResources"]["cpu"] == "3"
        await resize_pod_level(api, "a", {"requests": {"memory": "100Mi"}, "limits": {"memory": "200Mi"}})
        await asyncio.sleep(15)
        progress = (await conditions(api, "a"))["PodResizeInProgress"]
        refused = f"attempting to set pod memory limit ({200 * MIB}) below current usage ({300 * MIB})"
        assert progress["message"] == f"cannot decrease memory limits: {refused}"

    on_a_node_of_4_cpus(check)
