"""Nodes as everybody but the scheduler sees them: whether pods may be there, and what the node says of itself.

Controllers, the simulated fleet and the arbitrator share this view, and so one copy of the nodes.
"""

from __future__ import annotations

from typing import Final

from fairlead.api.meta import Condition, Object, View
from fairlead.api.taints import TimedTaint

#: Where the leases of nodes are.
LEASE_NAMESPACE: Final = "kube-node-lease"
#: With this annotation, whatever it says, a node has its volumes attached by a controller.
ATTACHED_BY_CONTROLLER: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class NodeSpec(View):
    unschedulable: bool = False
    taints: tuple[TimedTaint, ...] = ()


class NodeCondition(Condition):
    last_heartbeat_time: str | None = None


class NodeInfo(View):
    kubelet_version: str = ""
    container_runtime_version: str = ""


class AttachedVolume(View):
    name: str = ""


class NodeStatus(View):
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    node_info: NodeInfo = NodeInfo()
    conditions: tuple[NodeCondition, ...] = ()
    features: dict[str, bool] = {}
    #: As the controller says that attaches them.
    volumes_attached: tuple[AttachedVolume, ...] | None = None
    #: Those that its kubelet may mount, or has mounted: they are not to be detached.
    volumes_in_use: tuple[str, ...] | None = None


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
    def has_volumes_attached(self) -> bool:
        """Whether volumes are attached to it by a controller, and not by its kubelet."""
        return ATTACHED_BY_CONTROLLER in self.metadata.annotations

    @property
    def is_out_of_service(self) -> bool:
        """Somebody has vouched for it that nothing runs there any more."""
        return any(taint.key == OUT_OF_SERVICE for taint in self.spec.taints)

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
