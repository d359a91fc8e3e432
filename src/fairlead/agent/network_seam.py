"""What the agent asks of the network of pods, and what a node has that is given none."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol


class HostPort(NamedTuple):
    """A port of this machine that leads to one of a pod; at one address of it, or (with none) at all."""

    protocol: str
    host_port: int
    container_port: int
    host_ip: str = ""


class NetworkFailed(Exception):
    """A pod cannot be attached or detached; the message says why."""


class PodNetwork(Protocol):
    async def attach(
        self, netns_path: str, namespace: str, name: str, uid: str, container_id: str, host_ports: Iterable[HostPort]
    ) -> tuple[str, ...]:
        """The addresses of the pod, the primary one first; for one that is attached already, those that it has."""
        ...

    async def detach(self, container_id: str) -> None:
        """Nothing happens to one that is not attached."""
        ...

    async def collect(self, container_ids: Collection[str]) -> None:
        """Detach whatever is not one of these."""
        ...


class LoopbackOnly:
    """Pods talk to themselves alone. Everything else is as on any node."""

    async def attach(
        self, netns_path: str, namespace: str, name: str, uid: str, container_id: str, host_ports: Iterable[HostPort]
    ) -> tuple[str, ...]:
        if tuple(host_ports):
            raise NetworkFailed("hostPort needs a network, and this node has none")
        return ("127.0.0.1",)

    async def detach(self, container_id: str) -> None:
        """There is nothing to take back."""

    async def collect(self, container_ids: Collection[str]) -> None:
        """Nor here."""
