"""What the pods of each namespace ask for and hold, kept as they come and go.

Pods are counted by what they request: a namespace of mixed pods is a few kinds of pods, and no cycle looks at pods.
A pod that was told to start is counted as if it had: nobody else may be given the same room meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import msgspec

from fairlead.api.meta import ObjectMeta
from fairlead.api.nodes import Node
from fairlead.api.podresources import pod_limits, pod_requests
from fairlead.api.quantity import Quantity, parse
from fairlead.api.scheduling import Pod
from fairlead.arbitrator.objects import GATE, GRANTED

#: What one pod requests, or is limited to, in whole numbers (cpu in milli), sorted by name.
Kind: TypeAlias = tuple[tuple[str, int], ...]
#: Pods are slots, not something to share.
_NOT_SHARED: Final = frozenset({"pods"})


@dataclass(slots=True)
class Account:
    """One namespace: how many pods of each kind there are to run, are on nodes, and are on their way out of there."""

    asked: dict[Kind, int] = field(default_factory=dict)
    held: dict[Kind, int] = field(default_factory=dict)
    leaving: dict[Kind, int] = field(default_factory=dict)

    def waiting(self) -> dict[Kind, int]:
        """How many have no node yet."""
        held = {kind: self.held.get(kind, 0) - self.leaving.get(kind, 0) for kind in self.asked}
        return {kind: count - held[kind] for kind, count in sorted(self.asked.items()) if count > held[kind]}


_EMPTY: Final = Account()


@dataclass(frozen=True, slots=True)
class _Entry:
    """How a pod is counted."""

    namespace: str
    kind: Kind
    generation: int
    is_held: bool
    is_leaving: bool
    node: str = ""


class Books:
    """All namespaces, and the capacity that is divided among them."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        #: What the open nodes offer, and what of it is held.
        self.capacity: dict[str, int] = {}
        self.occupied: dict[str, int] = {}
        #: Grows with every change.
        self.version = 0
        self._kind_of: Callable[[Pod], Kind] = requested
        self._pods: dict[str, _Entry] = {}  # by uid
        self._assumed: dict[str, str] = {}  # uid -> node, if that is known
        self._unheard_of: set[str] = set()  # uids of those assumed that no event has told of
        self._nodes: dict[str, Node] = {}
        self._offered: dict[str, dict[str, int]] = {}  # by the open nodes
        self._held_on: dict[str, dict[Kind, int]] = {}  # by node
        self._selector: Mapping[str, str] = {}

    # --- pods -------------------------------------------------------------------------------------------------------

    def pod_event(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went; one that has finished holds nothing."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old.metadata.uid)
        if new is not None:
            self._unheard_of.discard(new.metadata.uid)
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

    def count_by(self, kind_of: Callable[[Pod], Kind], pods: Iterable[Pod]) -> None:
        """Count what `requested` or `limited` says from now on; `pods` are those that there are."""
        if kind_of is self._kind_of:
            return
        self._kind_of = kind_of
        for pod in pods:
            known = self._pods.pop(pod.metadata.uid, None)
            if known is not None:
                self._count(known, -1)
            self.pod_event(None, pod)

    def account(self, namespace: str) -> Account:
        """That of the namespace; an empty one if it has no pods. It is not the caller's to change."""
        return self.accounts.get(namespace, _EMPTY)

    def kind(self, pod: Pod) -> Kind:
        """What the pod counts for."""
        known = self._pods.get(pod.metadata.uid)
        return self._kind_of(pod) if known is None else known.kind

    def is_held(self, pod: Pod) -> bool:
        """Whether the pod counts as started."""
        known = self._pods.get(pod.metadata.uid)
        return known is not None and known.is_held

    def assume(self, pod: Pod, node: str = "") -> None:
        """The pod is about to get a node: it is counted as if it were there."""
        uid = pod.metadata.uid
        if uid not in self._pods:
            self._unheard_of.add(uid)
        self._assumed[uid] = node
        self._note(pod)

    def release(self, uid: str) -> None:
        """Nothing came of it. A pod that only a scheduler has told of may be gone for long: nobody would tell."""
        if uid in self._unheard_of:
            self._forget(uid)
        entry = self._pods.get(uid)
        if self._assumed.pop(uid, None) is None or entry is None:
            return
        self._count(entry, -1)
        entry = self._pods[uid] = replace(entry, is_held=False, is_leaving=False, node="")
        self._count(entry, 1)
        self.version += 1

    def leave(self, uid: str) -> None:
        """The pod was evicted: it is on its way out, although nothing has been heard of that yet."""
        entry = self._pods.get(uid)
        if entry is not None and entry.is_held and not entry.is_leaving:
            self._count(entry, -1)
            entry = self._pods[uid] = replace(entry, is_leaving=True)
            self._count(entry, 1)
            self.version += 1

    def is_leaving(self, uid: str) -> bool:
        """Whether it is on its way out."""
        entry = self._pods.get(uid)
        return entry is not None and entry.is_leaving

    def _entry(self, pod: Pod) -> _Entry | None:
        """How to count the pod; None: not at all."""
        meta, assumed = pod.metadata, self._assumed.get(pod.metadata.uid)
        node = pod.spec.node_name or assumed or ""
        is_held = bool(pod.spec.node_name) or assumed is not None or was_let_go(pod)
        if pod.is_finished or (not is_held and (meta.is_terminating or is_held_back_by_others(pod))):
            return None
        known = self._pods.get(meta.uid)
        kind = known.kind if known is not None and known.generation == meta.generation else self._kind_of(pod)
        is_leaving = meta.is_terminating or (known is not None and known.is_leaving)
        return _Entry(meta.namespace, kind, meta.generation, is_held, is_leaving, node)

    def _forget(self, uid: str) -> None:
        self._assumed.pop(uid, None)
        self._unheard_of.discard(uid)
        entry = self._pods.pop(uid, None)
        if entry is not None:
            self._count(entry, -1)
            self.version += 1

    def _count(self, entry: _Entry, sign: int) -> None:
        account = self.accounts.setdefault(entry.namespace, Account())
        if not entry.is_leaving:
            _add(account.asked, entry.kind, sign)
        if entry.is_held:
            _add(account.held, entry.kind, sign)
            if entry.is_leaving:
                _add(account.leaving, entry.kind, sign)
            _add(self._held_on.setdefault(entry.node, {}), entry.kind, sign)
            if not entry.node or entry.node in self._offered:
                self._occupy(dict(entry.kind), sign)

    def _occupy(self, amounts: Mapping[str, int], sign: int) -> None:
        for name, amount in amounts.items():
            self.occupied[name] = self.occupied.get(name, 0) + sign * amount

    # --- nodes ------------------------------------------------------------------------------------------------------

    def node_event(self, old: Node | None, new: Node | None) -> None:
        """A node came, changed or went."""
        either = new or old
        assert either is not None
        name = either.metadata.name
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
        """Only nodes that take pods count."""
        node, known = self._nodes.get(name), self._offered.get(name, {})
        is_open = node is not None and node.is_open and self._selector.items() <= node.metadata.labels.items()
        offered = _allocatable(node) if node is not None and is_open else {}
        if offered == known:
            return
        for amounts, sign in ((known, -1), (offered, 1)):
            for resource, amount in amounts.items():
                self.capacity[resource] = self.capacity.get(resource, 0) + sign * amount
        if bool(offered) is not bool(known):
            self._occupy(total(self._held_on.get(name, {})), 1 if offered else -1)
        if offered:
            self._offered[name] = offered
        else:
            del self._offered[name]
        self.version += 1


def requested(pod: Pod) -> Kind:
    """What the pod requests; a pod without requests asks for nothing (S2-31)."""
    return _kind(pod_requests(msgspec.to_builtins(pod.spec)))


def limited(pod: Pod) -> Kind:
    """What the pod is limited to; a resource without a limit is not counted."""
    return _kind(pod_limits(msgspec.to_builtins(pod.spec)))


def _kind(amounts: Mapping[str, Quantity]) -> Kind:
    counted = ((name, amount.milli if name == "cpu" else amount.units) for name, amount in amounts.items())
    return tuple(sorted((name, amount) for name, amount in counted if amount > 0 and name not in _NOT_SHARED))


def total(counts: Mapping[Kind, int]) -> dict[str, int]:
    """What so many pods of each kind request together."""
    amounts: dict[str, int] = {}
    for kind, count in counts.items():
        for name, amount in kind:
            amounts[name] = amounts.get(name, 0) + count * amount
    return amounts


def in_line(pod: Pod) -> tuple[int, str, str]:
    """For sorting pods that wait: the most important first, then the oldest."""
    return -pod.priority, pod.metadata.creation_timestamp, pod.metadata.key


def is_gated(pod: Pod) -> bool:
    """Whether the pod waits for the arbitrator to lift its gate."""
    return any(gate.name == GATE for gate in pod.spec.scheduling_gates or ())


def is_waiting(pod: Pod) -> bool:
    """Whether it has no node and may get one."""
    return not (pod.spec.node_name or pod.is_finished or pod.metadata.is_terminating)


def was_let_go(pod: Pod) -> bool:
    """Whether the arbitrator has lifted its gate: what it needs is its own, although it has no node yet."""
    return _is_granted(pod.metadata) and not is_gated(pod)


def _is_granted(meta: ObjectMeta) -> bool:
    return GRANTED in meta.annotations


def is_held_back_by_others(pod: Pod) -> bool:
    """Whether somebody else has a gate before it: then it wants nothing yet."""
    return any(gate.name != GATE for gate in pod.spec.scheduling_gates or ())


def _add(counts: dict[Kind, int], kind: Kind, sign: int) -> None:
    left = counts.get(kind, 0) + sign
    if left:
        counts[kind] = left
    else:
        counts.pop(kind, None)


def _allocatable(node: Node) -> dict[str, int]:
    return {
        name: parse(text).milli if name == "cpu" else parse(text).units
        for name, text in node.status.allocatable.items()
        if name not in _NOT_SHARED
    }
