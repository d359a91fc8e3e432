"""`PodNetwork`: what the agent of a node uses of all this.

`attach` waits until the node has addresses to give, which `run` sees to. An attached pod has its address and its host
ports, and the policies that select it are in force: it starts after that. When `run` ends, pods keep their network, as
their containers go on too; `reset` (reset.py) removes everything of ours.

With a network of somebody else (`settings.conflist`) pods are attached to that and nothing else is done: who brought
the network brought services and policies too, and two of them would translate each other's packets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from ipaddress import IPv4Network
from typing import Final

from msgspec.structs import replace

from fairlead.agent.network import machine, subnets
from fairlead.agent.network.cluster_network import ClusterNetwork
from fairlead.agent.network.cni import configuration
from fairlead.agent.network.cni.attachments import Attachment, Attachments
from fairlead.agent.network.cni.plugins import PluginFailed, Plugins
from fairlead.agent.network.dns.resolv_conf import DnsConfig, Naming
from fairlead.agent.network.settings import NetworkSettings
from fairlead.agent.network_seam import HostPort, NetworkFailed
from fairlead.client.informer import Informers

#: So many pods are attached or detached at once; each is some processes.
_AT_ONCE: Final = 8
#: How long a pod waits for its rules; the machine may refuse them for ever.
RULES_SECONDS: Final = 10.0

#: Tells a container runtime of a network; NetworkFailed says why it cannot be told.
Announce = Callable[[configuration.Conflist], Awaitable[None]]

log = logging.getLogger(__name__)


class PodNetwork:
    """Calls about one container come one after the other. `informers` are its own, and none with somebody else's.

    Where the container runtime attaches pods, `announce` tells it of the network.
    """

    def __init__(
        self, settings: NetworkSettings, informers: Informers | None, announce: Announce | None = None
    ) -> None:
        self._settings, self._informers, self._announce = settings, informers, announce
        self._attachments = Attachments(settings.root / "attachments")
        self._plugins = Plugins(settings.plugin_folders)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._network: asyncio.Future[configuration.Conflist] = asyncio.get_running_loop().create_future()
        self._cluster: ClusterNetwork | None = None
        if informers is not None:
            self._cluster = ClusterNetwork(settings, informers, self._attachments)
        #: What this machine cannot do, as sentences for people.
        self.problems: Sequence[str] = ()

    async def run(self) -> None:
        """Until cancelled; NetworkFailed: there can be none, which pods that wait for it hear as well."""
        try:
            network, subnet = await self._prepared()
        except Exception as error:
            failure = NetworkFailed(str(error))
            self._network.set_exception(failure)
            self._network.exception()  # whoever waits hears of it; nobody has to
            raise failure from error
        self._network.set_result(network)
        if self._cluster is None or self._informers is None or subnet is None:
            await asyncio.get_running_loop().create_future()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run(), name="informers of the network")
            group.create_task(self._cluster.run(subnet), name="network of the cluster")

    async def _prepared(self) -> tuple[configuration.Conflist, IPv4Network | None]:
        """The network that pods are attached to; of ours, the subnet, and all that it needs is there."""
        if self._settings.conflist is not None:
            return configuration.read(self._settings.conflist), None
        assert self._informers is not None
        await machine.check_bridge(self._settings)
        await machine.check_addresses(self._settings)
        self.problems = await machine.prepare(self._settings)
        subnet = await subnets.claim(self._settings, self._informers.api)
        await machine.make_bridge(self._settings, subnet)
        network = configuration.ours(self._settings, subnet)
        if self._announce is not None:
            await self._announce(network)
        return network, subnet

    async def attach(
        self,
        netns_path: str,
        namespace: str,
        name: str,
        uid: str,
        container_id: str,
        host_ports: Iterable[HostPort] = (),
    ) -> tuple[str, ...]:
        """The addresses of the pod, IPv4 first. For one that is attached already: those that it has."""
        network = await asyncio.shield(self._network)
        known = self._attachments.get(container_id)
        if known is not None and known.result is not None and known.netns == netns_path:
            return known.addresses
        if known is not None:  # an attempt that was cut off, or a namespace before this one
            await self.detach(container_id)
        wanted = Attachment(
            container_id=container_id,
            namespace=namespace,
            name=name,
            uid=uid,
            netns=netns_path,
            host_ports=tuple(host_ports),
            network=network,
        )
        self._attachments.put(wanted)
        attached = await self._add(wanted)
        await self._take_up(attached)
        return attached.addresses

    async def join(
        self,
        addresses: Sequence[str],
        netns_path: str,
        namespace: str,
        name: str,
        uid: str,
        container_id: str,
        host_ports: Iterable[HostPort] = (),
    ) -> None:
        """Take up a pod that the container runtime has attached."""
        network = await asyncio.shield(self._network)
        known = self._attachments.get(container_id)
        if known is not None and known.netns == netns_path:
            return
        await self._take_up(
            Attachment(
                container_id=container_id,
                namespace=namespace,
                name=name,
                uid=uid,
                netns=netns_path,
                host_ports=tuple(host_ports),
                network=network,
                result={"ips": [{"address": address} for address in addresses]},
                is_runtimes=True,
            )
        )

    async def _take_up(self, attached: Attachment) -> None:
        """Its ports and policies are in force afterwards."""
        self._attachments.put(attached)
        if self._cluster is None:
            return
        try:
            async with asyncio.timeout(RULES_SECONDS):
                await self._cluster.attached(attached)
        except TimeoutError:
            await self.detach(attached.container_id)
            raise NetworkFailed(f"the rules of the network are not loaded after {RULES_SECONDS:g} s") from None

    def resolv_conf(self, policy: str, config: DnsConfig | None, *, namespace: str, host_network: bool) -> str:
        """What /etc/resolv.conf of a pod says, by its `dnsPolicy` and `dnsConfig`."""
        naming = Naming(self._settings.name_servers, self._settings.cluster_domain, self._settings.host_resolv_conf)
        return naming.resolv_conf(policy, config, namespace=namespace, host_network=host_network)

    async def _add(self, wanted: Attachment) -> Attachment:
        try:
            async with self._turns:
                attached = replace(wanted, result=await self._plugins.add(wanted.network, wanted.target))
        except PluginFailed as failure:
            await self._undo(wanted)
            raise NetworkFailed(str(failure)) from failure
        if not attached.addresses:
            await self._undo(attached)
            raise NetworkFailed(f"network {wanted.network.name} gave the pod no address")
        return attached

    async def _undo(self, attachment: Attachment) -> None:
        try:
            await self.detach(attachment.container_id)
        except NetworkFailed as failure:  # it stays known, so that `collect` tries again
            log.warning("pod %s/%s: %s", attachment.namespace, attachment.name, failure)

    async def detach(self, container_id: str) -> None:
        """Take interface, address and ports from the pod; nothing if it has none. Its namespace may be gone already."""
        known = self._attachments.get(container_id)
        if known is None:
            return
        try:
            async with self._turns:
                if not known.is_runtimes:
                    await self._plugins.delete(known.network, known.target, known.result)
        except PluginFailed as failure:
            raise NetworkFailed(str(failure)) from failure
        self._attachments.remove(container_id)
        if self._cluster is not None:
            self._cluster.detached(known)

    async def collect(self, container_ids: Collection[str]) -> None:
        """Detach whatever is not one of these: pods that went while nobody looked, and attempts that were cut off."""
        for attachment in self._attachments:
            if attachment.container_id not in container_ids:
                await self._undo(attachment)
