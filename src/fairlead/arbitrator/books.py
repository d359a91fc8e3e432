"""What the pods of each namespace ask for and hold, kept as they come and go.

Pods are counted by what they request: a namespace of mixed pods is a few kinds of pods, and no cycle looks at pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.podresources import pod_requests
from fairlead.api.quantity import parse
from fairlead.api.scheduling import Pod
from fairlead.arbitrator.objects import Node

#: What one pod requests, in whole numbers (cpu in milli), sorted by name.
Kind: TypeAlias = tuple[tuple[str, int], ...]
#: Pods are slots, not something to share.
_NOT_SHARED: Final = frozenset({"pods"})


@dataclass(slots=True)
class Account:
    """One namespace: how many pods of each kind there are, and how many of them are on nodes."""

    asked: dict[Kind, int] = field(default_factory=dict)
    held: dict[Kind, int] = field(default_factory=dict)

    def count(self, kind: Kind, is_held: bool, sign: int) -> None:
        for counts in (self.asked, self.held) if is_held else (self.asked,):
            left = counts.get(kind, 0) + sign
            if left:
                counts[kind] = left
            else:
                counts.pop(kind, None)


class Books:
    """All namespaces, and the capacity that is divided among them."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.capacity: dict[str, int] = {}
        #: Grows with every change.
        self.version = 0
        self._pods: dict[str, tuple[str, Kind, bool]] = {}  # uid -> namespace, kind, held
        self._nodes: dict[str, dict[str, int]] = {}

    def pod_event(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went; one that has finished holds nothing."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old.metadata.uid)
        if new is None:
            return
        if new.is_finished:
            self._forget(new.metadata.uid)
            return
        entry = (new.metadata.namespace, kind_of(new), bool(new.spec.node_name))
        if self._pods.get(new.metadata.uid) == entry:
            return
        self._forget(new.metadata.uid)
        self._pods[new.metadata.uid] = entry
        namespace, kind, is_held = entry
        self.accounts.setdefault(namespace, Account()).count(kind, is_held, 1)
        self.version += 1

    def _forget(self, uid: str) -> None:
        entry = self._pods.pop(uid, None)
        if entry is not None:
            namespace, kind, is_held = entry
            self.accounts[namespace].count(kind, is_held, -1)
            self.version += 1

    def node_event(self, old: Node | None, new: Node | None) -> None:
        """Only nodes that take pods count."""
        either = new or old
        assert either is not None
        offered = _offered(new) if new is not None and new.is_open else {}
        known = self._nodes.pop(either.metadata.name, {})
        if offered:
            self._nodes[either.metadata.name] = offered
        if offered != known:
            for amounts, sign in ((known, -1), (offered, 1)):
                for name, amount in amounts.items():
                    self.capacity[name] = self.capacity.get(name, 0) + sign * amount
            self.version += 1


def kind_of(pod: Pod) -> Kind:
    """What the pod requests; a pod without requests asks for nothing (S2-31)."""
    spec: Obj = msgspec.to_builtins(pod.spec)
    amounts = pod_requests(spec)
    counted = ((name, amount.milli if name == "cpu" else amount.units) for name, amount in amounts.items())
    return tuple(sorted((name, amount) for name, amount in counted if amount > 0 and name not in _NOT_SHARED))


def _offered(node: Node) -> dict[str, int]:
    return {
        name: parse(text).milli if name == "cpu" else parse(text).units
        for name, text in node.status.allocatable.items()
        if name not in _NOT_SHARED
    }


def total(counts: Mapping[Kind, int]) -> dict[str, int]:
    """What so many pods of each kind request together."""
    amounts: dict[str, int] = {}
    for kind, count in counts.items():
        for name, amount in kind:
            amounts[name] = amounts.get(name, 0) + count * amount
    return amounts
