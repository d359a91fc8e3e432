"""What is watched: the signals of a node, and what each says about resources and conditions (S3-45, S3-60).

Which file systems there are decides which figures count for images (imagefs) and for container layers (containerfs).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from fairlead.api.quantity import Format, Quantity

MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
INODES: Final = "inodes"
PIDS: Final = "pids"

MEMORY_PRESSURE: Final = "MemoryPressure"
DISK_PRESSURE: Final = "DiskPressure"
PID_PRESSURE: Final = "PIDPressure"


class Signal(StrEnum):
    MEMORY = "memory.available"
    ALLOCATABLE_MEMORY = "allocatableMemory.available"
    NODEFS = "nodefs.available"
    NODEFS_INODES = "nodefs.inodesFree"
    IMAGEFS = "imagefs.available"
    IMAGEFS_INODES = "imagefs.inodesFree"
    CONTAINERFS = "containerfs.available"
    CONTAINERFS_INODES = "containerfs.inodesFree"
    PIDS = "pid.available"


#: The resource that is short when a signal is low.
RESOURCE: Final[Mapping[Signal, str]] = {
    Signal.MEMORY: MEMORY,
    Signal.ALLOCATABLE_MEMORY: MEMORY,
    Signal.NODEFS: STORAGE,
    Signal.NODEFS_INODES: INODES,
    Signal.IMAGEFS: STORAGE,
    Signal.IMAGEFS_INODES: INODES,
    Signal.CONTAINERFS: STORAGE,
    Signal.CONTAINERFS_INODES: INODES,
    Signal.PIDS: PIDS,
}
#: The node's condition when a resource is short.
CONDITION: Final = {
    MEMORY: MEMORY_PRESSURE,
    STORAGE: DISK_PRESSURE,
    INODES: DISK_PRESSURE,
    PIDS: PID_PRESSURE,
}
_STYLE: Final = {
    MEMORY: Format.BINARY_SI,
    STORAGE: Format.BINARY_SI,
    INODES: Format.DECIMAL_SI,
    PIDS: Format.DECIMAL_SI,
}


class Observation(NamedTuple):
    """What is left of something: bytes, inodes or process IDs; and when that was measured, if it is known."""

    available: int
    capacity: int
    measured_at: float | None = None


Observations: TypeAlias = Mapping[Signal, Observation]


def amount(resource: str, value: int) -> Quantity:
    """A measured amount as it is shown: bytes in powers of two, the rest in powers of ten."""
    return Quantity.of_units(value, _STYLE[resource])


class FileSystems(StrEnum):
    """Where images and the writable layers of containers are."""

    #: Both on the node's file system.
    SHARED = "shared"
    #: Both on one of their own.
    IMAGEFS = "imagefs"
    #: Images on one of their own, layers on the node's.
    SPLIT = "split"


class FileSystemStats(NamedTuple):
    space: Observation | None = None
    inodes: Observation | None = None


_UNKNOWN: Final = FileSystemStats()


class NodeStats(msgspec.Struct, frozen=True):
    """What was measured on a node; what is None is not known."""

    memory: Observation | None = None
    #: Of the cgroup of all pods.
    allocatable_memory: Observation | None = None
    nodefs: FileSystemStats = _UNKNOWN
    #: Only where images have a file system of their own.
    imagefs: FileSystemStats = _UNKNOWN
    pids: Observation | None = None

    def observations(self, filesystems: FileSystems) -> dict[Signal, Observation]:
        """The figures by signal, without those that are not known."""
        imagefs = self.nodefs if filesystems is FileSystems.SHARED else self.imagefs
        containerfs = self.imagefs if filesystems is FileSystems.IMAGEFS else self.nodefs
        found = {
            Signal.MEMORY: self.memory,
            Signal.ALLOCATABLE_MEMORY: self.allocatable_memory,
            Signal.NODEFS: self.nodefs.space,
            Signal.NODEFS_INODES: self.nodefs.inodes,
            Signal.IMAGEFS: imagefs.space,
            Signal.IMAGEFS_INODES: imagefs.inodes,
            Signal.CONTAINERFS: containerfs.space,
            Signal.CONTAINERFS_INODES: containerfs.inodes,
            Signal.PIDS: self.pids,
        }
        return {signal: observation for signal, observation in found.items() if observation is not None}
