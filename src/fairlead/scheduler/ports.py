"""Which host ports are taken on which nodes: the facts behind NodePorts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fairlead.scheduler.shape import HostPort

EVERY_IP = "0.0.0.0"


class UsedPorts:
    """The holders of each port: row → how many pods hold it on each address."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, int], dict[int, Counter[str]]] = {}

    def count(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        for port in ports:
            holders = self._holders.setdefault((port.protocol, port.port), {})
            addresses = holders.setdefault(row, Counter())
            addresses[port.ip] += sign
            if not addresses[port.ip]:
                del addresses[port.ip]
                if not addresses:
                    del holders[row]

    def conflicts(self, ports: Iterable[HostPort]) -> set[int]:
        """The rows where one of these ports is taken; 0.0.0.0 clashes with every address."""
        return {
            row
            for port in ports
            for row, addresses in self._holders.get((port.protocol, port.port), {}).items()
            if port.ip == EVERY_IP or EVERY_IP in addresses or port.ip in addresses
        }


def clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether two pods with these ports cannot share a node."""
    used = UsedPorts()
    used.count(0, taken, 1)
    return bool(used.conflicts(wanted))
