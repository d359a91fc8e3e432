"""The networks from which Services get their addresses: what the ServiceCIDRs say (KEP-1880).

Source: pkg/registry/core/service/ipallocator/cidrallocator.go (1.36).
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Final

import msgspec

from fairlead.api.service_networks import ServiceCIDR
from fairlead.kinds.ips import Address, Network
from fairlead.kinds.service_networks import gives, networks_of

#: The default of kube-apiserver's --service-cluster-ip-range, and the ServiceCIDR that shows it.
SERVICE_NETWORK: Final = IPv4Network("10.0.0.0/24")
DEFAULT_NAME: Final = "kubernetes"

_decode = msgspec.json.Decoder(ServiceCIDR).decode


class ServiceNetworks:
    """All of them. The default one counts until its object says something."""

    def __init__(self, default: IPv4Network = SERVICE_NETWORK) -> None:
        self.default = default
        #: By name, the networks of a ServiceCIDR and whether it gives addresses.
        self._known: dict[str, tuple[tuple[Network, ...], bool]] = {}
        self._put_together()

    def observe(self, namespace: str, name: str, raw: bytes | None) -> None:
        """A ServiceCIDR was stored, or removed."""
        if raw is None:
            self._known.pop(name, None)
        else:
            found = _decode(raw)
            self._known[name] = networks_of(found.spec.cidrs), found.gives_addresses
        self._put_together()

    def _put_together(self) -> None:
        known = dict(self._known)
        known.setdefault(DEFAULT_NAME, ((self.default,), True))
        #: All of them, ready or not.
        self.all: frozenset[Network] = frozenset(network for networks, _ in known.values() for network in networks)
        ready = {network for networks, is_ready in known.values() if is_ready for network in networks}
        #: Those that give new addresses, in order; IPv4 alone, as the cluster has no other family.
        self.ready: tuple[IPv4Network, ...] = tuple(sorted(each for each in ready if isinstance(each, IPv4Network)))

    def have(self, address: Address) -> bool:
        """Whether any of them has this address, be it ready or not."""
        return any(gives(network, address) for network in self.all)
