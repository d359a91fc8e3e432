"""The node's own check of a pod that it is given: does it fit, whatever the scheduler thought? (S0-54, S0-55)

A pod may come past the scheduler (`spec.nodeName` set by hand), or two schedulers may have filled the node at once.
Source: pkg/kubelet/lifecycle/predicate.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairlead.api.objects import Obj
from fairlead.api.quantity import milli, units


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node does not take a pod: what goes into its status."""

    reason: str
    message: str

    def status(self) -> Obj:
        return {"phase": "Failed", "reason": self.reason, "message": f"Pod was rejected: {self.message}"}


@dataclass(slots=True)
class Ledger:
    """What a node has and what its pods hold, in integer amounts (cpu in milli-cores, the rest in units)."""

    allocatable: dict[str, int]
    held: dict[str, dict[str, int]] = field(default_factory=dict)  # by pod uid
    _used: dict[str, int] = field(default_factory=dict)  # what they hold together

    def admit(self, uid: str, wants: Mapping[str, int]) -> Refusal | None:
        """Enter the pod, or say why not. A pod that is entered already stays."""
        if uid in self.held:
            return None
        if len(self.held) + 1 > self.allocatable.get("pods", 0):
            return _refusal("pods", 1, len(self.held), self.allocatable.get("pods", 0))
        for name in sorted(wants):
            wanted = wants[name]
            if not wanted:
                continue
            used = self._used.get(name, 0)
            capacity = self.allocatable.get(name, 0)
            if used + wanted > capacity:
                return _refusal(name, wanted, used, capacity)
        self.hold(uid, wants)
        return None

    def hold(self, uid: str, wants: Mapping[str, int]) -> None:
        """Enter a pod that runs here already, fit or not."""
        self.release(uid)
        self.held[uid] = dict(wants)
        for name, amount in wants.items():
            self._used[name] = self._used.get(name, 0) + amount

    def release(self, uid: str) -> None:
        for name, amount in self.held.pop(uid, {}).items():
            self._used[name] -= amount


def amounts(quantities: Mapping[str, str]) -> dict[str, int]:
    """Quantities as integers: cpu in milli-cores, everything else in whole units, rounded up."""
    return {name: milli(text) if name == "cpu" else units(text) for name, text in quantities.items()}


def _refusal(name: str, requested: int, used: int, capacity: int) -> Refusal:
    return Refusal(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}",
    )
