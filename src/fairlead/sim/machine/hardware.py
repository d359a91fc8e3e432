"""What a simulated node is made of, read from the Node: its capacity, and annotations for what that does not say.

sim.fairlead.dev/imagefs: 200Gi              images and writable layers have a file system of their own, of that size
sim.fairlead.dev/containerfs: nodefs         of these two, only images have it
sim.fairlead.dev/inodes: "1000000"           of the node's file system; also imagefs-inodes
sim.fairlead.dev/max-pid: "32768"
sim.fairlead.dev/cpu-topology: sockets=2,threads=2     how its CPUs belong together, `numa` nodes and `caches` too
sim.fairlead.dev/cgroup-version: "1"
sim.fairlead.dev/least-oom-score-adj: "0"    what the machine refuses: a lower one is not to be had, as without
                                             CAP_SYS_RESOURCE
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.api.nodes import Node
from fairlead.api.quantity import QuantityError, milli, units
from fairlead.node.allocatable import EPHEMERAL_STORAGE, Machine
from fairlead.node.cpus.topology import Shape, parse_shape
from fairlead.node.eviction.signals import FileSystems
from fairlead.node.oom import EXEMPT, LEAST_PROTECTED
from fairlead.sim.behaviour import PREFIX

IMAGEFS: Final = PREFIX + "imagefs"
CONTAINERFS: Final = PREFIX + "containerfs"
INODES: Final = PREFIX + "inodes"
IMAGEFS_INODES: Final = PREFIX + "imagefs-inodes"
MAX_PID: Final = PREFIX + "max-pid"
CPU_TOPOLOGY: Final = PREFIX + "cpu-topology"
CGROUP_VERSION: Final = PREFIX + "cgroup-version"
LEAST_OOM_SCORE_ADJ: Final = PREFIX + "least-oom-score-adj"

#: The kernel's own default on 64 bits, and what ext4 makes of a disk: an inode for every 16 KiB.
DEFAULT_MAX_PID: Final = 4_194_304
BYTES_PER_INODE: Final = 16_384
_MOST: Final = 2**62


class Hardware(msgspec.Struct, frozen=True):
    """Bytes, inodes and process IDs."""

    machine: Machine
    filesystems: FileSystems = FileSystems.SHARED
    inodes: int = 0
    imagefs_bytes: int = 0
    imagefs_inodes: int = 0
    cgroup_version: int = 2
    least_oom_score_adj: int = EXEMPT


def hardware_of(node: Node) -> Hardware:
    """An annotation that makes no sense counts as not given."""
    annotations = node.metadata.annotations
    capacity = node.status.capacity or node.status.allocatable
    imagefs = _amount(annotations, IMAGEFS, 0)
    filesystems = FileSystems.SHARED
    if imagefs:
        filesystems = FileSystems.SPLIT if annotations.get(CONTAINERFS) == "nodefs" else FileSystems.IMAGEFS
    machine = machine_of(capacity, annotations)
    return Hardware(
        machine,
        filesystems,
        _amount(annotations, INODES, machine.ephemeral_storage_bytes // BYTES_PER_INODE),
        imagefs,
        _amount(annotations, IMAGEFS_INODES, imagefs // BYTES_PER_INODE),
        1 if annotations.get(CGROUP_VERSION) == "1" else 2,
        _least_oom_score_adj(annotations.get(LEAST_OOM_SCORE_ADJ, "")),
    )


def machine_of(capacity: Mapping[str, str], annotations: Mapping[str, str]) -> Machine:
    """A part of a CPU counts as one: machines have whole ones."""
    return Machine(
        cpus=-(-milli(capacity.get("cpu", "0")) // 1000),
        memory_bytes=_units(capacity, "memory"),
        ephemeral_storage_bytes=_units(capacity, EPHEMERAL_STORAGE),
        max_pid=_amount(annotations, MAX_PID, DEFAULT_MAX_PID),
        shape=_shape(annotations.get(CPU_TOPOLOGY, "")),
    )


def _shape(text: str) -> Shape:
    try:
        return parse_shape(text) if text else Shape()
    except ValueError:
        return Shape()


def _least_oom_score_adj(text: str) -> int:
    try:
        return min(max(int(text), EXEMPT), LEAST_PROTECTED)
    except ValueError:
        return EXEMPT


def _units(capacity: Mapping[str, str], name: str) -> int:
    return units(capacity.get(name, "0"))


def _amount(annotations: Mapping[str, str], name: str, otherwise: int) -> int:
    text = annotations.get(name)
    if not text:
        return otherwise
    try:
        amount = units(text)
    except QuantityError:
        return otherwise
    return amount if 0 < amount <= _MOST else otherwise
