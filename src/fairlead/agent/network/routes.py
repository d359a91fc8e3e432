"""Pods of other nodes are reached through these nodes: a route for each subnet, by the address of its node.

That needs nodes on one network. The kernel refuses a gateway that is not next to it; that is said, once for each node.
Routes of ours carry a protocol number of their own, so that nobody else's is ever changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Final

from fairlead.agent.network.commands import CommandFailed, run, run_json
from fairlead.agent.network.settings import SUBNET_ANNOTATION, NetworkSettings
from fairlead.agent.network.subnets import subnets_of
from fairlead.agent.network.views import Node
from fairlead.api.builtin import NODES
from fairlead.client.informer import Informer, Informers

#: Between the numbers that the kernel and routing daemons use.
PROTOCOL: Final = "241"
RESYNC_SECONDS: Final = 30.0

log = logging.getLogger(__name__)


class NodeRoutes:
    """Keeps the routes of this machine as the nodes say."""

    def __init__(self, settings: NetworkSettings, informers: Informers) -> None:
        self._settings = settings
        self._nodes: Informer[Node] = informers.of(NODES, Node)
        self._changed = asyncio.Event()
        self._nodes.subscribe(self._on_node)
        self._refused: dict[str, str] = {}

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _route(old) != _route(new):
            self._changed.set()

    async def run(self, ours: IPv4Network) -> None:
        """With the subnet of this node."""
        await self._nodes.synced()
        while True:
            self._changed.clear()
            await self._sync(ours)
            try:
                async with asyncio.timeout(RESYNC_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _sync(self, ours: IPv4Network) -> None:
        wanted = wanted_routes(self._nodes, self._settings, ours)
        present = await present_routes()
        for subnet in present.keys() - wanted.keys():
            await self._change("del", subnet)
        for subnet, gateway in wanted.items():
            if present.get(subnet) != gateway:
                await self._change("replace", subnet, "via", gateway)

    async def _change(self, verb: str, subnet: str, *to: str) -> None:
        try:
            await run("ip", "route", verb, subnet, *to, "proto", PROTOCOL)
        except CommandFailed as error:
            if self._refused.get(subnet) != str(error):
                log.warning("pods of %s are not reached: %s", subnet, error)
            self._refused[subnet] = str(error)
        else:
            self._refused.pop(subnet, None)


def wanted_routes(nodes: Iterable[Node], settings: NetworkSettings, ours: IPv4Network) -> Mapping[str, str]:
    """From subnet to gateway. What a node says is used only if it is a part such as nodes take, and nobody else's: it
    must not draw the packets of others to itself. `ours` is the subnet of this node."""
    others = {node.metadata.name: node for node in nodes if node.metadata.name != settings.node_name}
    found: dict[str, str] = {}
    for name, subnet in sorted(subnets_of(others.values()).items()):
        gateway = internal_ip(others[name])
        is_part = subnet.prefixlen == settings.node_prefix and subnet.subnet_of(settings.pod_network)
        if gateway is not None and is_part and subnet != ours:
            found.setdefault(str(subnet), gateway)
    return found


def _route(node: Node) -> tuple[str | None, str | None]:
    return node.metadata.annotations.get(SUBNET_ANNOTATION), internal_ip(node)


def internal_ip(node: Node) -> str | None:
    for address in node.status.addresses:
        if address.type == "InternalIP":
            try:
                return str(IPv4Address(address.address))
            except AddressValueError:
                continue
    return None


async def present_routes() -> dict[str, str]:
    routes = await run_json("ip", "-j", "-4", "route", "show", "proto", PROTOCOL)
    return {str(IPv4Network(route["dst"])): route.get("gateway", "") for route in routes}


async def remove_routes() -> None:
    for subnet in await present_routes():
        await run("ip", "route", "del", subnet, "proto", PROTOCOL)
