"""ServiceCIDRs: they become ready, and one that is deleted stays while it alone has addresses that are in use.

Source: pkg/controller/servicecidrs (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead.api.meta import Condition
from fairlead.api.service_networks import READY, IPAddress, ServiceCIDR, ServiceCIDRStatus
from fairlead.controllers.actions import Actions, Requeue, update_status, with_finalizer, without_finalizer
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import IP_ADDRESSES, SERVICE_CIDRS
from fairlead.kinds.ips import Address, Network, parse_ip
from fairlead.kinds.service_networks import gives, networks_of
from fairlead.runtime.clock import parse_timestamp, timestamp

FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
#: How long a deletion waits for all API servers to give no more addresses.
_GRACE_SECONDS: Final = 10.0
_IS_READY: Final = Condition(type=READY, status="True", message="Kubernetes Service CIDR is ready")
_IS_USED: Final = Condition(
    type=READY,
    status="False",
    reason="Terminating",
    message="There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)


def _terminating(world: World) -> Iterator[tuple[str, tuple[Network, ...]]]:
    """The ServiceCIDRs that wait, and their networks; there are few."""
    for cidr in world.of(SERVICE_CIDRS):
        if cidr.metadata.is_terminating:
            yield cidr.metadata.key, networks_of(cidr.spec.cidrs)


def _having(world: World, old: IPAddress | None, new: IPAddress | None) -> Iterator[str]:
    """Those that wait and have an address that came or went."""
    found = old or new
    if found is None or (old is not None and new is not None) or not found.is_allocated:
        return
    if (address := parse_ip(found.metadata.name)) is None:
        return
    for key, networks in _terminating(world):
        if any(gives(network, address) for network in networks):
            yield key


def _overlapping(world: World, old: ServiceCIDR | None, new: ServiceCIDR | None) -> Iterator[str]:
    """Those that wait and may be let go by one that came."""
    if old is not None or new is None:
        return
    came = networks_of(new.spec.cidrs)
    for key, networks in _terminating(world):
        if any(_overlap(network, other) for network in networks for other in came):
            yield key


class ServiceCIDRs(Controller[ServiceCIDR]):
    name = "service-cidr-controller"
    queue_name = "ipaddresses"
    account = "service-cidrs-controller"
    kind = SERVICE_CIDRS
    watches = (Watch(SERVICE_CIDRS, _overlapping), Watch(IP_ADDRESSES, _having))

    def reconcile(self, obj: ServiceCIDR, world: World) -> Actions:
        has_finalizer = FINALIZER in obj.metadata.finalizers
        if not obj.metadata.is_terminating:
            if not has_finalizer:
                yield with_finalizer(SERVICE_CIDRS, obj, FINALIZER)
            yield from _report(obj, _IS_READY)
        elif _is_needed(obj, world):
            yield from _report(obj, _IS_USED)
        elif has_finalizer:
            waiting = parse_timestamp(obj.metadata.deletion_timestamp or "") + _GRACE_SECONDS - world.now
            if waiting > 0:
                yield Requeue(waiting)
            else:
                yield without_finalizer(SERVICE_CIDRS, obj, FINALIZER)


def _report(obj: ServiceCIDR, wanted: Condition) -> Actions:
    """Say that it is ready or not, unless somebody has said it."""
    ready = obj.ready
    if ready is not None and ready.status == wanted.status:
        return
    others = tuple(found for found in obj.status.conditions or () if found.type != READY)
    said = msgspec.structs.replace(wanted, last_transition_time=timestamp())
    yield from update_status(SERVICE_CIDRS, obj, obj.status, ServiceCIDRStatus(conditions=(*others, said)))


def _is_needed(obj: ServiceCIDR, world: World) -> bool:
    """Whether an address that is in use would be in no network any more."""
    mine = networks_of(obj.spec.cidrs)
    others = [
        network
        for cidr in world.of(SERVICE_CIDRS)
        if cidr.metadata.name != obj.metadata.name
        for network in networks_of(cidr.spec.cidrs)
    ]
    if all(any(_is_within(network, other) for other in others) for network in mine):
        return False
    addresses = (parse_ip(found.metadata.name) for found in world.of(IP_ADDRESSES) if found.is_allocated)
    return any(_is_alone_with(address, mine, others) for address in addresses if address is not None)


def _overlap(network: Network, other: Network) -> bool:
    return network.version == other.version and network.overlaps(other)


def _is_within(network: Network, other: Network) -> bool:
    return _overlap(network, other) and other.prefixlen <= network.prefixlen


def _is_alone_with(address: Address, mine: tuple[Network, ...], others: list[Network]) -> bool:
    if not any(gives(network, address) for network in mine):
        return False
    return not any(gives(network, address) for network in others)
