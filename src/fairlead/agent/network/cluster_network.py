"""What makes the attached pods of this node part of a cluster: routes, services, policies, names.

The table is loaded when all of them have seen what there is: until then the rules of the agent before us are in force,
rather than none.
"""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Network

from fairlead.agent.network.cni.attachments import Attachment, Attachments
from fairlead.agent.network.dns.answers import Resolver
from fairlead.agent.network.dns.directory import InformedDirectory
from fairlead.agent.network.dns.records import Zone
from fairlead.agent.network.dns.server import DnsServer
from fairlead.agent.network.dns.upstream import Upstream
from fairlead.agent.network.host_ports import host_port_rules
from fairlead.agent.network.nftables import base
from fairlead.agent.network.nftables.table import NOTHING
from fairlead.agent.network.nftables.writer import TableWriter
from fairlead.agent.network.policies.engine import PolicyEngine
from fairlead.agent.network.routes import NodeRoutes
from fairlead.agent.network.services.proxy import ServiceProxy
from fairlead.agent.network.settings import NetworkSettings
from fairlead.client.informer import Informers


class ClusterNetwork:
    """Make it before the informers run."""

    def __init__(self, settings: NetworkSettings, informers: Informers, attachments: Attachments) -> None:
        self._writer = TableWriter(base.table(settings))
        self._routes = NodeRoutes(settings, informers)
        self._proxy = ServiceProxy(settings, informers, self._writer)
        self._policies = PolicyEngine(settings, informers, self._writer)
        self._directory = InformedDirectory(informers)
        address = str(settings.dns_address)
        zone = Zone(settings.cluster_domain, self._directory)
        resolver = Resolver(settings.cluster_domain, zone, Upstream(settings.host_resolv_conf, address))
        self._dns = DnsServer(resolver, address)
        for attachment in attachments:
            self._submit(attachment)

    async def run(self, subnet: IPv4Network) -> None:
        """With the subnet of this node."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._routes.run(subnet))
            group.create_task(self._resolve_names())
            await self._proxy.first()
            await self._policies.first()
            group.create_task(self._proxy.run())
            group.create_task(self._policies.run())
            group.create_task(self._writer.run())

    async def _resolve_names(self) -> None:
        await self._directory.synced()  # who has seen nothing yet would say that nothing exists
        await self._dns.run()

    async def attached(self, attachment: Attachment) -> None:
        """Return once the pod's ports lead to it and its policies are in force."""
        self._submit(attachment)
        if self._writer.is_loaded:
            await self._policies.decided(attachment)
            await self._writer.written()

    def detached(self, attachment: Attachment) -> None:
        self._writer.submit({_owner(attachment): NOTHING})
        self._policies.detached(attachment)

    def _submit(self, attachment: Attachment) -> None:
        self._writer.submit({_owner(attachment): host_port_rules(attachment)})
        self._policies.attached(attachment)


def _owner(attachment: Attachment) -> str:
    return f"pod {attachment.container_id}"
