"""A cordoned node takes no new pods, except those that tolerate it (S0-04)."""

from __future__ import annotations

from fairlead.api.taints import Taint, is_tolerated
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.framework import ClusterEvent, EventKind, Plugin
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot

#: Who tolerates this taint may go to a cordoned node, whether or not the node carries it.
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(Plugin):
    name = "NodeUnschedulable"
    reason = "node(s) were unschedulable"
    events = EventKind.NODE_ADDED | EventKind.NODE_TAINTS | EventKind.OWN_TOLERATIONS

    def filters(self, requirements: PodRequirements) -> bool:
        return not is_tolerated(CORDONED, requirements.tolerations)

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        return ~snapshot.unschedulable[rows]

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        requirements = request.requirements
        if event.new_node is None:
            return is_tolerated(CORDONED, requirements.tolerations)
        was_open = event.old_node is not None and not event.old_node.spec.unschedulable
        return not was_open and not event.new_node.spec.unschedulable
