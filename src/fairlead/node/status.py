"""What a node reports of a pod: its phase, its conditions, its containers.

Sources: getPhase of pkg/kubelet/kubelet_pods.go, pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from fairlead.api.meta import Condition
from fairlead.api.objects import Obj
from fairlead.api.pods import FINISHED, Container, Pod
from fairlead.node.containers import Record, Running, Terminated, Waiting, container_status
from fairlead.node.restarts import init_runs_again, runs_again


class Place(msgspec.Struct, frozen=True):  # like `_Verdict` made at every step, ten times as fast as a dataclass
    """Where a pod runs."""

    host_ip: str
    pod_ip: str


@dataclass(slots=True)
class Containers:
    """The containers of a pod in the order of its spec, with what the node knows of each."""

    init: list[tuple[Container, Record]] = field(default_factory=list)
    main: list[tuple[Container, Record]] = field(default_factory=list)
    #: The init containers came through once: from then on they hold nothing up.
    is_initialized: bool = False
    #: Its network is there, and its volumes are mounted.
    has_sandbox: bool = False

    @property
    def all(self) -> list[tuple[Container, Record]]:
        return [*self.init, *self.main]


def is_sidecar(container: Container) -> bool:
    """An init container that keeps running beside the others."""
    return container.restart_policy == "Always"


def phase(pod: Pod, containers: Containers) -> str:
    policy = pod.spec.restart_policy
    if not containers.is_initialized:
        return "Failed" if any(_failed_for_good(*one, policy) for one in containers.init) else "Pending"
    records = [record for _, record in containers.main]
    if any(not record.has_run for record in records):
        return "Pending"
    if any(isinstance(record.state, Running) for record in records):
        return "Running"
    if any(_is_to_run(*one, policy) for one in containers.main):
        return "Running"
    return final_phase(records)


def final_phase(records: Sequence[Record]) -> str:
    """The phase of a pod of which no container runs or will run again."""
    has_failed = any(record.ended is None or record.ended.exit_code != 0 for record in records)
    return "Failed" if has_failed else "Succeeded"


def _failed_for_good(container: Container, record: Record, policy: str) -> bool:
    state = record.state
    if not isinstance(state, Terminated) or state.exit_code == 0:
        return False
    return not init_runs_again(container, policy, state.exit_code)


def _is_to_run(container: Container, record: Record, policy: str) -> bool:
    if isinstance(record.state, Waiting):
        return True
    return isinstance(record.state, Terminated) and runs_again(container, policy, record.state.exit_code)


def pod_status(pod: Pod, containers: Containers, phase_: str, place: Place, moment: str) -> Obj:
    """The whole status; `moment` is when what is new in it came about."""
    ip = place.host_ip if pod.spec.host_network else (pod.status.pod_ip or place.pod_ip)
    status: Obj = {
        "phase": phase_,
        "observedGeneration": pod.metadata.generation,
        "conditions": _conditions(pod, containers, phase_, moment),
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "startTime": pod.status.start_time or moment,
    }
    if containers.has_sandbox or pod.spec.host_network:
        status["podIP"], status["podIPs"] = ip, [{"ip": ip}]
    if containers.init:
        status["initContainerStatuses"] = [container_status(*one, is_init=True) for one in containers.init]
    status["containerStatuses"] = [container_status(*one) for one in containers.main]
    return status


class _Verdict(msgspec.Struct, frozen=True):
    holds: bool
    reason: str = ""
    message: str = ""


_TRUE = _Verdict(True)


def _conditions(pod: Pod, containers: Containers, phase_: str, moment: str) -> list[Obj]:
    ready = _ready(containers, phase_)
    verdicts = {
        "PodReadyToStartContainers": _Verdict(containers.has_sandbox and phase_ not in FINISHED),
        "Initialized": _initialized(containers, phase_),
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": _TRUE,
    }
    known = {one.type: one for one in pod.status.conditions}
    conditions = []
    for kind, verdict in verdicts.items():
        status = "True" if verdict.holds else "False"
        old = known.pop(kind, None)
        since = old.last_transition_time if old and old.status == status and old.last_transition_time else moment
        condition: Obj = {"type": kind, "status": status, "lastTransitionTime": since}
        if verdict.reason:
            condition["reason"] = verdict.reason
        if verdict.message:
            condition["message"] = verdict.message
        if pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation
        conditions.append(condition)
    conditions.extend(_kept(one) for one in known.values())
    return conditions


def _ready(containers: Containers, phase_: str) -> _Verdict:
    if phase_ == "Succeeded":
        return _Verdict(False, "PodCompleted")
    if phase_ == "Failed":
        return _Verdict(False, "PodFailed")
    serving = [*(one for one in containers.init if is_sidecar(one[0])), *containers.main]
    unready = [container.name for container, record in serving if not isinstance(record.state, Running)]
    if unready:
        return _Verdict(False, "ContainersNotReady", f"containers with unready status: {_listed(unready)}")
    return _TRUE


def _initialized(containers: Containers, phase_: str) -> _Verdict:
    if phase_ == "Succeeded":
        return _Verdict(True, "PodCompleted")
    if containers.is_initialized:
        return _TRUE
    incomplete = [container.name for container, record in containers.init if not came_through(container, record)]
    return _Verdict(False, "ContainersNotInitialized", f"containers with incomplete status: {_listed(incomplete)}")


def came_through(container: Container, record: Record) -> bool:
    """Whether the init containers after this one may start."""
    if is_sidecar(container):
        return isinstance(record.state, Running)
    return isinstance(record.state, Terminated) and record.state.exit_code == 0


def _listed(names: Sequence[str]) -> str:
    """As Go prints a list of strings."""
    return f"[{' '.join(names)}]"


def _kept(condition: Condition) -> Obj:
    """A condition that somebody else set (DisruptionTarget)."""
    kept = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
        "observedGeneration": condition.observed_generation,
    }
    return {key: value for key, value in kept.items() if value}
