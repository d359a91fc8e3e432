"""A service as a fragment of the table. Of each port there are up to three chains, in which a packet is translated:

    service/…           to the address of the service
    service/…/any       to any endpoint, where the chain above knows only those of this node
    service/…/external  to a node port or an external address: the source becomes this node, unless only endpoints of
                        this node are asked, which then see who it was

With session affinity each endpoint has a chain and a set of the clients that it serves; chains try these first.
Where nobody answers there is no chain, but an entry that refuses or drops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Final

import msgspec

from fairlead.agent.network.nftables import base
from fairlead.agent.network.nftables.table import Fragment, Key, NamedSet, name
from fairlead.agent.network.services.endpoints import LAST_PORT, Backend, Backends, Place, backends
from fairlead.agent.network.views import EndpointSlice, Service, ServicePort

#: What validation lets through.
_LONGEST_AFFINITY_SECONDS: Final = 86400
_PROTOCOLS: Final = {"TCP": "tcp", "UDP": "udp", "SCTP": "sctp"}


def service_rules(
    service: Service, slices: Sequence[EndpointSlice], place: Place, pods: IPv4Network, answered_here: IPv4Address
) -> Fragment:
    """The fragment; empty for services without an address, and for that whose address this node itself answers at."""
    addresses = [address for address in _ipv4(service.addresses) if address != answered_here]
    rules = _Rules(service, pods)
    for port in service.spec.ports if addresses else ():
        rules.port(port, backends(slices, port.name, port.protocol, place), addresses)
    return Fragment(rules.chains, rules.sets, rules.elements)


def _ipv4(texts: Iterable[str]) -> list[IPv4Address]:
    found = []
    for text in texts:
        try:
            found.append(IPv4Address(text))
        except AddressValueError:
            continue  # of IPv6: this network has none
    return found


class _Rules(msgspec.Struct):
    service: Service
    pods: IPv4Network
    chains: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    sets: dict[str, NamedSet] = msgspec.field(default_factory=dict)
    elements: dict[Key, str] = msgspec.field(default_factory=dict)

    def port(self, port: ServicePort, found: Backends, addresses: Iterable[IPv4Address]) -> None:
        spec, protocol = self.service.spec, _PROTOCOLS.get(port.protocol)
        if protocol is None or not 0 < port.port <= LAST_PORT:
            return
        chain = name("service", self.service.metadata.namespace, self.service.metadata.name, protocol, port.port)
        is_local = spec.internal_traffic_policy == "Local"
        masquerade = f"ip saddr != {self.pods} {base.MASQUERADE}"
        self._chain(chain, (masquerade,), found.local if is_local else found.everywhere, protocol)
        any_chain = f"{chain}/any" if is_local else chain
        here = [f"{address} . {protocol} . {port.port}" for address in addresses]
        self._lead((base.SERVICES, base.UNSERVED), here, chain, found, is_local=False)
        external = [f"{address} . {protocol} . {port.port}" for address in _ipv4(spec.external_ips)]
        if external or port.node_port:
            if is_local:
                self._chain(any_chain, (masquerade,), found.everywhere, protocol)
            self._external(f"{chain}/external", any_chain, found, protocol)
            is_local = spec.external_traffic_policy == "Local"
            self._lead((base.SERVICES, base.UNSERVED), external, f"{chain}/external", found, is_local=is_local)
            node_ports = [f"{protocol} . {port.node_port}"] if 0 < port.node_port <= LAST_PORT else []
            maps = (base.NODE_PORTS, base.UNSERVED_NODE_PORTS)
            self._lead(maps, node_ports, f"{chain}/external", found, is_local=is_local)
        for backend in found.local:
            self.elements[Key(base.HAIRPINS, f"{backend.address} . {backend.address}")] = ""

    def _external(self, chain: str, any_chain: str, found: Backends, protocol: str) -> None:
        has_any = any_chain in self.chains
        if self.service.spec.external_traffic_policy != "Local":
            if has_any:
                self.chains[chain] = (base.MASQUERADE, f"goto {any_chain}")
            return
        # Pods and the node itself are not the outside: a port of their own node leads them to any endpoint.
        short_cut = (f"ip saddr {self.pods} goto {any_chain}", f"fib saddr type local goto {any_chain}")
        self._chain(chain, short_cut if has_any else (), found.local, protocol)
        if has_any and chain not in self.chains:
            self.chains[chain] = short_cut

    def _lead(self, maps: tuple[str, str], keys: Iterable[str], chain: str, found: Backends, *, is_local: bool) -> None:
        """The keys lead to the chain; what comes through untranslated is refused, or dropped if other nodes serve.

        `is_local`: the chain serves those of other machines only by endpoints of this node.
        """
        leads, refuses = maps
        for key in keys:
            if chain in self.chains:
                self.elements[Key(leads, key)] = f"goto {chain}"
            if chain not in self.chains or (is_local and not found.local):
                self.elements[Key(refuses, key)] = "drop" if found.exist else f"goto {base.REFUSE}"

    def _chain(self, chain: str, first: tuple[str, ...], found: tuple[Backend, ...], protocol: str) -> None:
        if not found:
            return
        if self.service.spec.session_affinity == "ClientIP":
            self.chains[chain] = (*first, *self._with_affinity(found, protocol))
        else:
            self.chains[chain] = (*first, f"meta l4proto {protocol} dnat ip to {_balanced(found)}")

    def _with_affinity(self, found: tuple[Backend, ...], protocol: str) -> list[str]:
        config = self.service.spec.session_affinity_config
        seconds = config.client_ip.timeout_seconds if config and config.client_ip else 10800
        seconds = min(max(seconds, 1), _LONGEST_AFFINITY_SECONDS)
        meta = self.service.metadata
        chains = []
        known = []
        for backend in found:
            where = (meta.namespace, meta.name, protocol, f"{backend.address}.{backend.port}")
            chain, clients = name("endpoint", *where), name("clients", seconds, *where)
            self.sets[clients] = NamedSet(f"type ipv4_addr; flags dynamic,timeout; timeout {seconds}s;")
            self.chains[chain] = (
                f"update @{clients} {{ ip saddr }} meta l4proto {protocol} dnat ip to {backend.address}:{backend.port}",
            )
            known.append(f"ip saddr @{clients} goto {chain}")
            chains.append(f"goto {chain}")
        if len(chains) == 1:
            return chains
        verdicts = ", ".join(f"{index} : {chain}" for index, chain in enumerate(chains))
        return [*known, f"numgen random mod {len(chains)} vmap {{ {verdicts} }}"]


def _balanced(found: tuple[Backend, ...]) -> str:
    if len(found) == 1:
        return f"{found[0].address}:{found[0].port}"
    choices = ", ".join(f"{index} : {backend.address} . {backend.port}" for index, backend in enumerate(found))
    return f"numgen random mod {len(found)} map {{ {choices} }}"
