"""`PodNetwork`: what the agent of a node uses of all this.

`run` beside the informers; `attach` waits until the node has addresses to give. An attached pod has its address and its
host ports, and the policies that select it are in force: it starts after that. `close` ends what `run` began and leaves
pods their network, as their containers go on too; `reset` (reset.py) removes everything of ours.

With a network of somebody else (`settings.conflist`) pods are attached to that and nothing else is done: who brought
the network brought services and policies too, and two of them would translate each other's packets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Final

from fairlead.agent.network import machine, subnets
from fairlead.agent.network.cluster_network import ClusterNetwork
from fairlead.agent.network.cni import configuration
from fairlead.agent.network.cni.attachments import Attachment, Attachments, HostPort
from fairlead.agent.network.cni.plugins import PluginFailed, Plugins
from fairlead.agent.network.dns import resolv_conf
from fairlead.agent.network.settings import NetworkSettings
from fairlead.client.informer import Informers

#: So many pods are attached or detached at once; each is some processes.
_AT_ONCE: Final = 8
#: How long a pod waits for its rules; the machine may refuse them for ever.
RULES_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class NetworkFailed(Exception):
    """A pod cannot be attached or detached; the message says why."""


class PodNetwork:
    """Make it before the informers run. Calls about one container come one after the other."""

    def __init__(self, settings: NetworkSettings, informers: Informers) -> None:
        self._settings, self._api = settings, informers.api
        self._attachments = Attachments(settings.root / "attachments")
        self._plugins = Plugins(settings.plugin_folders)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._network: asyncio.Future[configuration.Conflist] = asyncio.get_running_loop().create_future()
        self._cluster = None if settings.conflist else ClusterNetwork(settings, informers, self._attachments)
        self._closing, self._ended = asyncio.Event(), asyncio.Event()
        self._ended.set()
        #: What this machine cannot do, as sentences for people.
        self.problems: list[str] = []

    async def run(self) -> None:
        """Returns when it is closed; a network that cannot be is an error, for pods that wait for it as well."""
        self._ended.clear()
        work, closing = asyncio.create_task(self._run()), asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait((work, closing), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            work.cancel()
            closing.cancel()
            await asyncio.gather(work, closing, return_exceptions=True)
            self._ended.set()

    async def _run(self) -> None:
        try:
            network, subnet = await self._prepared()
        except Exception as error:
            self._network.set_exception(NetworkFailed(str(error)))
            self._network.exception()  # whoever waits hears of it; nobody has to
            raise
        self._network.set_result(network)
        if self._cluster is not None and subnet is not None:
            await self._cluster.run(subnet)
        await self._closing.wait()

    async def _prepared(self) -> tuple[configuration.Conflist, IPv4Network | None]:
        """The network that pods are attached to; of ours, the subnet, and all that it needs is there."""
        if self._settings.conflist is not None:
            return configuration.read(self._settings.conflist), None
        await machine.check_addresses(self._settings)
        self.problems = await machine.prepare(self._settings)
        subnet = await subnets.claim(self._settings, self._api)
        await machine.make_bridge(self._settings, subnet)
        return configuration.ours(self._settings, subnet), subnet

    async def close(self) -> None:
        """End what `run` began. Pods keep their network, the next agent takes it up."""
        self._closing.set()
        await self._ended.wait()

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
        self._attachments.put(attached)
        if self._cluster is not None:
            try:
                async with asyncio.timeout(RULES_SECONDS):
                    await self._cluster.attached(attached)
            except TimeoutError:
                await self.detach(container_id)
                raise NetworkFailed(f"the rules of the network are not loaded after {RULES_SECONDS:g} s") from None
        return attached.addresses

    def resolv_conf(
        self, policy: str, config: resolv_conf.DnsConfig | None, *, namespace: str, host_network: bool
    ) -> str:
        """What /etc/resolv.conf of a pod says, by its `dnsPolicy` and `dnsConfig`."""
        settings, text = self._settings, ""
        with suppress(OSError):
            text = settings.host_resolv_conf.read_text()
        found = resolv_conf.of_pod(
            policy,
            config,
            namespace=namespace,
            host_network=host_network,
            cluster_dns=str(settings.dns_address),
            cluster_domain=settings.cluster_domain,
            host=resolv_conf.parsed(text),
        )
        return str(found)

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
