"""What fits on an empty node of a pool: amounts, and devices that pods claim."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fairlead.api.builtin import DEVICE_CLASSES, RESOURCE_CLAIMS
from fairlead.api.devices import (
    AskedDevices,
    ClaimedDevices,
    ClaimSpec,
    DeviceClass,
    DeviceId,
    DeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from fairlead.api.encoded import encoded
from fairlead.api.meta import ObjectMeta
from fairlead.api.objects import Obj
from fairlead.api.pods import Pod
from fairlead.api.resource_claims import NotMadeYet, PodClaimNames, pod_claims
from fairlead.api.scheduling import Node
from fairlead.client.informer import Informers
from fairlead.scheduler.devices.allocator import AllocationError, Allocator, NodeError, Taken
from fairlead.scheduler.devices.effort import Effort, TooMuchEffort
from fairlead.scheduler.devices.selectors import Selectors
from fairlead.scheduler.facts.device_offers import DeviceOffers
from fairlead.sim.admission import wants

#: How a node is called that is not there yet.
_ANY: Final = "node-of-the-pool"

_encode = msgspec.json.Encoder(order="deterministic").encode


class PoolDevices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Devices of one driver that each node of a pool has, as a ResourceSlice tells them."""

    driver: str
    devices: tuple[Obj, ...]

    def published(self, node: str, uid: str = "") -> Obj:
        """The slice of such a node, which goes with it."""
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{self.driver}", "ownerReferences": [owner]},
            "spec": {"driver": self.driver, "nodeName": node, "pool": pool, "devices": list(self.devices)},
        }


class Wanted(NamedTuple):
    """What a pod needs of a node. Two of the same `kind` fit alike."""

    amounts: Mapping[str, int]
    claims: tuple[ResourceClaim, ...]

    @property
    def kind(self) -> Hashable:
        return frozenset(self.amounts.items()), tuple(_encode(claim.spec) for claim in self.claims)


class Room:
    """What is free of one node."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._free = dict(template.amounts)
        self._taken: set[DeviceId] = set()

    def copy(self) -> Room:
        """As free as this one."""
        found = Room(self._template)
        found._free, found._taken = dict(self._free), set(self._taken)
        return found

    def take(self, wanted: Wanted) -> bool:
        """Give the pod what it needs, if there is all of it."""
        if not fits(wanted.amounts, self._free):
            return False
        devices = self._template.devices_for(wanted.claims, self._taken)
        if devices is None:
            return False
        self._taken |= devices
        for name, amount in wanted.amounts.items():
            self._free[name] = self._free.get(name, 0) - amount
        return True


class Template:
    """A node of the pool, and what there is of claims that could have its devices."""

    def __init__(
        self,
        amounts: Mapping[str, int],
        labels: Mapping[str, str],
        devices: Sequence[PoolDevices],
        informers: Informers,
    ) -> None:
        self.amounts, self._selectors, self._offers = amounts, Selectors(), DeviceOffers()
        informers.of(DEVICE_CLASSES, DeviceClass).subscribe(self._offers.set_class)
        self._claims = informers.of(RESOURCE_CLAIMS, ResourceClaim)
        self._node = Node(metadata=ObjectMeta(name=_ANY, labels=dict(labels)))
        for each in devices:
            self._offers.set_slice(None, encoded(each.published(_ANY)).view(ResourceSlice))
        self._pools = self._offers.pools_of(self._node, Effort())

    def wanted(self, pod: Pod) -> Wanted | None:
        """What the pod still needs; None if nobody can say yet."""
        amounts, asked = dict(wants(pod)), list[DeviceRequest]()
        for name in [name for name in amounts if name not in self.amounts]:
            if (found := self._offers.class_of(name)) is not None:
                devices = AskedDevices(device_class_name=found, allocation_mode="ExactCount", count=amounts.pop(name))
                asked.append(DeviceRequest(name=f"request-{len(asked)}", exactly=devices))
        claims = self._claims_of(pod)
        if claims is None:
            return None
        if asked:
            spec = ClaimSpec(devices=ClaimedDevices(requests=tuple(asked)))
            claims.append(ResourceClaim(metadata=ObjectMeta(name="extended-resources"), spec=spec))
        return Wanted(amounts, tuple(claims))

    def _claims_of(self, pod: Pod) -> list[ResourceClaim] | None:
        """Those of the pod that have no devices yet; None if one is not there."""
        names, found = PodClaimNames(pod), []
        for claim in pod_claims(pod):
            try:
                name = names.of(claim)
            except NotMadeYet:
                return None
            known = self._claims.get(f"{pod.metadata.namespace}/{name}") if name else None
            if name and known is None:
                return None
            if known is not None and known.status.allocation is None:
                found.append(known)
        return found

    def devices_for(self, claims: Sequence[ResourceClaim], taken: Iterable[DeviceId]) -> set[DeviceId] | None:
        """Devices for all of these beside those that are taken; None if there are not enough."""
        if not claims:
            return set()
        others = Taken(frozenset(taken), {})
        allocator = Allocator(self._node, self._pools, others, self._offers.classes, self._selectors, Effort())
        try:
            found = allocator.allocate(claims)
        except (AllocationError, NodeError, TooMuchEffort):
            return None
        return None if found is None else {chosen.candidate.id for devices in found for chosen in devices.chosen}


def fits(wanted: Mapping[str, int], free: Mapping[str, int]) -> bool:
    return all(amount <= free.get(name, 0) for name, amount in wanted.items())
