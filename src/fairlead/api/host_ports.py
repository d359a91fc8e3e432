"""Ports of the node that pods take: no two pods of a node can have the same (NodePorts)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.scheduling import Container

EVERY_IP = "0.0.0.0"


class HostPort(msgspec.Struct, frozen=True):
    ip: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """0.0.0.0 clashes with every address."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.ip == other.ip or EVERY_IP in (self.ip, other.ip)


def host_ports(containers: Sequence[Container], init_containers: Sequence[Container]) -> tuple[HostPort, ...]:
    """The ports taken on the node while the pod runs: an ordinary init container's are not."""
    sidecars = (container for container in init_containers if container.restart_policy == "Always")
    return tuple(
        HostPort(port.host_ip or EVERY_IP, port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *containers)
        for port in container.ports or ()
        if port.host_port > 0
    )


def clash(wanted: Sequence[HostPort], taken: Sequence[HostPort]) -> bool:
    """Whether two pods with these ports cannot share a node."""
    return any(port.conflicts(held) for port in wanted for held in taken)
