"""The pools of devices, as a node sees them.

Source: structured/internal/incubating/pools_incubating.go of k8s.io/dynamic-resource-allocation (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fairlead.api.devices import CounterSet, Device, DeviceId, PoolId, ResourceSlice
from fairlead.api.node_affinity import NodeSelector, matches_term
from fairlead.api.scheduling import Node
from fairlead.cel.errors import CelError


class Offered(msgspec.Struct, eq=False):
    """One slice, with what was found out about its devices."""

    slice: ResourceSlice
    #: By expression and the place of the device: whether it is meant, or why that cannot be said.
    matches: dict[str, dict[int, bool | CelError]] = msgspec.field(default_factory=dict)

    @property
    def devices(self) -> Sequence[Device]:
        return self.slice.spec.devices or ()


class Candidate(msgspec.Struct, frozen=True, eq=False):
    """A device that a node can reach."""

    id: DeviceId
    device: Device
    offered: Offered
    index: int
    pool: Pool


class Pool(msgspec.Struct, eq=False):
    """The newest generation of a pool."""

    id: PoolId
    slices: list[Offered]
    #: Not all of its slices are there: another look later may show more.
    is_incomplete: bool
    #: Two devices of one name, or counters that nobody has.
    is_invalid: bool
    counter_sets: Mapping[str, CounterSet]
    #: Some of its devices can be used only once somebody has prepared them.
    has_conditions: bool

    @classmethod
    def newest(cls, id_: PoolId, slices: Sequence[Offered]) -> Pool:
        """Of all slices of a pool. They are looked at in the order of their names, so that each run chooses alike."""
        generation = max(offered.slice.spec.pool.generation for offered in slices)
        current = [offered for offered in slices if offered.slice.spec.pool.generation == generation]
        current.sort(key=lambda offered: offered.slice.metadata.name)
        counters = {found.name: found for offered in current for found in offered.slice.spec.shared_counters or ()}
        is_incomplete = len(current) != current[0].slice.spec.pool.resource_slice_count
        has_conditions = any(device.binding_conditions for offered in current for device in offered.devices)
        return cls(id_, current, is_incomplete, _is_invalid(current, counters), counters, has_conditions)

    def __str__(self) -> str:
        return "/".join(self.id)

    @property
    def can_be_used(self) -> bool:
        return not self.is_incomplete and not self.is_invalid

    def devices(self) -> Iterator[tuple[DeviceId, Device]]:
        """All of them, wherever they can be reached."""
        for offered in self.slices:
            for device in offered.devices:
                yield (*self.id, device.name), device

    def candidates(self, node: Node) -> list[Candidate]:
        """The devices that the node can reach, in their order."""
        found = []
        for offered in self.slices:
            is_per_device = bool(offered.slice.spec.per_device_node_selection)
            if is_per_device or is_reached(offered.slice.spec, node):
                for index, device in enumerate(offered.devices):
                    if not is_per_device or is_reached(device, node):
                        found.append(Candidate((*self.id, device.name), device, offered, index, self))
        return found


def _is_invalid(slices: Sequence[Offered], counters: Mapping[str, CounterSet]) -> bool:
    names = [device.name for offered in slices for device in offered.devices]
    consumed = (found for offered in slices for device in offered.devices for found in device.consumes_counters or ())
    return len(set(names)) < len(names) or any(
        found.counter_set not in counters or not found.counters.keys() <= counters[found.counter_set].counters.keys()
        for found in consumed
    )


def is_reached(place: Any, node: Node) -> bool:
    """Whether a slice, or a device, is for that node."""
    if place.node_name:
        return bool(place.node_name == node.metadata.name)
    if place.all_nodes:
        return True
    return place.node_selector is not None and selects(place.node_selector, node)


def selects(selector: NodeSelector, node: Node) -> bool:
    meta = node.metadata
    return any(matches_term(term, meta.labels, meta.name) for term in selector.node_selector_terms or ())
