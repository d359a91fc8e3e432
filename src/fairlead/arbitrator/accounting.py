"""What the pods of each namespace request and hold, kept up to date by pod and node events.

Pods are counted by request vector: a namespace has few different ones, so a cycle need not look at every pod. A pod
that was allowed to start counts as started at once, so that the same room is not given away twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from fairlead.api.meta import ObjectMeta
from fairlead.api.nodes import Node
from fairlead.api.podresources import pod_limits, pod_requests
from fairlead.api.quantity import Quantity, parse
from fairlead.api.scheduling import Pod
from fairlead.arbitrator.objects import GATE, GRANTED

T = TypeVar("T")

#: What one pod requests, or is limited to, in whole numbers (cpu in milli), sorted by name.
RequestVector: TypeAlias = tuple[tuple[str, int], ...]
#: Pods are slots, not something to share.
_NOT_SHARED: Final = frozenset({"pods"})
_ALWAYS_SHARED: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
#: So many other resources of a node are divided, the first by name: what is divided is worked out and shown for each
#: namespace, and a node may say that it has tens of thousands.
MOST_OTHERS: Final = 64


class VectorCounts(dict[RequestVector, int]):
    """How many pods there are of each request vector, and what they request together."""

    __slots__ = ("amounts",)

    def __init__(self) -> None:
        super().__init__()
        #: Kept up to date, for it is asked at each attempt of a pod: there may be thousands of vectors.
        self.amounts: dict[str, int] = {}

    def count(self, vector: RequestVector, sign: int) -> None:
        _add(self, vector, sign)
        for name, amount in vector:
            _add(self.amounts, name, sign * amount)


class NamespaceAccount(msgspec.Struct):
    """One namespace: how many pods there are, how many hold a node, and how many of those are leaving."""

    asked: VectorCounts = msgspec.field(default_factory=VectorCounts)
    held: VectorCounts = msgspec.field(default_factory=VectorCounts)
    leaving: VectorCounts = msgspec.field(default_factory=VectorCounts)

    def waiting(self) -> dict[RequestVector, int]:
        """How many pods of each vector have no node yet."""
        held = {vector: self.held.get(vector, 0) - self.leaving.get(vector, 0) for vector in self.asked}
        return {vector: count - held[vector] for vector, count in sorted(self.asked.items()) if count > held[vector]}


_EMPTY: Final = NamespaceAccount()


class _Entry(msgspec.Struct, frozen=True):
    """How a pod is counted."""

    namespace: str
    vector: RequestVector
    generation: int
    is_held: bool
    is_leaving: bool
    node: str = ""


class Accounting:
    """All namespaces, and the capacity that is divided among them."""

    def __init__(self) -> None:
        self._accounts: dict[str, NamespaceAccount] = {}
        #: What the open nodes offer, and what of it is held.
        self.capacity: dict[str, int] = {}
        self.occupied: dict[str, int] = {}
        #: Grows with every change.
        self.version = 0
        self._vector_of: Callable[[Pod], RequestVector] = requested
        self._pods: dict[str, _Entry] = {}  # by uid
        self._assumed: dict[str, str] = {}  # uid -> node, if that is known
        self._unseen: set[str] = set()  # uids of assumed pods that no event has shown yet
        self._nodes: dict[str, Node] = {}
        self._offered: dict[str, dict[str, int]] = {}  # by the open nodes
        self._held_on: dict[str, VectorCounts] = {}  # by node
        self._selector: Mapping[str, str] = {}

    # --- pods -------------------------------------------------------------------------------------------------------

    def pod_event(self, old: Pod | None, new: Pod | None) -> None:
        """Handler of pod events. A pod that has finished holds nothing."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old.metadata.uid)
        if new is not None:
            self._unseen.discard(new.metadata.uid)
            self._note(new)

    def _note(self, new: Pod) -> None:
        uid = new.metadata.uid
        if new.spec.node_name or new.is_finished:
            self._assumed.pop(uid, None)
        known, entry = self._pods.get(uid), self._entry(new)
        if entry == known:
            return
        if known is not None:
            self._count(known, -1)
            del self._pods[uid]
        if entry is not None:
            self._pods[uid] = entry
            self._count(entry, 1)
        self.version += 1

    def count_by(self, vector_of: Callable[[Pod], RequestVector], pods: Iterable[Pod]) -> None:
        """Count by `requested` or by `limited` from now on; `pods` are all existing pods."""
        if vector_of is self._vector_of:
            return
        self._vector_of = vector_of
        for pod in pods:
            known = self._pods.pop(pod.metadata.uid, None)
            if known is not None:
                self._count(known, -1)
            self.pod_event(None, pod)

    def account(self, namespace: str) -> NamespaceAccount:
        """The namespace's account, read-only; an empty one if it has no pods."""
        return self._accounts.get(namespace, _EMPTY)

    def vector(self, pod: Pod) -> RequestVector:
        """The request vector that the pod is counted by."""
        known = self._pods.get(pod.metadata.uid)
        return self._vector_of(pod) if known is None else known.vector

    def is_held(self, pod: Pod) -> bool:
        """Whether the pod counts as started."""
        known = self._pods.get(pod.metadata.uid)
        return known is not None and known.is_held

    def assume(self, pod: Pod, node: str = "") -> None:
        """Count the pod as started: it is about to get a node."""
        uid = pod.metadata.uid
        if uid not in self._pods:
            self._unseen.add(uid)
        self._assumed[uid] = node
        self._note(pod)

    def release(self, uid: str) -> None:
        """Take back `assume`. A pod that no event has shown yet is forgotten: it may be deleted already, unnoticed."""
        if uid in self._unseen:
            self._forget(uid)
        entry = self._pods.get(uid)
        if self._assumed.pop(uid, None) is None or entry is None:
            return
        self._count(entry, -1)
        entry = self._pods[uid] = replace(entry, is_held=False, is_leaving=False, node="")
        self._count(entry, 1)
        self.version += 1

    def leave(self, uid: str) -> None:
        """Count the pod as leaving: it was evicted, and the event is still to come."""
        entry = self._pods.get(uid)
        if entry is not None and entry.is_held and not entry.is_leaving:
            self._count(entry, -1)
            entry = self._pods[uid] = replace(entry, is_leaving=True)
            self._count(entry, 1)
            self.version += 1

    def is_leaving(self, uid: str) -> bool:
        """Whether the pod is terminating, or was evicted."""
        entry = self._pods.get(uid)
        return entry is not None and entry.is_leaving

    def _entry(self, pod: Pod) -> _Entry | None:
        """How to count the pod; None for a pod that counts for nothing."""
        meta, assumed = pod.metadata, self._assumed.get(pod.metadata.uid)
        node = pod.spec.node_name or assumed or ""
        is_held = bool(pod.spec.node_name) or assumed is not None or is_ungated(pod)
        if pod.is_finished or (not is_held and (meta.is_terminating or has_foreign_gate(pod))):
            return None
        known = self._pods.get(meta.uid)
        vector = known.vector if known is not None and known.generation == meta.generation else self._vector_of(pod)
        is_leaving = meta.is_terminating or (known is not None and known.is_leaving)
        return _Entry(meta.namespace, vector, meta.generation, is_held, is_leaving, node)

    def _forget(self, uid: str) -> None:
        self._assumed.pop(uid, None)
        self._unseen.discard(uid)
        entry = self._pods.pop(uid, None)
        if entry is not None:
            self._count(entry, -1)
            self.version += 1

    def _count(self, entry: _Entry, sign: int) -> None:
        account = self._accounts.setdefault(entry.namespace, NamespaceAccount())
        if not entry.is_leaving:
            account.asked.count(entry.vector, sign)
        if entry.is_held:
            account.held.count(entry.vector, sign)
            if entry.is_leaving:
                account.leaving.count(entry.vector, sign)
            held_on = self._held_on.setdefault(entry.node, VectorCounts())
            held_on.count(entry.vector, sign)
            if not held_on:
                del self._held_on[entry.node]
            if not entry.node or entry.node in self._offered:
                self._occupy(dict(entry.vector), sign)
        if not (account.asked or account.held):
            del self._accounts[entry.namespace]

    def _occupy(self, amounts: Mapping[str, int], sign: int) -> None:
        for name, amount in amounts.items():
            _add(self.occupied, name, sign * amount)

    # --- nodes ------------------------------------------------------------------------------------------------------

    def node_event(self, old: Node | None, new: Node | None) -> None:
        """Handler of node events."""
        node = new or old
        assert node is not None
        name = node.metadata.name
        if new is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = new
        self._offer(name)

    def select(self, labels: Mapping[str, str]) -> None:
        """Divide only the nodes that have these labels."""
        if labels != self._selector:
            self._selector = dict(labels)
            for name in self._nodes:
                self._offer(name)

    def _offer(self, name: str) -> None:
        """Update the capacity for this node; it counts only while it takes pods."""
        node, known = self._nodes.get(name), self._offered.get(name, {})
        is_open = node is not None and node.is_open and self._selector.items() <= node.metadata.labels.items()
        offered = _allocatable(node) if node is not None and is_open else {}
        if offered == known:
            return
        for amounts, sign in ((known, -1), (offered, 1)):
            for resource, amount in amounts.items():
                self.capacity[resource] = self.capacity.get(resource, 0) + sign * amount
        self._drop_unknown({resource for resource in known.keys() - offered.keys() if not self.capacity[resource]})
        if bool(offered) is not bool(known):
            held_on = self._held_on.get(name)
            self._occupy(held_on.amounts if held_on is not None else {}, 1 if offered else -1)
        if offered:
            self._offered[name] = offered
        else:
            del self._offered[name]
        self.version += 1

    def _drop_unknown(self, used_up: set[str]) -> None:
        """Of resources of which nothing is left, those that no node has any more, not even one that takes no pods."""
        for node in self._nodes.values():
            if not used_up:
                return
            used_up -= node.status.allocatable.keys()
        for resource in used_up:
            del self.capacity[resource]


