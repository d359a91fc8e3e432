"""Which host ports are taken on which nodes: the facts behind NodePorts.

They are a set and no count, as upstream has them (HostPortInfo): where two pods hold the same port, because somebody
bound them by hand, whoever leaves first takes it along, and it is free although the other still holds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fairlead.api.host_ports import EVERY_IP, HostPort


class UsedPorts:
    """Each port that is taken: row → on which addresses."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int], dict[int, set[str]]] = {}

    def take(self, row: int, ports: Iterable[HostPort]) -> list[HostPort]:
        """A pod came. Returns those of its ports that were free."""
        taken: list[HostPort] = []
        for port in ports:
            addresses = self._taken.setdefault((port.protocol, port.port), {}).setdefault(row, set())
            if port.ip not in addresses:
                addresses.add(port.ip)
                taken.append(port)
        return taken

    def release(self, row: int, ports: Iterable[HostPort]) -> list[HostPort]:
        """A pod went. Returns those of its ports that were taken."""
        released: list[HostPort] = []
        for port in ports:
            rows = self._taken.get((port.protocol, port.port), {})
            addresses = rows.get(row, set())
            if port.ip in addresses:
                addresses.remove(port.ip)
                released.append(port)
                if not addresses:
                    del rows[row]
                if not rows:
                    del self._taken[port.protocol, port.port]
        return released

    def conflicts(self, ports: Iterable[HostPort], rows: Collection[int]) -> set[int]:
        """Of the rows those where one of these ports is taken, and maybe others; 0.0.0.0 clashes with every address."""
        found = set[int]()
        for port in ports:
            taken = self._taken.get((port.protocol, port.port), {})
            for row in rows if len(rows) < len(taken) else taken:  # preemption asks about one row, again and again
                addresses = taken.get(row, ())
                if addresses and (port.ip == EVERY_IP or EVERY_IP in addresses or port.ip in addresses):
                    found.add(row)
        return found
