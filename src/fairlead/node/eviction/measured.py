"""What eviction looks at, out of what was measured: a kubelet takes both from the same summary.

Source: pkg/kubelet/eviction/helpers.go (makeSignalObservations, podDiskUsage).
"""

from __future__ import annotations

from fairlead.node.eviction.candidates import ContainerUsage, DiskUsage, PodUsage
from fairlead.node.eviction.signals import FileSystems, FileSystemStats, NodeStats, Observation
from fairlead.node.stats.measurements import (
    ContainerMeasurements,
    FilesystemMeasurements,
    MemoryMeasurements,
    NodeMeasurements,
    PodMeasurements,
)

_PODS = "pods"


def node_stats(node: NodeMeasurements, filesystems: FileSystems) -> NodeStats:
    """Measured for the pass that asks, so it is news however the clock was set."""
    pods = next((each.memory for each in node.system_containers if each.name == _PODS), None)
    processes = node.processes
    return NodeStats(
        memory=_memory(node.memory),
        allocatable_memory=_memory(pods) if pods is not None else None,
        nodefs=_filesystem(node.nodefs),
        imagefs=_filesystem(node.nodefs if filesystems is FileSystems.SHARED else node.imagefs),
        pids=Observation(max(processes.maximum - processes.current, 0), processes.maximum),
    )


def pod_usage(pod: PodMeasurements) -> PodUsage:
    return PodUsage(
        memory=pod.memory.working_set,
        processes=pod.processes,
        containers=tuple(map(_container, pod.containers)),
        volumes={volume.name: _disk(volume.filesystem) for volume in pod.volumes},
        ephemeral_storage=pod.ephemeral_storage.used if pod.ephemeral_storage is not None else 0,
    )


def _container(container: ContainerMeasurements) -> ContainerUsage:
    rootfs = _disk(container.rootfs) if container.rootfs is not None else None
    logs = _disk(container.logs) if container.logs is not None else None
    return ContainerUsage(container.name, container.memory.working_set, rootfs, logs)


def _disk(filesystem: FilesystemMeasurements) -> DiskUsage:
    return DiskUsage(filesystem.used, filesystem.inodes_used)


def _memory(memory: MemoryMeasurements) -> Observation | None:
    if memory.limit is None or memory.available is None:
        return None
    return Observation(memory.available, memory.limit)


def _filesystem(found: FilesystemMeasurements | None) -> FileSystemStats:
    if found is None:
        return FileSystemStats()
    inodes = None if not found.inodes or found.inodes_free is None else Observation(found.inodes_free, found.inodes)
    return FileSystemStats(Observation(found.available, found.capacity), inodes)
