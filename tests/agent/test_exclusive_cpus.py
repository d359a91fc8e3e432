"""CPUs of containers' own on this machine, with real cgroups: one is reserved, and a Guaranteed pod gets another."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.device_plugins.messages import NumaNode, Topology
from fairlead.agent.grpc.client import Client
from fairlead.agent.grpc.methods import Nothing
from fairlead.agent.pod_resources.lister import FOLDER as POD_RESOURCES
from fairlead.agent.pod_resources.messages import GET_ALLOCATABLE, LIST, ContainerMemory
from fairlead.api.builtin import NODES, PODS
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.api.verbs import PatchType
from fairlead.node.configuration.errors import StartupError
from tests.agent.device_driver import short as short
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import RealNode, is_phase, is_running, manifest, real_node, state
from tests.agent.runtime_place import CONTAINERD, OCI

pytestmark = [
    real_containers,
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this machine has no CPU to spare"),
]

CPUS = sorted(os.sched_getaffinity(0))
STATIC = {"cpuManagerPolicy": "static", "systemReserved": {"cpu": "1"}, "cpuManagerReconcilePeriod": "1s"}


STATIC_MEMORY = {
    "systemReserved": {"cpu": "1", "memory": "64Mi"},
    "memoryManagerPolicy": "Static",
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "64Mi"}}],
}


def amounts(cpu: str) -> Obj:
    found = {"cpu": cpu, "memory": "32Mi"}
    return {"requests": found, "limits": found}


def cpus_of(node: RealNode, pod: Obj, class_: str = "") -> str:
    return str(_read(node, pod, class_, "cpuset.cpus")).strip()


def _read(node: RealNode, pod: Obj, class_: str, file: str) -> str | None:
    id_ = state(pod)["containerID"].rpartition("/")[2]
    return Cgroups(hierarchies()).read(f"{node.cgroup}/kubepods{class_}/pod{pod['metadata']['uid']}/{id_}", file)


async def until_on(node: RealNode, pod: Obj, class_: str, cpus: str) -> None:
    async with asyncio.timeout(10):
        while cpus_of(node, pod, class_) != cpus:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def listed(cpus: list[int]) -> str:
    return f"{cpus[0]}-{cpus[-1]}" if len(cpus) > 1 else str(cpus[0])


@pytest.mark.parametrize("kind", [OCI, CONTAINERD])
@in_loop
async def test_a_guaranteed_pod_has_its_cpu_to_itself(tmp_path: Path, kind: str) -> None:
    """The others leave it, have it back when the pod is gone, and a restart of the agent changes nothing of that."""
    own, others = str(CPUS[1]), listed([CPUS[0], *CPUS[2:]])
    async with real_node(tmp_path, STATIC, kind=kind) as node:
        await node.create(manifest("shared", "sleep", "1000"))
        shared = await node.until("shared", is_running)
        assert cpus_of(node, shared, "/besteffort") == listed(CPUS)
        await node.create(manifest("exclusive", "sleep", "1000", resources=amounts("1")))
        exclusive = await node.until("exclusive", is_running)
        assert cpus_of(node, exclusive) == own
        assert _is_without_quota(node, exclusive)
        await until_on(node, shared, "/besteffort", others)
        await node.stop()
        await node.start()
        await node.create(manifest("late", "sleep", "1000"))
        late = await node.until("late", is_running)
        assert cpus_of(node, late, "/besteffort") == others
        assert cpus_of(node, await node.pod("exclusive")) == own
        await node.delete("exclusive", grace=0)
        await node.gone("exclusive")
        for pod in (shared, late):
            await until_on(node, pod, "/besteffort", listed(CPUS))


def _is_without_quota(node: RealNode, pod: Obj) -> bool:
    files = (_read(node, pod, "", file) for file in ("cpu.max", "cpu.cfs_quota_us"))
    return any((text or "").split()[:1] in (["max"], ["-1"]) for text in files)


@in_loop
async def test_what_is_left_of_a_pod_that_went_while_the_agent_was_away_is_given_back(tmp_path: Path) -> None:
    async with real_node(tmp_path, STATIC) as node:
        await node.create(manifest("first", "sleep", "1000", resources=amounts(str(len(CPUS) - 1))))
        await node.until("first", is_running)
        await node.stop()
        await node.delete("first", grace=0)
        await node.start()
        await node.create(manifest("second", "sleep", "1000", resources=amounts(str(len(CPUS) - 1))))
        second = await node.until("second", is_running)
        assert cpus_of(node, second) == listed(CPUS[1:])


@in_loop
async def test_a_pod_past_the_scheduler_is_refused_and_a_resize_is_infeasible(tmp_path: Path) -> None:
    async with real_node(tmp_path, STATIC) as node:
        await node.create(manifest("first", "sleep", "1000", resources=amounts("1")))
        await node.until("first", is_running)
        await node.create(manifest("second", "true", spec={"nodeName": "n1"}, resources=amounts(str(len(CPUS)))))
        refused = await node.until("second", is_phase("Failed"))
        assert refused["status"]["reason"] == "UnexpectedAdmissionError"
        text = f"not enough cpus available to satisfy request: requested={len(CPUS)}, available={len(CPUS) - 2}"
        assert text in refused["status"]["message"]
        wanted = {"spec": {"containers": [{"name": "c", "resources": amounts("500m")}]}}
        await node.api.patch(PODS, "first", "default", wanted, PatchType.STRATEGIC, subresource="resize")
        pending = await node.until("first", lambda pod: bool(_pending(pod)))
        assert _pending(pending)["reason"] == "Infeasible"
        expected = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
        assert _pending(pending)["message"] == expected


def _pending(pod: Obj) -> Any:
    conditions = pod["status"].get("conditions") or ()
    return next((each for each in conditions if each["type"] == "PodResizePending"), {})


@in_loop
async def test_an_agent_does_not_go_on_with_the_state_of_another_policy(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.stop()
        node.document.update(STATIC)
        with pytest.raises(StartupError) as refused:
            await node.start()
        path = node.root / "cpu_manager_state"
        assert str(refused.value) == (
            'start cpu manager error: could not restore state from checkpoint: configured policy "static" differs '
            'from state checkpoint policy "none", please drain this node and delete the CPU manager checkpoint file '
            f'"{path}" before restarting Kubelet'
        )
        node.tasks.clear()


@in_loop
async def test_memory_of_numa_nodes_is_set_aside_for_guaranteed_pods(tmp_path: Path) -> None:
    async with real_node(tmp_path, {**STATIC, **STATIC_MEMORY}) as node:
        await node.create(manifest("first", "sleep", "1000", resources=amounts("1")))
        first = await node.until("first", is_running)
        assert (_read(node, first, "", "cpuset.mems") or "").strip() == "0"
        await node.stop()
        await node.start()
        kept = json.loads((node.root / "memory_manager_state").read_bytes())
        blocks = [{"numaAffinity": [0], "type": "memory", "size": 32 << 20}]
        assert kept["entries"] == {first["metadata"]["uid"]: {"c": blocks}}
        much = {"cpu": "100m", "memory": "1000Gi"}
        resources = {"requests": much, "limits": much}
        await node.create(manifest("second", "true", spec={"nodeName": "n1"}, resources=resources))
        refused = await node.until("second", is_phase("Failed"))
        assert "failed to get the default NUMA affinity" in refused["status"]["message"]


@in_loop
async def test_a_node_whose_reserved_memory_is_another_does_not_start(tmp_path: Path) -> None:
    async with real_node(tmp_path) as node:
        await node.stop()
        node.document["memoryManagerPolicy"] = "Static"
        with pytest.raises(StartupError) as refused:
            await node.start()
        assert str(refused.value) == "[memorymanager] you should specify the system reserved memory"
        node.tasks.clear()


@in_loop
async def test_who_asks_is_told_which_cpus_and_memory_a_container_has(short: Path) -> None:
    async with real_node(short, {**STATIC, **STATIC_MEMORY}) as node:
        await node.create(manifest("exclusive", "sleep", "1000", resources=amounts("1")))
        await node.create(manifest("shared", "sleep", "1000"))
        for name in ("exclusive", "shared"):
            await node.until(name, is_running)
        client = Client(str(node.root / POD_RESOURCES / "kubelet.sock"))
        try:
            listed = (await client.call(LIST, Nothing())).pod_resources
            assert {pod.name: pod.containers[0].cpu_ids for pod in listed} == {"exclusive": [CPUS[1]], "shared": []}
            node_0 = Topology(nodes=[NumaNode(id=0)])
            own = ContainerMemory(memory_type="memory", size=32 << 20, topology=node_0)
            assert {pod.name: pod.containers[0].memory for pod in listed} == {"exclusive": [own], "shared": []}
            there_is = await client.call(GET_ALLOCATABLE, Nothing())
            assert there_is.cpu_ids == CPUS[1:]
            (memory,) = (each for each in there_is.memory if each.memory_type == "memory")
            assert memory.topology == node_0
            total = parse((await node.api.get(NODES, "n1")).obj()["status"]["capacity"]["memory"]).units
            assert memory.size == total - (64 << 20)
        finally:
            client.close()
