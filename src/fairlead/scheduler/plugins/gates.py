"""A pod with scheduling gates waits until all of them are removed (KEP-3521)."""

from __future__ import annotations

from fairlead.api.scheduling import Pod
from fairlead.scheduler.framework import EventKind, Plugin, Refused
from fairlead.scheduler.snapshot import Snapshot


class SchedulingGates(Plugin):
    name = "SchedulingGates"
    events = EventKind.OWN_GATES

    def pre_enqueue(self, pod: Pod, snapshot: Snapshot) -> Refused | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        listed = " ".join(gate.name for gate in gates)
        return Refused(f"waiting for scheduling gates: [{listed}]")
