"""What is fixed when a node starts: who it is, where it keeps things, and which addresses the cluster uses."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

#: The annotation of a Node with the addresses of its pods. `spec.podCIDR` would be more usual, but it may never change
#: or go once it is there, and a node that is replaced by a file without it would be refused.
SUBNET_ANNOTATION: Final = "network.fairlead.dev/pod-subnet"

#: Of the addresses of services, the one that answers for names (as kubeadm has it).
_DNS_OFFSET: Final = 10


POD_NETWORK: Final = IPv4Network("10.244.0.0/16")
DEFAULT_DOMAIN: Final = "cluster.local"
#: That of kube-apiserver.
SERVICE_NETWORK: Final = IPv4Network("10.0.0.0/24")
DNS_ADDRESS: Final = SERVICE_NETWORK[_DNS_OFFSET]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    node_name: str
    #: Where attachments and leases are kept.
    root: Path
    pod_network: IPv4Network = POD_NETWORK
    #: How long the prefix of a node's part of it is: 24 is 253 pods.
    node_prefix: int = 24
    service_network: IPv4Network = SERVICE_NETWORK
    cluster_domain: str = DEFAULT_DOMAIN
    #: Who resolves names of the cluster; none said: we do, in a network of ours.
    cluster_dns: tuple[str, ...] = ()
    bridge: str = "fairlead0"
    plugin_folders: tuple[Path, ...] = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
    #: A network of somebody else (`cni.configuration.installed`); None: ours.
    conflist: Path | None = None
    #: Where names of the world are resolved.
    host_resolv_conf: Path = Path("/etc/resolv.conf")

    def __post_init__(self) -> None:
        if not self.pod_network.prefixlen <= self.node_prefix <= 30:
            raise ValueError(f"node_prefix: {self.node_prefix} is no part of {self.pod_network}, or too small for pods")
        if self.pod_network.overlaps(self.service_network):
            raise ValueError(f"pods ({self.pod_network}) and services ({self.service_network}) cannot share addresses")
        if self.service_network.num_addresses <= _DNS_OFFSET:
            raise ValueError(f"service_network: {self.service_network} has no address for DNS")

    @property
    def dns_address(self) -> IPv4Address:
        return self.service_network[_DNS_OFFSET]

    @property
    def name_servers(self) -> tuple[str, ...]:
        """What pods are told of who resolves names of the cluster."""
        return self.cluster_dns or (() if self.conflist else (str(self.dns_address),))
