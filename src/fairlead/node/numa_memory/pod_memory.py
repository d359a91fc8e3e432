"""The memory that is set aside for the containers of one pod, one container after the other.

Source: pkg/kubelet/cm/memorymanager/policy_static.go.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from functools import cached_property

import msgspec

from fairlead.api.objects import Obj
from fairlead.node.exclusive_requests import Bytes, ExclusiveRequests
from fairlead.node.numa_hints import Hint, Hints
from fairlead.node.numa_memory.policy import StaticMemory, take
from fairlead.node.numa_memory.state import Assigned, Block, NodeMemory


class PodMemory:
    """`assigned`: who has what before. Containers are asked about, and given theirs, in their order in the pod."""

    def __init__(self, policy: StaticMemory, assigned: Assigned, pod: ExclusiveRequests) -> None:
        self._policy, self._before, self._pod = policy, assigned, pod
        self._own = dict(assigned.get(pod.uid, {}))
        #: Of containers that have ended when the next begins: how much, by NUMA nodes and type, and which blocks of
        #: which containers.
        self._reusable = defaultdict[tuple[int, ...], dict[str, int]](dict)
        self._left = defaultdict[tuple[tuple[int, ...], str], deque[tuple[str, int]]](deque)

    @cached_property
    def _nodes(self) -> dict[int, NodeMemory]:
        return self._policy.nodes(self._before)

    @property
    def assigned(self) -> Assigned:
        """Who has what now."""
        if self._own == self._before.get(self._pod.uid, {}):
            return self._before
        return {**self._before, self._pod.uid: self._own}

    def of_container(self, container: Obj) -> Hints:
        """Which NUMA nodes would do for it."""
        wanted, held = self._wanted(container), self._own.get(container["name"])
        if not wanted:
            return {}
        if held is not None:
            return _again(held, wanted)
        return _for_each(wanted, self._policy.possible(self._nodes, wanted, self._reusable))

    def of_pod(self) -> Hints:
        """Which would do for all of its containers together."""
        wanted = self._policy.there(self._pod.memory_at_once)
        if not wanted:
            return {}
        if first := next((self._own[name] for name in self._pod.names if name in self._own), None):
            return _again(first, wanted)
        return _for_each(wanted, self._policy.possible(self._nodes, wanted, {}))

    def take(self, container: Obj, hint: Hint) -> None:
        """The container gets what is set aside for it, if anything is. NoMemory."""
        name = container["name"]
        wanted = self._wanted(container)
        if wanted and name not in self._own:
            chosen = self._policy.chosen(self._nodes, wanted, self._reusable, hint)
            blocks = tuple(Block(chosen, type_, size) for type_, size in wanted.items())
            for block in blocks:
                more = msgspec.structs.replace(block, size=block.size - self._used_again(block))
                take(self._nodes, more, f"[memorymanager] (pod: {self._pod.uid}, container: {name})")
            self._own[name] = blocks
        if name in self._pod.ending:
            self._leave(name)

    def _wanted(self, container: Obj) -> Bytes:
        return self._policy.there(self._pod.memory.get(container["name"], {}))

    def _leave(self, name: str) -> None:
        """What it has is used again by those that come after it."""
        for index, block in enumerate(self._own.get(name, ())):
            of_nodes = self._reusable[block.numa_affinity]
            of_nodes[block.type] = of_nodes.get(block.type, 0) + block.size
            self._left[block.numa_affinity, block.type].append((name, index))

    def _used_again(self, new: Block) -> int:
        """How much of it those have had that have ended, which have that no more."""
        left, wanting = self._left[new.numa_affinity, new.type], new.size
        while left and wanting:
            name, index = left[0]
            blocks = list(self._own[name])
            used = min(blocks[index].size, wanting)
            wanting -= used
            blocks[index] = msgspec.structs.replace(blocks[index], size=blocks[index].size - used)
            self._own[name] = tuple(blocks)
            if not blocks[index].size:
                left.popleft()
        used_again = new.size - wanting
        of_nodes = self._reusable[new.numa_affinity]
        of_nodes[new.type] = of_nodes.get(new.type, 0) - used_again
        return used_again


def _again(held: Sequence[Block], wanted: Bytes) -> Hints:
    """Where it has its memory already; it does not matter where if that is another amount."""
    if {block.type: block.size for block in held} != wanted:
        return {}
    return {block.type: (Hint(frozenset(block.numa_affinity), True),) for block in held}


def _for_each(wanted: Bytes, hints: Sequence[Hint]) -> Hints:
    """As with a kubelet it does not matter where if it is nowhere: it is refused when it is to have it."""
    return dict.fromkeys(wanted, hints) if hints else {}
