"""A cordoned node takes no new pods, except those that tolerate it (S0-04)."""

from __future__ import annotations

from fairlead.api.scheduling import Taint
from fairlead.api.taints import is_tolerated
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.company import Task
from fairlead.scheduler.framework import Change, Event, Plugin
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Snapshot

#: Who tolerates this taint may go to a cordoned node, whether or not the node carries it.
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(Plugin):
    name = "NodeUnschedulable"
    reason = "node(s) were unschedulable"
    events = Event.NODE_ADDED | Event.NODE_TAINTS | Event.OWN_TOLERATIONS

    def filters(self, shape: Shape) -> bool:
        return not is_tolerated(CORDONED, shape.tolerations)

    def filter(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Mask:
        return ~snapshot.unschedulable[rows]

    def helps(self, change: Change, task: Task) -> bool:
        shape = task.shape
        if change.new_node is None:
            return is_tolerated(CORDONED, shape.tolerations)
        was_open = change.old_node is not None and not change.old_node.spec.unschedulable
        return not was_open and not change.new_node.spec.unschedulable
