"""Pods: the STATUS column says what a person would say about a pod, which no single field does.

It starts as the phase, and whatever is more telling replaces it:

    phase -> status.reason -> SchedulingGated -> the first init container that is not through ("Init:...")
          -> what the last telling container waits for or ended with -> Terminating, or Unknown on a lost node

Facts: printPod of pkg/printers/internalversion/printers.go (1.36).
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from fairlead.api import conditions
from fairlead.api.objects import Obj
from fairlead.runtime.clock import parse_timestamp
from fairlead.server.tables.base import AGE, NAME, ColumnOf, PrinterOf, Subject
from fairlead.server.tables.text import NONE, human_duration

_COMPLETED: Final = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}
_GATED: Final = "SchedulingGated"
_NODE_LOST: Final = "NodeLost"


class _Restarts(msgspec.Struct):
    """How often containers were restarted, and when last."""

    count: int = 0
    last: float | None = None

    def add(self, status: Obj) -> None:
        self.count += status.get("restartCount", 0)
        terminated = (status.get("lastState") or {}).get("terminated")
        if terminated and (finished := terminated.get("finishedAt")):
            moment = parse_timestamp(finished)
            self.last = moment if self.last is None else max(self.last, moment)


class _Summary(msgspec.Struct):
    reason: str
    ready: int = 0
    restarts: _Restarts = msgspec.field(default_factory=_Restarts)


class PodSubject(Subject):
    """A pod, with what its containers say about it."""

    @cached_property
    def summary(self) -> _Summary:
        found = _Summary(self._reason_of_phase())
        sidecars = _Restarts()
        is_initializing = self._read_init_containers(found, sidecars)
        if not is_initializing or conditions.is_true(self.status.get("conditions"), "Initialized"):
            found.restarts = sidecars
            self._read_containers(found, sidecars)
        if self.is_deleted:
            if self.status.get("reason") == _NODE_LOST:
                found.reason = "Unknown"
            elif self.status.get("phase") not in _COMPLETED:
                found.reason = "Terminating"
        return found

    def _reason_of_phase(self) -> str:
        for condition in self.status.get("conditions") or ():
            if condition.get("reason") == _GATED and condition.get("type") == "PodScheduled":
                return _GATED
        return str(self.status.get("reason") or self.status.get("phase", ""))

    def _read_init_containers(self, found: _Summary, sidecars: _Restarts) -> bool:
        """Whether the pod is held up by an init container; stops at that one."""
        for index, status in enumerate(self.status.get("initContainerStatuses") or ()):
            found.restarts.add(status)
            is_sidecar = status.get("name") in self.sidecars
            if is_sidecar:
                sidecars.add(status)
            state = status.get("state") or {}
            if (terminated := state.get("terminated")) is not None and not terminated.get("exitCode"):
                continue
            if is_sidecar and status.get("started"):
                found.ready += bool(status.get("ready"))
                continue
            progress = f"{index}/{len(self.spec.get('initContainers') or ())}"
            found.reason = f"Init:{_init_reason(state) or progress}"
            return True
        return False

    def _read_containers(self, found: _Summary, restarts: _Restarts) -> None:
        is_running, error = False, ""
        for status in reversed(self.status.get("containerStatuses") or ()):
            restarts.add(status)
            state = status.get("state") or {}
            if waiting_for := (state.get("waiting") or {}).get("reason"):
                found.reason = waiting_for
            elif (terminated := state.get("terminated")) is not None:
                found.reason = _ending(terminated)
                if terminated.get("exitCode"):
                    error = found.reason
            elif status.get("ready") and state.get("running") is not None:
                is_running = True
                found.ready += 1
        if found.reason == "Completed":
            found.reason = self._reason_of_completed(is_running, error)

    def _reason_of_completed(self, is_running: bool, error: str) -> str:
        """One container ran to its end; the others may still say something else."""
        if is_running and conditions.is_true(self.status.get("conditions"), "Ready"):
            return "Running"
        return error or ("NotReady" if is_running else "Completed")

    @cached_property
    def sidecars(self) -> frozenset[str]:
        """Names of the init containers that keep running."""
        init = self.spec.get("initContainers") or ()
        return frozenset(container["name"] for container in init if container.get("restartPolicy") == "Always")

    @property
    def readiness(self) -> str:
        return f"{self.summary.ready}/{len(self.spec.get('containers') or ()) + len(self.sidecars)}"

    @property
    def restarts(self) -> str:
        found = self.summary.restarts
        if not found.count or found.last is None:
            return str(found.count)
        return f"{found.count} ({human_duration(self.now - found.last)} ago)"

    @property
    def ip(self) -> str:
        addresses = self.status.get("podIPs")
        return (addresses[0].get("ip") if addresses else "") or NONE

    @property
    def readiness_gates(self) -> str:
        gates = self.spec.get("readinessGates")
        if not gates:
            return NONE
        present = self.status.get("conditions")
        return f"{sum(conditions.is_true(present, gate['conditionType']) for gate in gates)}/{len(gates)}"

    def row_conditions(self) -> list[Obj]:
        phase = self.status.get("phase")
        message = _COMPLETED.get(phase or "")
        return [{"type": "Completed", "status": "True", "reason": phase, "message": message}] if message else []


def _init_reason(state: Obj) -> str:
    if (terminated := state.get("terminated")) is not None:
        return _ending(terminated)
    reason = str((state.get("waiting") or {}).get("reason") or "")
    return "" if reason == "PodInitializing" else reason


def _ending(terminated: Obj) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


_Column: TypeAlias = ColumnOf[PodSubject]

PODS: Final = PrinterOf(
    PodSubject,
    (
        NAME,
        _Column("Ready", lambda pod: pod.readiness, "Ready containers out of all that keep running."),
        _Column("Status", lambda pod: pod.summary.reason, "What the pod's containers do, in a word."),
        _Column("Restarts", lambda pod: pod.restarts, "How often containers were restarted, and when last."),
        AGE,
        _Column("IP", lambda pod: pod.ip, "The pod's primary address.", priority=1),
        _Column("Node", lambda pod: pod.spec.get("nodeName") or NONE, "The node it is bound to.", priority=1),
        _Column(
            "Nominated Node",
            lambda pod: pod.status.get("nominatedNodeName") or NONE,
            "The node on which preemption makes room for it.",
            priority=1,
        ),
        _Column("Readiness Gates", lambda pod: pod.readiness_gates, "Gates that are open, out of all.", priority=1),
    ),
)
