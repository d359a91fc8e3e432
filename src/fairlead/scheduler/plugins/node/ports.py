"""Two pods cannot hold the same host port of one node (NodePorts)."""

from __future__ import annotations

import numpy as np

from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.company import Task
from fairlead.scheduler.framework import Change, Event, Plugin, Reads
from fairlead.scheduler.ports import clash
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Snapshot


class NodePorts(Plugin):
    name = "NodePorts"
    reads = Reads.PODS
    reason = "node(s) didn't have free ports for the requested pod ports"
    is_resolvable = True
    events = Event.NODE_ADDED | Event.POD_REMOVED

    def filters(self, shape: Shape) -> bool:
        return bool(shape.host_ports)

    def filter(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Mask:
        taken = snapshot.ports.conflicts(shape.host_ports)
        return np.fromiter((row not in taken for row in rows.tolist()), dtype=np.bool_, count=len(rows))

    def helps(self, change: Change, task: Task) -> bool:
        shape = task.shape
        return change.old_shape is None or clash(shape.host_ports, change.old_shape.host_ports)
