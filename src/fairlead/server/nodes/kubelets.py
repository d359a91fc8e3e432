"""The kubelets that listen on real nodes: where each is, how this server shows itself to them, and how they do to it.

Each shows a certificate of the cluster's authority for its address.
Source: pkg/kubelet/client/kubelet_client.go (1.36).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

import msgspec

from fairlead.api.encoded import Encoded
from fairlead.caches import LruCache
from fairlead.client.calls import Body, CallError, Connections
from fairlead.client.tls import show, trusting, trusting_anybody
from fairlead.node.stats.measurements import NodeMeasurements
from fairlead.runtime.clock import monotonic
from fairlead.runtime.identity import Identity
from fairlead.server.nodes.addresses import ReachableNode
from fairlead.server.nodes.stats_summary import measurements

if TYPE_CHECKING:
    import aiohttp

#: As kubeadm sets --kubelet-preferred-address-types: the name of a machine need not be known to anybody else.
_ADDRESS_TYPES: Final = ("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS")
#: How long an answer counts (metrics-server asks every 15 s), how long it may take, and when to ask again without one.
_KEPT_SECONDS: Final = 10.0
_MEASURE_SECONDS: Final = 5.0
_SILENT_SECONDS: Final = 30.0
_MOST_SUMMARY_BYTES: Final = 32 << 20
_MOST_KEPT: Final = 1 << 14
CONNECT_SECONDS: Final = 10.0


class Kubelet(msgspec.Struct, frozen=True):
    """Where one listens."""

    host: str
    port: int

    @property
    def authority(self) -> str:
        """As it stands in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Kubelets:
    """The ways to all of them. Whoever has made it closes it."""

    def __init__(self, find_node: Callable[[str], Encoded | None]) -> None:
        self._find_node = find_node
        self._connections = Connections(most=0)  # each log that is followed is one
        self._trusting: ssl.SSLContext | None = None
        self._careless: ssl.SSLContext | None = None
        self._kept: LruCache[str, tuple[float, NodeMeasurements | None]] = LruCache(_MOST_KEPT)

    def identify(self, identity: Identity, authority: bytes) -> None:
        """What this server shows from now on, and who (PEM) signs for kubelets."""
        self._trusting, self._careless = trusting(authority), trusting_anybody()
        for context in (self._trusting, self._careless):
            show(context, identity.certificate, identity.key)

    async def close(self) -> None:
        await self._connections.close()

    def find(self, node: str) -> Kubelet | None:
        """The kubelet of a node; None: its object names none, or there is no such node."""
        found = self._find_node(node)
        if found is None or self._trusting is None:
            return None
        reachable = found.view(ReachableNode)
        port, host = reachable.kubelet_port, reachable.address(_ADDRESS_TYPES)
        return Kubelet(host, port) if host and port else None

    def opened(
        self,
        kubelet: Kubelet,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        body: Body = None,
        *,
        is_verified: bool = True,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """The answer to a request for this path and query, as far as its head."""
        from yarl import URL

        url = URL(f"https://{kubelet.authority}{target}", encoded=True)
        context = self._trusting if is_verified else self._careless
        is_repeatable = method in ("GET", "HEAD")
        return self._connections.opened(
            method, url, body, context=context, headers=headers, is_repeatable=is_repeatable
        )

    async def connect(self, kubelet: Kubelet) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection of one's own. OSError or TimeoutError: there is none."""
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(kubelet.host, kubelet.port, ssl=self._trusting)

    async def measure(self, node: str) -> NodeMeasurements | None:
        """What its kubelet measured a moment ago; None: nobody says."""
        kubelet = self.find(node)
        if kubelet is None or self._trusting is None:
            return None
        until, found = self._kept.get(node) or (0.0, None)
        if monotonic() < until:
            return found
        url = f"https://{kubelet.authority}/stats/summary?only_cpu_and_memory=true"
        try:
            body = await self._connections.ask(
                "GET", url, context=self._trusting, seconds=_MEASURE_SECONDS, most=_MOST_SUMMARY_BYTES
            )
            found, seconds = measurements(body), _KEPT_SECONDS
        except (CallError, ValueError):
            found, seconds = None, _SILENT_SECONDS
        self._kept.put(node, (monotonic() + seconds, found))
        return found
