"""The policy `Static`: memory of Guaranteed pods is set aside on as few NUMA nodes as could have it.

A NUMA node serves containers that need no other, or, with others, those that need all of these; never both. What an
init container had is used again by those that come after it; a sidecar keeps its own. The state is who has what: what
is left of each NUMA node follows from it.
Source: pkg/kubelet/cm/memorymanager (policy_static.go, memory_manager.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import combinations
from typing import Final, TypeAlias

import msgspec

from fairlead.api.podresources import Amounts, is_hugepages
from fairlead.api.quantity import ZERO, parse
from fairlead.golang.quoting import go_quote
from fairlead.node.configuration.settings import KubeletConfiguration
from fairlead.node.exclusive_requests import MEMORY, Bytes
from fairlead.node.numa_hints import Hint
from fairlead.node.numa_memory.state import Assigned, Block, NodeMemory, Table

STATIC: Final = "Static"
NO_POLICY: Final = "None"


#: What is left of each NUMA node.
Nodes: TypeAlias = Mapping[int, NodeMemory]
#: What containers have left that have ended when the next begins, by the NUMA nodes of which just that is.
Reusable: TypeAlias = Mapping[tuple[int, ...], Bytes]


class NoMemory(Exception):
    """A container cannot have its memory as the policy wants it."""


class StaticMemory(msgspec.Struct, frozen=True):
    #: By NUMA node and type: what there is, huge pages apart, and what is kept from pods.
    total: Mapping[int, Bytes]
    reserved: Mapping[int, Bytes]

    def nodes(self, assigned: Assigned) -> dict[int, NodeMemory]:
        """What is left of each NUMA node; ValueError for what this machine does not have."""
        found = {node: NodeMemory(0, self._tables(node), (node,)) for node in sorted(self.total)}
        for uid, containers in assigned.items():
            for name, blocks in containers.items():
                for block in blocks:
                    take(found, block, f"[memorymanager] (pod: {uid}, container: {name})")
        return found

    def _tables(self, node: int) -> dict[str, Table]:
        pages = sum(size for type_, size in self.total[node].items() if type_ != MEMORY)
        tables = {}
        for type_, size in self.total[node].items():
            kept = self.reserved.get(node, {}).get(type_, 0)
            left = size - kept - (pages if type_ == MEMORY else 0)
            tables[type_] = Table(size, kept, left, 0, left)
        return tables

    def started(self, kept: Mapping[int, NodeMemory], assigned: Assigned) -> Assigned:
        """With what was kept before the agent was started again; ValueError if that does not fit the machine."""
        if not kept and assigned:
            raise ValueError("[memorymanager] machine state can not be empty when it has memory assignments")
        if kept and not _is_same(kept, self.nodes(assigned)):
            raise ValueError("[memorymanager] the expected machine state is different from the real one")
        return assigned

    def there(self, wanted: Bytes) -> Bytes:
        """Without nothing of a type that this machine does not have, which may be asked for."""
        return {type_: size for type_, size in wanted.items() if size or any(type_ in of for of in self.total.values())}

    def chosen(self, nodes: Nodes, wanted: Bytes, reusable: Reusable, hint: Hint) -> tuple[int, ...]:
        """From which NUMA nodes a container has its memory, by what the others would have best; NoMemory."""
        possible, best = self.possible(nodes, wanted, reusable), hint
        if hint.nodes is None:
            if not possible:
                none = "no NUMA nodes with enough memory is available"
                raise NoMemory(f"[memorymanager] failed to get the default NUMA affinity, {none}")
            best = _preferred(hint, possible, "failed to find the default preferred hint")
        if any(_free(nodes, best.nodes or (), type_) < size for type_, size in wanted.items()):
            wider = [each for each in possible if (best.nodes or frozenset()) <= (each.nodes or frozenset())]
            if not wider:
                raise NoMemory("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
            best = _preferred(best, wider, "failed to find the extended preferred hint")
        chosen = tuple(sorted(best.nodes or ()))
        if len(chosen) > 1 and any(_is_taken_otherwise(nodes[node], chosen) for node in chosen):
            raise NoMemory("[memorymanager] preferred hint violates NUMA node allocation")
        return chosen

    def possible(self, nodes: Nodes, wanted: Bytes, reusable: Reusable) -> list[Hint]:
        """Sets of NUMA nodes that have enough; those of the fewest that could ever are preferred."""
        found, fewest = list[frozenset[int]](), len(self.total)
        for size in range(1, len(nodes) + 1):
            for chosen in combinations(nodes, size):
                if any(_allocatable(nodes, chosen, type_) < bytes_ for type_, bytes_ in wanted.items()):
                    continue
                fewest = min(fewest, size)
                if size == 1 and len(nodes[chosen[0]].cells) > 1:
                    continue
                if size > 1 and any(_is_taken_otherwise(nodes[node], chosen) for node in chosen):
                    continue
                more = reusable.get(tuple(sorted(chosen)), {})
                if all(_free(nodes, chosen, name) + more.get(name, 0) >= each for name, each in wanted.items()):
                    found.append(frozenset(chosen))
        return [Hint(each, len(each) == fewest) for each in found]


def memory_policy(
    config: KubeletConfiguration, total: Mapping[int, Bytes], reservation: Amounts
) -> StaticMemory | None:
    """That of a node; None: nothing is set aside. `reservation` is what the node keeps from pods; ValueError for what a
    kubelet does not start with."""
    if config.memory_manager_policy == NO_POLICY:
        return None
    if config.memory_manager_policy != STATIC:
        raise ValueError(f"unknown policy: {go_quote(config.memory_manager_policy)}")
    reserved: dict[int, dict[str, int]] = {}
    sums = dict.fromkeys((name for name in reservation if name == MEMORY or is_hugepages(name)), ZERO)
    for entry in config.reserved_memory:
        if (node := entry.get("numaNode", 0)) not in total:
            missing = f"NUMA node {node} that does not exist on this machine"
            raise ValueError(f"the reserved memory configuration references a {missing}")
        for name, text in (entry.get("limits") or {}).items():
            amount = parse(str(text))
            sums[name] = sums.get(name, ZERO) + amount
            of_node = reserved.setdefault(node, {})
            of_node[name] = of_node.get(name, 0) + amount.units
    for name, amount in sorted(sums.items()):
        if amount != (whole := reservation.get(name, ZERO)):
            told = f"the total amount {go_quote(str(amount))} of type {go_quote(name)} is not equal to the value"
            raise ValueError(f"{told} {go_quote(str(whole))} determined by Node Allocatable feature")
    if not any(of_node.get(MEMORY) for of_node in reserved.values()):
        raise ValueError("[memorymanager] you should specify the system reserved memory")
    return StaticMemory(total, reserved)


def numa_nodes_of(assigned: Assigned, uid: str, container: str) -> list[int]:
    """From which the container has its memory; none: from all."""
    blocks = assigned.get(uid, {}).get(container, ())
    return sorted({node for block in blocks for node in block.numa_affinity})


def take(nodes: Nodes, block: Block, whose: str) -> None:
    """It is set aside. ValueError for what this machine does not have."""
    left = block.size
    for node in block.numa_affinity:
        if node not in nodes:
            raise ValueError(f"{whose} the memory assignment uses the NUMA that does not exist")
        memory = nodes[node]
        if (table := memory.memory_map.get(block.type)) is None:
            raise ValueError(f"{whose} the memory assignment uses memory resource that does not exist")
        memory.number_of_assignments += 1
        memory.cells = block.numa_affinity
        taken = min(table.free, left)
        table.free, table.reserved, left = table.free - taken, table.reserved + taken, left - taken


def _is_same(kept: Mapping[int, NodeMemory], expected: Mapping[int, NodeMemory]) -> bool:
    """What is free counts for NUMA nodes that serve together."""
    if kept.keys() != expected.keys():
        return False
    for node, memory in expected.items():
        before, cells = kept[node], sorted(memory.cells)
        if (before.number_of_assignments, sorted(before.cells)) != (memory.number_of_assignments, cells):
            return False
        if before.memory_map.keys() != memory.memory_map.keys():
            return False
        for type_, table in memory.memory_map.items():
            known = before.memory_map[type_]
            fixed = (known.total, known.system_reserved, known.allocatable)
            if fixed != (table.total, table.system_reserved, table.allocatable):
                return False
            if _free(kept, cells, type_) != _free(expected, cells, type_):
                return False
    return True


def _of(tables: Mapping[str, Table], type_: str) -> Table:
    return tables.get(type_) or Table()


def _free(nodes: Nodes, chosen: Iterable[int], type_: str) -> int:
    return sum(_of(nodes[node].memory_map, type_).free for node in chosen)


def _allocatable(nodes: Nodes, chosen: Iterable[int], type_: str) -> int:
    return sum(_of(nodes[node].memory_map, type_).allocatable for node in chosen)


def _is_taken_otherwise(memory: NodeMemory, chosen: Sequence[int]) -> bool:
    """It serves already, alone or with other ones."""
    return memory.number_of_assignments > 0 and sorted(memory.cells) != sorted(chosen)


def _preferred(current: Hint, hints: Sequence[Hint], problem: str) -> Hint:
    best = min(hints, key=lambda hint: (not hint.is_preferred, *_width(hint.nodes or frozenset())))
    if current.is_preferred and not best.is_preferred:
        raise NoMemory(f"[memorymanager] {problem}")
    return best


def _width(nodes: Set[int]) -> tuple[int, int]:
    return len(nodes), sum(1 << node for node in nodes)
