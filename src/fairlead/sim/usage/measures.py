"""What can be measured of a container, of a volume and of a node outside its pods: names, units, what is too much."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from fairlead.api.quantity import parse
from fairlead.sim.nodes import MOST_CPU, MOST_MEMORY

#: In front of a volume's name: `volume.data` is what the pod keeps in its volume `data`.
VOLUME: Final = "volume."


class Unit(StrEnum):
    """The base units of amounts."""

    CORES = "cores"
    BYTES = "bytes"
    INODES = "inodes"
    PROCESSES = "processes"


#: More than any node has; for processes, the most that a Linux kernel can number.
MOST: Final = {Unit.CORES: MOST_CPU, Unit.BYTES: MOST_MEMORY, Unit.INODES: "1T", Unit.PROCESSES: "4194304"}
MOST_AMOUNT: Final = {unit: parse(text).nanos / 10**9 for unit, text in MOST.items()}


class Measure(StrEnum):
    """What a container uses."""

    CPU = "cpu"
    #: Anonymous memory of the container's first process.
    MEMORY = "memory"
    #: Anonymous memory of its other processes: the kernel may kill them and leave the first.
    CHILD_MEMORY = "child-memory"
    #: Page cache that is used again and again, which counts into the working set.
    ACTIVE_FILE = "active-file"
    #: Page cache that the kernel drops when memory is short.
    INACTIVE_FILE = "inactive-file"
    #: The writable layer.
    ROOTFS = "rootfs"
    LOGS = "logs"
    INODES = "inodes"
    PIDS = "pids"

    @property
    def unit(self) -> Unit:
        return _UNITS.get(self.value, Unit.BYTES)


class NodeMeasure(StrEnum):
    """What a node uses outside its pods."""

    CPU = "cpu"
    MEMORY = "memory"
    ACTIVE_FILE = "active-file"
    INACTIVE_FILE = "inactive-file"
    PIDS = "pids"
    NODEFS = "nodefs"
    NODEFS_INODES = "nodefs-inodes"
    IMAGEFS = "imagefs"
    IMAGEFS_INODES = "imagefs-inodes"
    #: Images that no container uses: what the kubelet may delete when the disk is full.
    UNUSED_IMAGES = "unused-images"

    @property
    def unit(self) -> Unit:
        return _UNITS.get(self.value, Unit.BYTES)


_UNITS: Final = {
    "cpu": Unit.CORES,
    "inodes": Unit.INODES,
    "nodefs-inodes": Unit.INODES,
    "imagefs-inodes": Unit.INODES,
    "pids": Unit.PROCESSES,
}
