"""Who has memory of which NUMA nodes, and how a kubelet keeps that in a file: `memory_manager_state`.

Source: pkg/kubelet/cm/memorymanager/state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from fairlead.node import checkpoint

STATE_FILE: Final = "memory_manager_state"


class Block(msgspec.Struct, frozen=True, rename="camel"):
    """So much memory of that type (`memory`, `hugepages-2Mi`), of these NUMA nodes together."""

    numa_affinity: tuple[int, ...]
    type: str
    size: int


#: By uid of the pod and name of the container.
Assigned: TypeAlias = Mapping[str, Mapping[str, tuple[Block, ...]]]


class Table(msgspec.Struct, rename="camel"):
    """Bytes of one type on one NUMA node."""

    total: int = 0
    system_reserved: int = 0
    allocatable: int = 0
    reserved: int = 0
    free: int = 0


class NodeMemory(msgspec.Struct, rename="camel"):
    number_of_assignments: int
    #: By type.
    memory_map: dict[str, Table]
    #: The NUMA nodes with which it serves containers that need several.
    cells: tuple[int, ...]


#: What is left of NUMA nodes where nothing is set aside, and who has what.
NOTHING: Final[tuple[Mapping[int, NodeMemory], Assigned]] = ({}, {})


class _Kept(msgspec.Struct, rename="camel"):
    policy_name: str = ""
    machine_state: dict[int, NodeMemory] = msgspec.field(default_factory=dict)
    entries: dict[str, dict[str, tuple[Block, ...]]] = msgspec.field(default_factory=dict)
    checksum: int = 0


def encoded(policy: str, nodes: Mapping[int, NodeMemory], assigned: Assigned) -> bytes:
    return checkpoint.encoded(_Kept(policy, dict(nodes), {uid: dict(of) for uid, of in assigned.items()}), _printed)


def decoded(policy: str, text: bytes) -> tuple[Mapping[int, NodeMemory], Assigned]:
    """ValueError, in a kubelet's words, for what it would not go on with."""
    kept = checkpoint.decoded(text, _Kept, _printed, policy, "[memorymanager] ")
    return kept.machine_state, kept.entries


def _printed(kept: _Kept) -> str:
    nodes = " ".join(f"{node}:{_node(memory)}" for node, memory in sorted(kept.machine_state.items()))
    pods = " ".join(f"{uid}:{_containers(of)}" for uid, of in sorted(kept.entries.items()))
    return (
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){kept.policy_name} "
        f"MachineState:(state.NUMANodeMap)map[{nodes}] "
        f"Entries:(state.ContainerMemoryAssignments)map[{pods}] Checksum:(checksum.Checksum)0}}"
    )


def _node(memory: NodeMemory) -> str:
    tables = " ".join(f"{type_}:{_table(table)}" for type_, table in sorted(memory.memory_map.items()))
    return (
        f"<*>{{NumberOfAssignments:(int){memory.number_of_assignments} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable)map[{tables}] Cells:([]int){_list(memory.cells)}}}"
    )


def _table(table: Table) -> str:
    return (
        f"<*>{{TotalMemSize:(uint64){table.total} SystemReserved:(uint64){table.system_reserved} "
        f"Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} Free:(uint64){table.free}}}"
    )


def _containers(containers: Mapping[str, tuple[Block, ...]]) -> str:
    return f"map[{' '.join(f'{name}:[{_blocks(blocks)}]' for name, blocks in sorted(containers.items()))}]"


def _blocks(blocks: tuple[Block, ...]) -> str:
    return " ".join(
        f"{{NUMAAffinity:([]int){_list(block.numa_affinity)} Type:(v1.ResourceName){block.type} "
        f"Size:(uint64){block.size}}}"
        for block in blocks
    )


def _list(numbers: tuple[int, ...]) -> str:
    return f"[{' '.join(map(str, numbers))}]"
