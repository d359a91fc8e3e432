"""Nodes as controllers see them: what decides whether pods may be there, and what the node says of itself."""

from __future__ import annotations

from fairlead.api.meta import Condition, Object, View


class Taint(View):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(View):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Condition):
    last_heartbeat_time: str | None = None


class NodeStatus(View):
    conditions: tuple[NodeCondition, ...] = ()


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, type_: str) -> NodeCondition | None:
        return next((one for one in self.status.conditions if one.type == type_), None)

    @property
    def ready_status(self) -> str | None:
        """`True`, `False`, `Unknown`, or None while nobody has said anything."""
        ready = self.condition("Ready")
        return ready.status if ready is not None else None

    @property
    def zone(self) -> str:
        """Nodes that fail together: those of one zone of one region."""
        labels = self.metadata.labels
        region, zone = (labels.get(f"topology.kubernetes.io/{one}", "") for one in ("region", "zone"))
        return f"{region}:{zone}" if region or zone else ""
