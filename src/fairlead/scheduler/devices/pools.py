"""The pools of devices, as a node sees them: by the slices that are for it.

Source: structured/internal/incubating/pools_incubating.go of k8s.io/dynamic-resource-allocation (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.api.devices import CounterSet, Device, DeviceId, PoolId, ResourceSlice, SliceSpec
from fairlead.api.node_affinity import NodeSelector, matches_term
from fairlead.api.scheduling import Node
from fairlead.cel.errors import CelError
from fairlead.scheduler.devices.effort import Effort

#: What it takes to look where a device or a slice is; how many devices of a list are passed on while one is looked at.
PER_PLACE: Final = 3
_COPIED_AT_ONCE: Final = 64


class Offered(msgspec.Struct, eq=False):
    """One slice, with what was found out about its devices."""

    slice: ResourceSlice
    #: By expression and the place of the device: whether it is meant, or why that cannot be said.
    matches: dict[str, dict[int, bool | CelError]] = msgspec.field(default_factory=dict)

    @property
    def devices(self) -> Sequence[Device]:
        return self.slice.spec.devices or ()

    @property
    def generation(self) -> int:
        return self.slice.spec.pool.generation


class Candidate(msgspec.Struct, frozen=True, eq=False):
    """A device that a node can reach."""

    id: DeviceId
    device: Device
    offered: Offered
    index: int
    pool: Pool


class Pool(msgspec.Struct, eq=False):
    """The newest generation of a pool, for nodes that see the same slices of it."""

    id: PoolId
    #: With devices for these nodes.
    slices: list[Offered]
    #: All of its slices, whoever reaches them: the devices of others take of the same counters.
    whole: list[Offered]
    #: Not all of its slices are there: another look later may show more.
    is_incomplete: bool
    #: Two devices of one name, or counters that nobody has.
    is_invalid: bool
    counter_sets: Mapping[str, CounterSet]
    #: Some of its devices can be used only once somebody has prepared them.
    has_conditions: bool
    #: Some of its devices are each for nodes of their own.
    is_per_device: bool
    _candidates: list[Candidate] | None = None
    _consumers: list[tuple[DeviceId, Device]] | None = None

    @classmethod
    def of(cls, id_: PoolId, seen: Sequence[Offered], every: Sequence[Offered]) -> Pool | None:
        """Of those slices of a pool, of `every` one, that a node sees; None if these have been replaced by others.

        A newer generation that shows the node nothing counts only where what it sees is not all of the older one.
        Slices are looked at in the order of their names, so that each run chooses alike.
        """
        generation = max(offered.generation for offered in seen)
        whole = current = sorted(_of_generation(seen, generation), key=lambda offered: offered.slice.metadata.name)
        count = current[0].slice.spec.pool.resource_slice_count
        if len(current) != count:
            if any(offered.generation > generation for offered in every):
                return None
            whole = _of_generation(every, generation)
        sets = [found for offered in current for found in offered.slice.spec.shared_counters or ()]
        counters = {found.name: found for found in sets}
        slices = [offered for offered in current if not offered.slice.spec.shared_counters]
        is_incomplete = len(whole) != count
        is_invalid = not is_incomplete and (len(counters) < len(sets) or _is_invalid(slices, whole, counters))
        can_be_used = not is_incomplete and not is_invalid
        conditional = (device.binding_conditions for offered in slices for device in offered.devices)
        has_conditions = can_be_used and any(conditional)
        is_per_device = any(offered.slice.spec.per_device_node_selection for offered in slices)
        return cls(id_, slices, whole, is_incomplete, is_invalid, counters, has_conditions, is_per_device)

    def __str__(self) -> str:
        return "/".join(self.id)

    @property
    def can_be_used(self) -> bool:
        return not self.is_incomplete and not self.is_invalid

    @property
    def consumers(self) -> list[tuple[DeviceId, Device]]:
        """Its devices that take from counters, wherever they can be reached."""
        if self._consumers is None:
            every = (device for offered in self.whole for device in offered.devices)
            self._consumers = [((*self.id, device.name), device) for device in every if device.consumes_counters]
        return self._consumers

    def candidates(self, node: Node, effort: Effort) -> list[Candidate]:
        """The devices that the node, which sees these slices, can reach, in their order."""
        if self._candidates is None:
            self._candidates = [
                Candidate((*self.id, device.name), device, offered, index, self)
                for offered in self.slices
                for index, device in enumerate(offered.devices)
            ]
            effort.look_at(len(self._candidates))
        if not self.is_per_device:
            effort.look_at(len(self._candidates) // _COPIED_AT_ONCE)
            return self._candidates
        effort.look_at(PER_PLACE * len(self._candidates))
        return [
            each
            for each in self._candidates
            if not each.offered.slice.spec.per_device_node_selection or is_reached(each.device, node)
        ]


def is_seen(spec: SliceSpec, node: Node) -> bool:
    """Whether a slice is for the node: has devices that it can reach, or counters, without which no device is known."""
    if spec.shared_counters:
        return True
    if spec.per_device_node_selection:
        return any(is_reached(device, node) for device in spec.devices or ())
    return is_reached(spec, node)


def are_for_one(slices: Iterable[Offered]) -> bool:
    """Whether whoever sees one of the slices sees all: they are for one node, or for all nodes."""
    places = [offered.slice.spec for offered in slices]
    return all(place.all_nodes for place in places) or (
        bool(places[0].node_name) and all(place.node_name == places[0].node_name for place in places)
    )


def _of_generation(slices: Sequence[Offered], generation: int) -> list[Offered]:
    return [offered for offered in slices if offered.generation == generation]


def _is_invalid(slices: Sequence[Offered], whole: Sequence[Offered], counters: Mapping[str, CounterSet]) -> bool:
    names = [device.name for offered in slices for device in offered.devices]
    consumed = (found for offered in whole for device in offered.devices for found in device.consumes_counters or ())
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
