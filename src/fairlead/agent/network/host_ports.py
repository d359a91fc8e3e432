"""Ports of this machine that lead to a pod, as rules of our table."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address

from fairlead.agent.network.cni.attachments import Attachment
from fairlead.agent.network.nftables import base
from fairlead.agent.network.nftables.table import NOTHING, Fragment, Key
from fairlead.agent.network_seam import HostPort

#: A pod may ask for one of these, which mean all addresses.
_EVERYWHERE = ("", "0.0.0.0", "::")


def host_port_rules(attachment: Attachment) -> Fragment:
    """The chains of an attached pod; nothing if it has no port of the host, or no address that we could lead to."""
    address = attachment.ipv4
    if address is None or not attachment.host_ports:
        return NOTHING
    chains: dict[str, tuple[str, ...]] = {}
    elements = {Key(base.HAIRPINS, f"{address} . {address}"): ""}
    for port in attachment.host_ports:
        protocol = port.protocol.lower()
        key = _key(port, protocol)
        if key is not None:
            chain = f"host_port/{attachment.uid}/{protocol}/{port.host_port}"
            chain += f"/{port.host_ip}" if key.map == base.SERVICES else ""
            chains[chain] = (f"meta l4proto {protocol} dnat ip to {address}:{port.container_port}",)
            elements[key] = f"goto {chain}"
    return Fragment(chains, {}, elements)


def _key(port: HostPort, protocol: str) -> Key | None:
    if port.host_ip in _EVERYWHERE:
        return Key(base.HOST_PORTS, f"{protocol} . {port.host_port}")
    try:
        return Key(base.SERVICES, f"{IPv4Address(port.host_ip)} . {protocol} . {port.host_port}")
    except AddressValueError:
        return None  # of IPv6, which pods do not have
