"""How the server reaches the kubelets, wherever they are: those of simulated nodes, and those that listen.

The server knows no simulation; who composes a cluster gives it what it asks here (`Server.serve_nodes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from fairlead.api.encoded import Encoded
from fairlead.node.stats.measurements import NodeMeasurements, PodsUse
from fairlead.runtime.http.replies import Reply
from fairlead.server.nodes.kubelets import Kubelet, Kubelets


class NodeAgents(Protocol):
    """The kubelets of simulated nodes."""

    def has(self, node: str) -> bool:
        """Whether that node is one of them."""
        ...

    async def measure(self, node: str) -> NodeMeasurements | None:
        """What was measured there last; None where nobody measures. It may be as old as metrics-server's would be."""
        ...

    async def pods_use(self, node: str, uids: Collection[str]) -> PodsUse | None:
        """The same of these pods alone, which may cost much less; those of which nothing runs there are left out."""
        ...

    async def get(self, node: str, path: str, query: Mapping[str, str]) -> Reply | None:
        """The answer of the kubelet to a GET of `/path`; None if there is no kubelet of that name."""
        ...


class ClusterAgents:
    """All of them. What is simulated is, whatever its object (imported, perhaps) says of a kubelet."""

    def __init__(self, find_node: Callable[[str], Encoded | None]) -> None:
        self.simulated: NodeAgents | None = None
        self.kubelets = Kubelets(find_node)

    async def measure(self, node: str) -> NodeMeasurements | None:
        found = await self.simulated.measure(node) if self.simulated is not None else None
        return found if found is not None else await self.kubelets.measure(node)

    async def pods_use(self, node: str, uids: Collection[str]) -> PodsUse | None:
        """Of a node with a kubelet that listens, of more pods than these: it answers for all at once."""
        found = await self.simulated.pods_use(node, uids) if self.simulated is not None else None
        if found is not None:
            return found
        measured = await self.kubelets.measure(node)
        return None if measured is None else measured.pods_use()

    async def get(self, node: str, path: str, query: Mapping[str, str]) -> Reply | None:
        """What the kubelet of a simulated node answers; None: it is no such node."""
        return await self.simulated.get(node, path, query) if self.simulated is not None else None

    def is_simulated(self, node: str) -> bool:
        return self.simulated is not None and self.simulated.has(node)

    async def kubelet(self, node: str) -> Kubelet | None:
        """Where the kubelet of a real node listens; None: it is no such node."""
        return None if self.is_simulated(node) else self.kubelets.find(node)
