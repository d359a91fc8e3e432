"""What all pods and daemons of a machine use together, and what that leaves of it (S3-45 to S3-49)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fairlead.node.eviction.signals import (
    MEMORY,
    RESOURCE,
    FileSystems,
    FileSystemStats,
    NodeStats,
    Observation,
    Signal,
)
from fairlead.node.eviction.thresholds import Threshold, with_containerfs
from fairlead.sim.machine.disks import Disks
from fairlead.sim.machine.hardware import Hardware
from fairlead.sim.machine.load import (
    ACTIVE_FILE,
    ANONYMOUS,
    INACTIVE_FILE,
    INODES,
    LOGS,
    PROCESSES,
    ROOTFS,
    VOLUMES,
)
from fairlead.sim.usage.measures import NodeMeasure


class Figures(NamedTuple):
    """Bytes, inodes and processes. None falls where an amount behind it rises, so they bound a window by its peaks."""

    pods_anonymous: int
    anonymous: int
    pods_working_set: int
    working_set: int
    #: With cache that nobody needs.
    memory: int
    nodefs: int
    nodefs_inodes: int
    imagefs: int
    imagefs_inodes: int
    processes: int


def figures(pods: list[int], daemons: Mapping[NodeMeasure, int], disks: Disks, hardware: Hardware) -> Figures:
    """From the sums over all pods. The kernel drops page cache before it lets memory run out."""
    capacity = hardware.machine.memory_bytes
    anonymous = pods[ANONYMOUS] + daemons.get(NodeMeasure.MEMORY, 0)
    room = max(capacity - anonymous, 0)
    active = min(pods[ACTIVE_FILE] + daemons.get(NodeMeasure.ACTIVE_FILE, 0), room)
    inactive = min(pods[INACTIVE_FILE] + daemons.get(NodeMeasure.INACTIVE_FILE, 0), max(room - active, 0))
    layers = pods[ROOTFS] + disks.dead_bytes
    images = disks.image_bytes
    if not disks.has_deleted_declared:
        images += daemons.get(NodeMeasure.UNUSED_IMAGES, 0)
    written, inodes = pods[LOGS] + pods[VOLUMES], pods[INODES]
    on_nodefs = daemons.get(NodeMeasure.NODEFS, 0) + written
    on_imagefs = daemons.get(NodeMeasure.IMAGEFS, 0)
    has_own_layers = hardware.filesystems is FileSystems.IMAGEFS
    if hardware.filesystems is FileSystems.SHARED:
        on_nodefs += layers + images
    else:
        on_nodefs += 0 if has_own_layers else layers
        on_imagefs += images + (layers if has_own_layers else 0)
    return Figures(
        pods_anonymous=pods[ANONYMOUS],
        anonymous=anonymous,
        pods_working_set=pods[ANONYMOUS] + pods[ACTIVE_FILE],
        working_set=anonymous + active,
        memory=anonymous + active + inactive,
        nodefs=on_nodefs,
        nodefs_inodes=daemons.get(NodeMeasure.NODEFS_INODES, 0) + (0 if has_own_layers else inodes),
        imagefs=on_imagefs,
        imagefs_inodes=daemons.get(NodeMeasure.IMAGEFS_INODES, 0) + (inodes if has_own_layers else 0),
        processes=pods[PROCESSES] + daemons.get(NodeMeasure.PIDS, 0),
    )


def node_stats(found: Figures, hardware: Hardware, pods_limit: int, now: float) -> NodeStats:
    """What a kubelet observes; `pods_limit` is the memory that all pods may use together."""
    machine = hardware.machine

    def left(used: int, capacity: int) -> Observation | None:
        return Observation(max(capacity - used, 0), capacity, now) if capacity else None

    return NodeStats(
        memory=left(found.working_set, machine.memory_bytes),
        allocatable_memory=left(found.pods_working_set, pods_limit),
        nodefs=FileSystemStats(
            left(found.nodefs, machine.ephemeral_storage_bytes), left(found.nodefs_inodes, hardware.inodes)
        ),
        imagefs=FileSystemStats(
            left(found.imagefs, hardware.imagefs_bytes), left(found.imagefs_inodes, hardware.imagefs_inodes)
        ),
        pids=left(found.processes, machine.max_pid),
    )


class Line(NamedTuple):
    """A threshold of eviction as the most that may be used without meeting it."""

    #: The place among the figures.
    figure: int
    most: int
    is_memory: bool


def lines(thresholds: Sequence[Threshold], hardware: Hardware, pods_limit: int) -> tuple[Line, ...]:
    """Of all thresholds; a signal that this machine does not have has none."""
    nothing = node_stats(Figures(*[0] * len(Figures._fields)), hardware, pods_limit, 0.0)
    capacities = nothing.observations(hardware.filesystems)
    places = _places(hardware.filesystems)
    return tuple(
        Line(
            Figures._fields.index(places[threshold.signal]),
            capacity.capacity - threshold.of(capacity).units,
            RESOURCE[threshold.signal] == MEMORY,
        )
        for threshold in with_containerfs(thresholds, hardware.filesystems).completed
        if (capacity := capacities.get(threshold.signal)) is not None
    )


def _places(filesystems: FileSystems) -> Mapping[Signal, str]:
    images = "nodefs" if filesystems is FileSystems.SHARED else "imagefs"
    layers = "imagefs" if filesystems is FileSystems.IMAGEFS else "nodefs"
    return {
        Signal.MEMORY: "working_set",
        Signal.ALLOCATABLE_MEMORY: "pods_working_set",
        Signal.NODEFS: "nodefs",
        Signal.NODEFS_INODES: "nodefs_inodes",
        Signal.IMAGEFS: images,
        Signal.IMAGEFS_INODES: f"{images}_inodes",
        Signal.CONTAINERFS: layers,
        Signal.CONTAINERFS_INODES: f"{layers}_inodes",
        Signal.PIDS: "processes",
    }
