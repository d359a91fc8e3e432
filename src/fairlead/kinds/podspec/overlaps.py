"""What in a pod takes the same place: ports of containers, and files of a volume.

Upstream compares each with each. A pod may have 40,000 of them, so here only those are looked at that are in conflict,
and no more conflicts are told than anybody will read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead.api.objects import Obj

MOST_CONFLICTS: Final = 1000


class TakenPorts:
    """The definitions of one container port so far, by host port and host IP: only what is in conflict is looked at."""

    def __init__(self) -> None:
        self._count = 0
        self._by_host_port: dict[int, dict[str, list[tuple[int, str]]]] = {}

    def add(self, port: Obj, where: str) -> None:
        by_ip = self._by_host_port.setdefault(port.get("hostPort", 0), {})
        by_ip.setdefault(port.get("hostIP", ""), []).append((self._count, where))
        self._count += 1

    def conflicts(self, port: Obj) -> list[tuple[str, str]]:
        """What is wrong between this definition and each of the others, and where that is; in their order."""
        ip, host_port = port.get("hostIP", ""), port.get("hostPort", 0)
        found = []
        for other_port in (0, host_port) if host_port else self._by_host_port:
            by_ip = self._by_host_port.get(other_port, {})
            is_ambiguous = bool(host_port and other_port)
            for other_ip in (ip, "") if is_ambiguous and ip else by_ip:
                text = "dangerously ambiguous" if is_ambiguous else "overlapping"
                text = "duplicate" if (other_ip, other_port) == (ip, host_port) else text
                found += [(at, text, where) for at, where in by_ip.get(other_ip, ())]
        return [(text, where) for _, text, where in sorted(found)]


def overlapping(paths: Sequence[str]) -> list[tuple[int, int]]:
    """Which paths are the same or lie within each other, as (later, earlier), in order; empty ones are none."""
    found: list[tuple[int, int]] = []
    around: list[tuple[str, int]] = []  # what the present path lies in: it stands right before it when all are sorted
    for name, at in sorted((f"{path}/", at) for at, path in enumerate(paths) if path):
        while around and not name.startswith(around[-1][0]):
            around.pop()
        found += [(max(at, outer), min(at, outer)) for _, outer in around]
        around.append((name, at))
        if len(found) >= MOST_CONFLICTS:
            break
    return sorted(found)[:MOST_CONFLICTS]
