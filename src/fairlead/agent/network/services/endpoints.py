"""Which endpoints of a service get its traffic on this node.

As kube-proxy 1.36 has it: those that are ready; if none is, those that still serve while they are shut down. A policy
of `Local` leaves those of this node. Hints about nodes and zones count only if every ready endpoint has them and one is
for us, or a node whose hints are forgotten would be cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import Final, NamedTuple

import msgspec

from fairlead.agent.network.views import Endpoint, EndpointSlice

LAST_PORT: Final = 65535


class Backend(NamedTuple):
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where traffic comes from: this node."""

    node: str
    zone: str = ""


class Backends(msgspec.Struct, frozen=True):
    """Of one port of a service, in a fixed order."""

    everywhere: tuple[Backend, ...] = ()
    #: Those of this node alone, for policies of `Local`.
    local: tuple[Backend, ...] = ()
    #: Whether there is any, be it elsewhere: who is not served here is told only if nobody is.
    exist: bool = False


def backends(slices: Iterable[EndpointSlice], port_name: str, protocol: str, place: Place) -> Backends:
    found = [
        (Backend(address, port), endpoint)
        for piece in slices
        if piece.address_type == "IPv4"
        for port in _ports(piece, port_name, protocol)
        for endpoint in piece.endpoints or ()
        for address in _addresses(endpoint)
    ]
    local = [(backend, endpoint) for backend, endpoint in found if endpoint.node_name == place.node]
    usable, local_usable = _usable(found), _usable(local)
    return Backends(_ordered(_near(usable, place)), _ordered(local_usable), exist=bool(usable))


Found = Sequence[tuple[Backend, Endpoint]]


def _ports(piece: EndpointSlice, name: str, protocol: str) -> list[int]:
    fitting = (port.port or 0 for port in piece.ports or () if (port.name, port.protocol) == (name, protocol))
    return [number for number in fitting if 0 < number <= LAST_PORT]


def _addresses(endpoint: Endpoint) -> list[str]:
    """The first one stands for all. They become part of rules, so nothing but addresses may get through; and none of
    those that would lead to a service of the node itself, where it listens for nobody else."""
    try:
        found = [IPv4Address(address) for address in endpoint.addresses[:1]]
    except AddressValueError:
        return []
    return [str(address) for address in found if not _is_of_the_node(address)]


def _is_of_the_node(address: IPv4Address) -> bool:
    return address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified


def _usable(found: Found) -> Found:
    ready = [entry for entry in found if entry[1].is_ready]
    return ready or [entry for entry in found if entry[1].is_serving_to_its_end]


def _near(found: Found, place: Place) -> Found:
    if not found or not all(endpoint.is_ready for _, endpoint in found):
        return found
    return (
        _hinted(found, lambda endpoint: endpoint.hints and endpoint.hints.for_nodes, place.node)
        or _hinted(found, lambda endpoint: endpoint.hints and endpoint.hints.for_zones, place.zone)
        or found
    )


def _hinted(found: Found, hints: Callable[[Endpoint], object], wanted: str) -> Found:
    """Those that are meant for this node or zone; none if hints are missing."""
    meant = []
    for backend, endpoint in found:
        names = hints(endpoint)
        if not names or not isinstance(names, tuple):
            return []
        if wanted in {entry.name for entry in names}:
            meant.append((backend, endpoint))
    return meant


def _ordered(found: Found) -> tuple[Backend, ...]:
    return tuple(sorted({backend for backend, _ in found}))
