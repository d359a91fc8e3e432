"""Nodes whose measurements a test states: an implementation of `NodeAgents` without machines."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fairlead.node.stats import endpoints
from fairlead.node.stats.measurements import (
    ContainerMeasurements,
    CpuMeasurements,
    FilesystemMeasurements,
    MemoryMeasurements,
    NodeMeasurements,
    PodMeasurements,
    PodsUse,
    ProcessMeasurements,
    VolumeMeasurements,
)
from fairlead.runtime.http.replies import Reply

#: 2026-01-02T03:04:05Z
AT = 1767323045.0
GI, MI = 1 << 30, 1 << 20


def container(name: str, cpu_milli: int, memory: int, seconds: float = 60.0) -> ContainerMeasurements:
    """One that has run for so long, without quota."""
    layer = FilesystemMeasurements(100 * GI, 60 * GI, 4096, 1000, 800, 3)
    return ContainerMeasurements(
        name,
        AT - seconds,
        CpuMeasurements(cpu_milli * 10**6, int(cpu_milli * 10**6 * seconds)),
        MemoryMeasurements(memory + MI, memory, memory // 2),
        rootfs=layer,
        logs=layer,
        processes=1,
    )


def pod(name: str, uid: str, *containers: ContainerMeasurements, namespace: str = "default") -> PodMeasurements:
    nanos = sum(it.cpu.usage_nano_cores for it in containers)
    total = sum(it.cpu.usage_core_nano_seconds for it in containers)
    memory = sum(it.memory.working_set for it in containers)
    storage = FilesystemMeasurements(100 * GI, 60 * GI, 8192, 1000, 800, 6)
    return PodMeasurements(
        name,
        namespace,
        uid,
        AT - 60,
        CpuMeasurements(nanos, total),
        MemoryMeasurements(memory + MI, memory, memory // 2),
        containers,
        volumes=(VolumeMeasurements("scratch", storage), VolumeMeasurements("data", storage, claim="data-claim")),
        ephemeral_storage=storage,
        processes=len(containers),
    )


def node(name: str, *pods: PodMeasurements) -> NodeMeasurements:
    disk = FilesystemMeasurements(100 * GI, 60 * GI, 40 * GI, 1000, 800, 200)
    return NodeMeasurements(
        name,
        AT - 3600,
        AT,
        CpuMeasurements(1_500_000_000, 5_400_000_000_000),
        MemoryMeasurements(4 * GI, 3 * GI, 2 * GI, available=13 * GI, limit=16 * GI),
        ProcessMeasurements(200, 32768),
        nodefs=disk,
        imagefs=disk,
        containerfs=disk,
        system_containers=tuple(container(it, 10, 64 * MI, 3600) for it in ("kubelet", "runtime", "pods")),
        pods=pods,
        window_seconds=15.0,
        cpus=4,
    )


class MeasuredNodes:
    """Answers what it was given."""

    def __init__(self, *nodes: NodeMeasurements) -> None:
        self.nodes = {it.name: it for it in nodes}

    def has(self, node: str) -> bool:
        return node in self.nodes

    async def measure(self, node: str) -> NodeMeasurements | None:
        return self.nodes.get(node)

    async def pods_use(self, node: str, uids: Collection[str]) -> PodsUse | None:
        found = self.nodes.get(node)
        return found.pods_use() if found else None

    async def get(self, node: str, path: str, query: Mapping[str, str]) -> Reply | None:
        found = self.nodes.get(node)
        return endpoints.answer(path, query, found) if found else None
