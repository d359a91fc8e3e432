"""Nodes as everybody but the scheduler sees them: whether pods may be there, and what the node says of itself.

Controllers, the simulated fleet and the arbitrator share this view, and so one copy of the nodes.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.meta import Condition, Object, View
from fairlead.api.taints import TimedTaint

#: Where the leases of nodes are.
LEASE_NAMESPACE: Final = "kube-node-lease"


class NodeSpec(View):
    unschedulable: bool = False
    taints: tuple[TimedTaint, ...] = ()


class NodeCondition(Condition):
    last_heartbeat_time: str | None = None


class NodeInfo(View):
    kubelet_version: str = ""
    container_runtime_version: str = ""


class NodeStatus(View):
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    node_info: NodeInfo = NodeInfo()
    conditions: tuple[NodeCondition, ...] = ()
    features: dict[str, bool] = {}


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, type_: str) -> NodeCondition | None:
        return next((condition for condition in self.status.conditions if condition.type == type_), None)

    @property
    def ready_status(self) -> str | None:
        """`True`, `False`, `Unknown`, or None while nobody has said anything."""
        ready = self.condition("Ready")
        return ready.status if ready is not None else None

    @property
    def is_ready(self) -> bool:
        return self.ready_status == "True"

    @property
    def is_open(self) -> bool:
        """Ready and not cordoned."""
        return self.is_ready and not self.spec.unschedulable

    @property
    def zone(self) -> str:
        """Nodes that fail together: those of one zone of one region."""
        labels = self.metadata.labels
        region, zone = (labels.get(f"topology.kubernetes.io/{level}", "") for level in ("region", "zone"))
        return f"{region}:{zone}" if region or zone else ""
