"""What a node has and what its pods hold: the amounts behind the node's own check of a pod (S0-54, S0-55)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.api.devices import CLASS_RESOURCE_PREFIX
from fairlead.api.host_ports import HostPort
from fairlead.api.podresources import is_native
from fairlead.api.quantity import Quantity, milli, units

PODS: Final = "pods"
#: The order in which a node looks at what a pod wants; other resources come after, by name.
_ORDER: Final = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}


#: Finds in a message what a shortage said: resource, requested, used and capacity.
SHORTAGE: Final = re.compile(r"resource: (\S+), requested: (\d+), used: (\d+), capacity: (\d+)")


class Shortage(msgspec.Struct, frozen=True):
    """A resource of which a pod wants more than there is left."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        return self.requested - (self.capacity - self.used)

    def __str__(self) -> str:
        return (
            f"Node didn't have enough resource: {self.resource}, "
            f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        )


class NodeAllocation(msgspec.Struct):
    """What a node has and what its pods hold, in whole amounts (cpu in milli-cores, the rest in units)."""

    allocatable: dict[str, int]
    held: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)  # by pod uid
    _used: dict[str, int] = msgspec.field(default_factory=dict)  # what they hold together
    _ports: dict[str, Sequence[HostPort]] = msgspec.field(default_factory=dict)  # by uid, of pods that have any

    def shortages(self, requests: Mapping[str, int]) -> Iterator[Shortage]:
        """What there is too little of for one more pod; a node knows nothing of extended resources that it lacks."""
        count, limit = len(self.held), self.allocatable.get(PODS, 0)
        if count + 1 > limit:
            yield Shortage(PODS, 1, count, limit)
        for name in sorted(requests, key=lambda name: (_ORDER.get(name, len(_ORDER)), name)):
            requested, used = requests[name], self._used.get(name, 0)
            is_known = name in self.allocatable or (is_native(name) and not name.startswith(CLASS_RESOURCE_PREFIX))
            if requested <= 0 or not is_known:
                continue
            capacity = self.allocatable.get(name, 0)
            if requested > capacity - used:
                yield Shortage(name, requested, used, capacity)

    @property
    def taken_ports(self) -> list[HostPort]:
        return [port for ports in self._ports.values() for port in ports]

    def hold(self, uid: str, requests: Mapping[str, int], ports: Sequence[HostPort] = ()) -> None:
        """Enter a pod, fit or not."""
        self.release(uid)
        self.held[uid] = dict(requests)
        if ports:
            self._ports[uid] = ports
        for name, amount in requests.items():
            self._used[name] = self._used.get(name, 0) + amount

    def release(self, uid: str) -> None:
        self._ports.pop(uid, None)
        for name, amount in self.held.pop(uid, {}).items():
            self._used[name] -= amount


def whole_amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """Cpu in milli-cores, everything else in whole units, rounded up."""
    return {name: quantity.milli if name == "cpu" else quantity.units for name, quantity in quantities.items()}


def amounts(quantities: Mapping[str, str]) -> dict[str, int]:
    """The same of texts."""
    return {name: milli(text) if name == "cpu" else units(text) for name, text in quantities.items()}
