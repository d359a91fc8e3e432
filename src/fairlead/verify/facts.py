"""The nested machine as a simulated node: what a prediction has to know of the machine that it is about."""

from __future__ import annotations

from typing import Final

from fairlead.api.objects import Obj
from fairlead.sim.machine.hardware import (
    CGROUP_VERSION,
    CONTAINERFS,
    IMAGEFS,
    INODES,
    LEAST_OOM_SCORE_ADJ,
)
from fairlead.sim.nodes import ALLOCATABLE, COMPUTED, default_labels
from fairlead.sim.usage.resolving import PREFIX as USAGE
from fairlead.verify.nested import IMAGES_BYTES, Nested

NODE: Final = "verified"


#: What the keeper of a container (conmon) takes of the memory of the node, outside of pods.
KEEPER_BYTES: Final = 560 << 10


def node_of(machine: Nested, containers: int) -> Obj:
    """Images lie apart there, as they do in the nested machine: they fill nothing that a workload could."""
    disk = machine.disk
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": NODE,
            "labels": default_labels(NODE),
            "annotations": {
                ALLOCATABLE: COMPUTED,
                CGROUP_VERSION: str(machine.cgroup_version),
                LEAST_OOM_SCORE_ADJ: str(machine.least_oom_score_adj),
                IMAGEFS: str(IMAGES_BYTES),
                CONTAINERFS: "nodefs",
                INODES: str(disk.inodes),
                f"{USAGE}memory": str(KEEPER_BYTES * containers),
                f"{USAGE}nodefs": str(disk.used),
                f"{USAGE}nodefs-inodes": str(disk.inodes_used),
            },
        },
        "spec": {},
        "status": {
            "capacity": {
                "cpu": str(machine.size.cpus),
                "memory": str(machine.size.memory_bytes),
                "ephemeral-storage": str(disk.capacity),
                "pods": "110",
            }
        },
    }
