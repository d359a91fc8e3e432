"""The volumes of a pod as its kubelet would measure them: each on the file system that it really lies on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.node.eviction.candidates import DiskUsage
from fairlead.node.stats.measurements import FilesystemMeasurements, VolumeMeasurements
from fairlead.node.volume_media import Medium, medium_of
from fairlead.sim.machine.hardware import BYTES_PER_INODE

#: The capacity of a claim, by its key; None if nobody knows.
ClaimCapacity: TypeAlias = Callable[[str], int | None]


def volume_measurements(
    manifest: Obj,
    used: Mapping[str, DiskUsage],
    on_disk: Callable[[int, int | None], FilesystemMeasurements],
    memory_bytes: int,
    capacity_of: ClaimCapacity,
) -> Iterator[VolumeMeasurements]:
    """Of those that something is known of. `on_disk` shows a part of the node's disk."""
    for volume in manifest["spec"].get("volumes") or ():
        if (found := used.get(volume["name"])) is None:
            continue
        bytes_, claim = found.used or 0, _claim_name(volume, manifest["metadata"]["name"])
        match medium_of(volume):
            case Medium.DISK:
                filesystem = on_disk(bytes_, found.inodes)
            case Medium.MEMORY:
                size = (volume.get("emptyDir") or {}).get("sizeLimit")
                filesystem = _own(bytes_, min(parse(size).units, memory_bytes) if size else memory_bytes)
            case Medium.OWN:
                key = f"{manifest['metadata']['namespace']}/{claim}"
                filesystem = _own(bytes_, (capacity_of(key) if claim else None) or bytes_)
        yield VolumeMeasurements(volume["name"], filesystem, claim)


def _own(used: int, capacity: int) -> FilesystemMeasurements:
    """No more is on it than there is room for."""
    used, inodes = min(used, capacity), capacity // BYTES_PER_INODE
    return FilesystemMeasurements(capacity, capacity - used, used, inodes, max(inodes - 1, 0), min(inodes, 1))


def _claim_name(volume: Obj, pod_name: str) -> str:
    if volume.get("ephemeral") is not None:
        return f"{pod_name}-{volume['name']}"
    name: str = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
    return name
