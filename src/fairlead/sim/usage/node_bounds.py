"""What a node could use outside its pods at most: a daemon of 100Gi on a machine of 16Gi is a slip of the pen."""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.node.eviction.signals import FileSystems
from fairlead.sim.machine.hardware import Hardware
from fairlead.sim.usage.measures import NodeMeasure


def node_bounds(hardware: Hardware) -> Mapping[NodeMeasure, int]:
    """In base units; what the machine says nothing of has no bound."""
    machine = hardware.machine
    nodefs, nodefs_inodes = machine.ephemeral_storage_bytes, hardware.inodes
    is_shared = hardware.filesystems is FileSystems.SHARED
    imagefs = nodefs if is_shared else hardware.imagefs_bytes
    memory = (NodeMeasure.MEMORY, NodeMeasure.ACTIVE_FILE, NodeMeasure.INACTIVE_FILE)
    found = {
        NodeMeasure.CPU: machine.cpus,
        **dict.fromkeys(memory, machine.memory_bytes),
        NodeMeasure.PIDS: machine.max_pid,
        NodeMeasure.NODEFS: nodefs,
        NodeMeasure.NODEFS_INODES: nodefs_inodes,
        NodeMeasure.IMAGEFS: imagefs,
        NodeMeasure.IMAGEFS_INODES: nodefs_inodes if is_shared else hardware.imagefs_inodes,
        NodeMeasure.UNUSED_IMAGES: imagefs,
    }
    return {measure: most for measure, most in found.items() if most}
