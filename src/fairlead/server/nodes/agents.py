"""`NodeAgents`: how the server reaches the kubelets, wherever they are.

The server knows no simulation and no agent; who composes a cluster gives it what it asks here (`Server.serve_nodes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fairlead.node.stats.endpoints import NodeAnswer
from fairlead.node.stats.measurements import NodeMeasurements


class NodeAgents(Protocol):
    """The kubelets of a cluster."""

    async def measure(self, node: str) -> NodeMeasurements | None:
        """What was measured there last; None where nobody measures. It may be as old as metrics-server's would be."""
        ...

    async def get(self, node: str, path: str, query: Mapping[str, str]) -> NodeAnswer | None:
        """The answer of the kubelet to a GET of `/path`; None if there is no kubelet of that name."""
        ...
