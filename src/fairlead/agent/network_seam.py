"""What the agent asks of the network of pods, and what a node has that is given none."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from fairlead.agent.network.dns.resolv_conf import DnsConfig, Naming

log = logging.getLogger(__name__)


class HostPort(NamedTuple):
    """A port of this machine that leads to one of a pod; at one address of it, or (with none) at all."""

    protocol: str
    host_port: int
    container_port: int
    host_ip: str = ""


class NetworkFailed(Exception):
    """A pod cannot be attached or detached, or there can be no network at all; the message says why."""


class PodNetwork(Protocol):
    @property
    def problems(self) -> Sequence[str]:
        """What it cannot do on this machine, as sentences for people."""
        ...

    async def run(self) -> None:
        """Keep it up, until cancelled. NetworkFailed: it cannot be, and no pod will be attached."""
        ...

    async def attach(
        self, netns_path: str, namespace: str, name: str, uid: str, container_id: str, host_ports: Iterable[HostPort]
    ) -> tuple[str, ...]:
        """The addresses of the pod, the primary one first; for one that is attached already, those that it has."""
        ...

    async def join(
        self,
        addresses: Sequence[str],
        netns_path: str,
        namespace: str,
        name: str,
        uid: str,
        container_id: str,
        host_ports: Iterable[HostPort],
    ) -> None:
        """A pod that the container runtime has attached; its ports lead to it, and its policies are in force then."""
        ...

    async def detach(self, container_id: str) -> None:
        """Nothing happens to one that is not attached."""
        ...

    async def collect(self, container_ids: Collection[str]) -> None:
        """Detach whatever is not one of these."""
        ...

    def resolv_conf(self, policy: str, config: DnsConfig | None, *, namespace: str, host_network: bool) -> str:
        """What /etc/resolv.conf of a pod says, by its `dnsPolicy` and `dnsConfig`."""
        ...


class NetworkOfRuntime:
    """The runtime attaches pods to a network of its own, as under a kubelet; who brought that brought services too."""

    def __init__(self, naming: Naming, problems: Sequence[str] = ()) -> None:
        self._naming, self.problems = naming, problems

    async def run(self) -> None:
        """Others keep it up; what it lacks is said."""
        for problem in self.problems:
            log.warning("%s", problem)

    async def attach(
        self, netns_path: str, namespace: str, name: str, uid: str, container_id: str, host_ports: Iterable[HostPort]
    ) -> tuple[str, ...]:
        raise NetworkFailed("the container runtime gave the pod no address")

    async def join(
        self,
        addresses: Sequence[str],
        netns_path: str,
        namespace: str,
        name: str,
        uid: str,
        container_id: str,
        host_ports: Iterable[HostPort],
    ) -> None:
        """The runtime has done all there is to do."""

    async def detach(self, container_id: str) -> None:
        """The runtime does."""

    async def collect(self, container_ids: Collection[str]) -> None:
        """The runtime does."""

    def resolv_conf(self, policy: str, config: DnsConfig | None, *, namespace: str, host_network: bool) -> str:
        return self._naming.resolv_conf(policy, config, namespace=namespace, host_network=host_network)


class HostNetwork(NetworkOfRuntime):
    """Every pod has the machine's network, with its address and its names: a pod's port is the machine's."""

    def __init__(self, naming: Naming) -> None:
        problem = "pods have the network of this machine, without services, policies and names of the cluster"
        super().__init__(naming, [problem])

    def resolv_conf(self, policy: str, config: DnsConfig | None, *, namespace: str, host_network: bool) -> str:
        return super().resolv_conf(policy, config, namespace=namespace, host_network=True)


class LoopbackOnly:
    """Pods talk to themselves alone. Everything else is as on any node."""

    def __init__(self, naming: Naming, why: str) -> None:
        self._naming = naming
        self.problems: Sequence[str] = (f"pods have no network but their loopback device: {why}",)

    async def run(self) -> None:
        """There is nothing to keep up; that is said."""
        for problem in self.problems:
            log.warning("%s", problem)

    async def attach(
        self, netns_path: str, namespace: str, name: str, uid: str, container_id: str, host_ports: Iterable[HostPort]
    ) -> tuple[str, ...]:
        if tuple(host_ports):
            raise NetworkFailed("hostPort needs a network, and this node has none")
        return ("127.0.0.1",)

    async def join(
        self,
        addresses: Sequence[str],
        netns_path: str,
        namespace: str,
        name: str,
        uid: str,
        container_id: str,
        host_ports: Iterable[HostPort],
    ) -> None:
        """There is nothing to join."""

    async def detach(self, container_id: str) -> None:
        """There is nothing to take back."""

    async def collect(self, container_ids: Collection[str]) -> None:
        """Nor here."""

    def resolv_conf(self, policy: str, config: DnsConfig | None, *, namespace: str, host_network: bool) -> str:
        return self._naming.resolv_conf(policy, config, namespace=namespace, host_network=host_network)
