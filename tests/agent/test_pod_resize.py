"""Resizing in place: cgroups of running containers change, and the pod's status tells how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.api.builtin import NODES, PODS
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import NODE, RealNode, is_running, manifest, real_node, state

pytestmark = real_containers

SMALL = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
LARGE = {"requests": {"cpu": "300m", "memory": "48Mi"}, "limits": {"cpu": "500m", "memory": "96Mi"}}


async def _resize(node: RealNode, name: str, resources: Obj) -> None:
    wanted = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    await node.api.patch(PODS, name, "default", wanted, PatchType.STRATEGIC, subresource="resize")


def _has(resources: Obj) -> Any:
    """The container runs with that, and nothing is left to do."""

    def is_so(pod: Obj) -> bool:
        found = state(pod)
        return is_running(pod) and found.get("resources") == resources and not _conditions(pod)

    return is_so


def _conditions(pod: Obj) -> dict[str, Obj]:
    return {each["type"]: each for each in pod["status"]["conditions"] if each["type"].startswith("PodResize")}


def _memory_limits(node: RealNode, pod: Obj) -> tuple[int, int]:
    """Of the container and of its pod, as the kernel has them."""
    cgroups = Cgroups(hierarchies())
    file = "memory.max" if cgroups.hierarchies.version == 2 else "memory.limit_in_bytes"
    parent = _cgroup(node, pod)
    own = f"{parent}/{state(pod)['containerID'].rpartition('/')[2]}"
    return int(cgroups.read(own, file) or 0), int(cgroups.read(parent, file) or 0)


def _cgroup(node: RealNode, pod: Obj) -> str:
    return f"{node.cgroup}/kubepods/burstable/pod{pod['metadata']['uid']}"


@in_loop
async def test_a_running_container_grows_and_shrinks_in_place(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.create(manifest("web", "sleep", "1000", resources=SMALL))
        before = await node.until("web", is_running)
        assert _memory_limits(node, before) == (64 << 20, 64 << 20)
        await _resize(node, "web", LARGE)
        grown = await node.until("web", _has(LARGE))
        assert _memory_limits(node, grown) == (96 << 20, 96 << 20)
        assert state(grown)["allocatedResources"] == LARGE["requests"]
        await _resize(node, "web", SMALL)
        shrunk = await node.until("web", _has(SMALL))
        assert _memory_limits(node, shrunk) == (64 << 20, 64 << 20)
        assert state(shrunk)["containerID"] == state(before)["containerID"]
        assert state(shrunk)["restartCount"] == 0
        reasons = await node.reasons("web", lambda reasons: reasons.count("ResizeStarted") == 2)
        assert "ResizeCompleted" in reasons


@in_loop
async def test_a_container_that_asks_for_it_is_started_anew_with_its_new_size(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        await node.create(manifest("web", "sleep", "1000", resources=SMALL, resizePolicy=policy))
        before = await node.until("web", is_running)
        await _resize(node, "web", LARGE)
        after = await node.until("web", _has(LARGE))
        assert state(after)["restartCount"] == 1
        assert state(after)["containerID"] != state(before)["containerID"]
        assert _memory_limits(node, after) == (96 << 20, 96 << 20)
        await node.told("web", "Killing", "Container c resize requires restart")


@in_loop
async def test_a_limit_below_what_is_used_is_an_error_until_it_is_taken_back(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        hold = "x=$(head -c 20000000 /dev/zero | tr '\\0' a); echo held; while true; do sleep 1; done"
        await node.create(manifest("web", "sh", "-c", hold, resources=LARGE))
        before = await node.until("web", is_running)
        await node.until("web", lambda pod: "held" in node.log("web"))
        tiny = {"requests": LARGE["requests"] | {"memory": "8Mi"}, "limits": LARGE["limits"] | {"memory": "8Mi"}}
        await _resize(node, "web", tiny)
        pod = await node.until("web", lambda pod: "reason" in _conditions(pod).get("PodResizeInProgress", {}))
        problem = _conditions(pod)["PodResizeInProgress"]
        assert problem["reason"] == "Error"
        assert problem["message"].startswith("cannot decrease memory limits: ")
        assert state(pod)["resources"] == LARGE
        assert _memory_limits(node, before)[0] == 96 << 20
        if hierarchies().version == 1:  # whoever does not ask before is refused by the kernel
            own = f"{_cgroup(node, before)}/{state(before)['containerID'].rpartition('/')[2]}"
            wanted = {"memory.limit_in_bytes": str(8 << 20)}
            assert Cgroups(hierarchies()).change(own, wanted) == {"memory.limit_in_bytes": "Device or resource busy"}
        await _resize(node, "web", LARGE)
        await node.until("web", _has(LARGE))


@in_loop
async def test_a_resize_that_has_no_room_waits_until_another_pod_goes(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.create(manifest("other", "sleep", "1000", resources={"requests": {"cpu": "300m"}}))
        await node.create(manifest("web", "sleep", "1000", resources={"requests": {"cpu": "100m"}}))
        await node.until("other", is_running)
        await node.until("web", is_running)
        allocatable = (await node.api.get(NODES, NODE)).obj()["status"]["allocatable"]
        more = {"requests": {"cpu": f"{int(allocatable['cpu']) * 1000 - 100}m"}}
        await _resize(node, "web", more)
        pod = await node.until("web", lambda pod: "PodResizePending" in _conditions(pod))
        assert _conditions(pod)["PodResizePending"]["reason"] == "Deferred"
        assert state(pod)["allocatedResources"] == {"cpu": "100m"}
        await node.delete("other", grace=0)
        await node.until("web", _has(more))


@in_loop
async def test_a_new_agent_goes_on_with_the_size_that_was_given(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.create(manifest("web", "sleep", "1000", resources=SMALL))
        await node.until("web", is_running)
        await node.stop()
        await _resize(node, "web", LARGE)
        await node.start()
        pod = await node.until("web", _has(LARGE))
        assert _memory_limits(node, pod) == (96 << 20, 96 << 20)
        assert state(pod)["restartCount"] == 0


@in_loop
async def test_a_pod_gets_less_cpu_though_its_container_starts_anew_for_that(tmp_path: Path) -> None:
    """Version 1 of cgroups gives a pod no less than what a cgroup in it still has, also that of a dead container."""
    async with real_node(tmp_path) as node:
        policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        await node.create(manifest("web", "sleep", "1000", resources=LARGE, resizePolicy=policy))
        await node.until("web", is_running)
        await _resize(node, "web", SMALL)
        after = await node.until("web", _has(SMALL))
        assert state(after)["restartCount"] == 1
        cgroups = Cgroups(hierarchies())
        file, whole = ("cpu.max", "20000 100000") if cgroups.hierarchies.version == 2 else ("cpu.cfs_quota_us", "20000")
        assert (cgroups.read(_cgroup(node, after), file) or "").strip() == whole
        assert "ResizeError" not in await node.reasons("web", lambda reasons: "ResizeCompleted" in reasons)