def requested(pod: Pod) -> RequestVector:
    """What the pod requests; a pod without requests asks for nothing (S2-31)."""
    return _vector(pod_requests(msgspec.to_builtins(pod.spec)))


def limited(pod: Pod) -> RequestVector:
    """What the pod is limited to; a resource without a limit is not counted."""
    return _vector(pod_limits(msgspec.to_builtins(pod.spec)))


def _vector(amounts: Mapping[str, Quantity]) -> RequestVector:
    counted = ((name, amount.milli if name == "cpu" else amount.units) for name, amount in amounts.items())
    return tuple(sorted((name, amount) for name, amount in counted if amount > 0 and name not in _NOT_SHARED))


def queue_order(pod: Pod) -> tuple[int, str, str]:
    """Sort key of waiting pods: by priority, then the oldest first."""
    return -pod.priority, pod.metadata.creation_timestamp, pod.metadata.key


def is_gated(pod: Pod) -> bool:
    """Whether the pod waits for the arbitrator to lift its gate."""
    return any(gate.name == GATE for gate in pod.spec.scheduling_gates or ())


def is_waiting(pod: Pod) -> bool:
    """Whether it has no node and may get one."""
    return not (pod.spec.node_name or pod.is_finished or pod.metadata.is_terminating)


def is_ungated(pod: Pod) -> bool:
    """Whether the arbitrator has lifted its gate: the pod counts as started, although it has no node yet."""
    return _is_granted(pod.metadata) and not is_gated(pod)


def _is_granted(meta: ObjectMeta) -> bool:
    return GRANTED in meta.annotations


def has_foreign_gate(pod: Pod) -> bool:
    """Whether it has a scheduling gate of somebody else: then it does not count yet."""
    return any(gate.name != GATE for gate in pod.spec.scheduling_gates or ())


def _add(counts: dict[T, int], what: T, count: int) -> None:
    left = counts.get(what, 0) + count
    if left:
        counts[what] = left
    else:
        counts.pop(what, None)


def _allocatable(node: Node) -> dict[str, int]:
    offered = node.status.allocatable
    others = sorted(offered.keys() - _ALWAYS_SHARED - _NOT_SHARED)
    left_out = _NOT_SHARED.union(others[MOST_OTHERS:])
    return {
        name: parse(text).milli if name == "cpu" else parse(text).units
        for name, text in offered.items()
        if name not in left_out
    }
