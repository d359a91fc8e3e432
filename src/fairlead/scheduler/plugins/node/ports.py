"""Two pods cannot hold the same host port of one node (NodePorts)."""

from __future__ import annotations

import numpy as np

from fairlead.api.host_ports import clash
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.framework import ClusterEvent, EventKind, Plugin, Reads
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot


class NodePorts(Plugin):
    name = "NodePorts"
    reads = Reads.PODS
    reason = "node(s) didn't have free ports for the requested pod ports"
    is_resolvable = True
    events = EventKind.NODE_ADDED | EventKind.POD_REMOVED

    def filters(self, requirements: PodRequirements) -> bool:
        return bool(requirements.host_ports)

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        asked = rows.tolist()
        taken = snapshot.ports.conflicts(requirements.host_ports, asked)
        return np.fromiter((row not in taken for row in asked), dtype=np.bool_, count=len(rows))

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        requirements = request.requirements
        return event.old_requirements is None or clash(requirements.host_ports, event.old_requirements.host_ports)
