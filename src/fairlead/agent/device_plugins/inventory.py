"""The devices of one resource, as its plugin lists them: compact, for there may be a hundred thousand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from fairlead.agent.device_plugins.messages import HEALTHY, Devices
from fairlead.agent.grpc import protobuf


class Inventory(NamedTuple):
    #: The NUMA nodes of each device, by its id, in the order of the plugin.
    nodes: Mapping[str, tuple[int, ...]]
    unhealthy: frozenset[str]

    @property
    def healthy_count(self) -> int:
        return len(self.nodes) - len(self.unhealthy)

    def is_healthy(self, device: str) -> bool:
        """One that nobody tells of is, as with a kubelet."""
        return device not in self.unhealthy

    def healthy_among(self, devices: Iterable[str]) -> int:
        """How many of these are."""
        return sum(device in self.nodes and device not in self.unhealthy for device in devices)

    def healthy_but(self, taken: Collection[str]) -> Iterator[str]:
        """All that are, without those that are taken."""
        return (device for device in self.nodes if device not in self.unhealthy and device not in taken)


EMPTY: Final = Inventory({}, frozenset())


def inventory_of(data: bytes) -> Inventory:
    """Of a list as it comes. Malformed."""
    listed = protobuf.decode(data, Devices).devices
    nodes = {
        each.id: tuple(node.id for node in each.topology.nodes) if each.topology is not None else () for each in listed
    }
    return Inventory(nodes, frozenset(each.id for each in listed if each.health != HEALTHY))
