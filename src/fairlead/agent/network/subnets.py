"""Which addresses a node may give to its pods: a part of those of all pods that no other node has.

There is nobody to ask but the nodes themselves: each writes its choice into an annotation of its Node and then looks at
all of them once more. Of two that chose the same at the same time at least one sees the other, and whoever sees another
chooses again. A choice counts only after that look; it is kept on disk, and never looked at again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from fairlead.agent.network.machine import other_networks
from fairlead.agent.network.settings import SUBNET_ANNOTATION, NetworkSettings
from fairlead.agent.network.views import Node
from fairlead.api.builtin import NODES
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.verbs import Api, ListQuery
from fairlead.runtime import rng

RETRY_SECONDS: Final = 1.0
_FILE: Final = "subnet.json"

log = logging.getLogger(__name__)


class NoSubnetLeft(Exception):
    """All parts are in use, by other nodes or by this machine's own networks."""


def choose(
    network: IPv4Network, prefix: int, taken: Iterable[IPv4Network], preferred: IPv4Network | None
) -> IPv4Network:
    """The preferred part if nobody has it, else the first that is free."""
    taken = list(taken)
    if preferred is not None and preferred.prefixlen == prefix and preferred.subnet_of(network):
        candidates = [preferred]
    else:
        candidates = []
    size = 1 << (32 - prefix)
    used = sorted((other for other in taken if other.overlaps(network)), key=lambda other: other.network_address)
    if candidates and not any(other.overlaps(candidates[0]) for other in used):
        return candidates[0]
    start = int(network.network_address)
    for other in used:
        if int(other.network_address) >= start + size:
            break
        start = max(start, -(-(int(other.broadcast_address) + 1) // size) * size)
    found = IPv4Network((start, prefix)) if start <= int(network.broadcast_address) else None
    if found is None:
        raise NoSubnetLeft(f"no /{prefix} of {network} is free: {len(used)} are in use")
    return found


def subnets_of(nodes: Iterable[Node]) -> Mapping[str, IPv4Network]:
    """By name of the node; what is no network counts as nothing said."""
    found = {}
    for node in nodes:
        text = node.metadata.annotations.get(SUBNET_ANNOTATION)
        if text is not None:
            try:
                found[node.metadata.name] = IPv4Network(text)
            except ValueError:
                log.warning("node %s: %s is no network: %.50r", node.metadata.name, SUBNET_ANNOTATION, text)
    return found


async def claim(settings: NetworkSettings, api: Api) -> IPv4Network:
    """The subnet of this node, for good. Waits for the Node to be there, and for the API server."""
    if (known := _kept(settings)) is not None:
        return known
    trouble = ""
    while True:
        try:
            if (found := await _claimed(settings, api)) is not None:
                settings.root.mkdir(parents=True, exist_ok=True)
                (settings.root / _FILE).write_text(json.dumps({"node": settings.node_name, "subnet": str(found)}))
                return found
        except (NotFound, OSError, ApiError) as error:
            if str(error) != trouble:
                log.warning("no addresses for pods yet: %s", error)
            trouble = str(error)
        await asyncio.sleep(RETRY_SECONDS * rng.source().uniform(0.5, 1.5))


async def _claimed(settings: NetworkSettings, api: Api) -> IPv4Network | None:
    """One attempt; None if another node has chosen the same."""
    others = dict(subnets_of(await _nodes(api)))
    present = others.pop(settings.node_name, None)
    machine = await other_networks(settings)  # pods with such addresses would cut it off from its neighbours
    taken = [*others.values(), *(other for other in machine if not other.supernet_of(settings.pod_network))]
    chosen = choose(settings.pod_network, settings.node_prefix, taken, present)
    patch = {"metadata": {"annotations": {SUBNET_ANNOTATION: str(chosen)}}}
    await api.patch(NODES, settings.node_name, "", patch)
    others = dict(subnets_of(await _nodes(api)))
    if others.pop(settings.node_name, None) == chosen and not any(chosen.overlaps(other) for other in others.values()):
        return chosen
    await api.patch(NODES, settings.node_name, "", {"metadata": {"annotations": {SUBNET_ANNOTATION: None}}})
    return None


async def _nodes(api: Api) -> list[Node]:
    listing = await api.list(NODES, "", ListQuery())
    return [item.view(Node) for item in listing.items]


def _kept(settings: NetworkSettings) -> IPv4Network | None:
    path: Path = settings.root / _FILE
    try:
        found = json.loads(path.read_text())
        subnet = IPv4Network(found["subnet"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_ours = found["node"] == settings.node_name and subnet.subnet_of(settings.pod_network)
    return subnet if is_ours and subnet.prefixlen == settings.node_prefix else None
