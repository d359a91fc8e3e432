"""The pod status that a node reports: phase, conditions, containers.

Sources: getPhase of pkg/kubelet/kubelet_pods.go, pkg/kubelet/status/generate.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fairlead.api.meta import Condition
from fairlead.api.objects import Obj
from fairlead.api.pods import FINISHED, Container, Pod
from fairlead.golang.quoting import go_quote
from fairlead.node.containers import (
    ContainerRecord,
    RunningState,
    TerminatedState,
    WaitingState,
    container_status,
    ephemeral_status,
)
from fairlead.node.resize import RESIZE_CONDITIONS
from fairlead.node.restarts import init_runs_again, may_restart_all, runs_again

#: The condition of a pod whose containers are all stopped to run anew.
ALL_RESTARTING: Final = "AllContainersRestarting"


class PodAddresses(msgspec.Struct, frozen=True):
    """The addresses of a pod and of its node."""

    host_ip: str
    pod_ip: str

    def of(self, pod: Pod) -> str:
        """The pod's address: what has been shown counts where nobody knows another."""
        return self.host_ip if pod.spec.host_network else (self.pod_ip or pod.status.pod_ip)


class PodLevel(msgspec.Struct):
    """The resources of a pod as a whole: what it is allocated, what its cgroup has, and what it asks for now."""

    allocated: Obj
    resources: Obj
    desired: Obj = msgspec.field(default_factory=dict)


class Containers(msgspec.Struct):
    """The containers of a pod in the order of its spec, each with its record."""

    init: list[tuple[Container, ContainerRecord]] = msgspec.field(default_factory=list)
    main: list[tuple[Container, ContainerRecord]] = msgspec.field(default_factory=list)
    #: Those that joined later, to look at the others.
    ephemeral: list[tuple[Container, ContainerRecord]] = msgspec.field(default_factory=list)
    #: The init containers have all succeeded once; after that they hold up nothing.
    is_initialized: bool = False
    #: Its network is set up and its volumes are mounted.
    has_sandbox: bool = False
    #: All of them are stopped, to run anew (KEP-5532).
    is_restarting: bool = False
    #: The conditions of a resize that is not done.
    resize_conditions: Sequence[Obj] = ()
    #: Of pods that have resources of their own.
    pod_level: PodLevel | None = None

    @property
    def has_started(self) -> bool:
        """Whether any main container has run: what holds it up after that is a new sandbox."""
        return any(record.has_run for _, record in self.main)

    @property
    def all(self) -> list[tuple[Container, ContainerRecord]]:
        return [*self.init, *self.main, *self.ephemeral]


def is_sidecar(container: Container) -> bool:
    """Whether it is an init container that keeps running beside the main ones."""
    return container.restart_policy == "Always"


def phase(pod: Pod, containers: Containers) -> str:
    policy = pod.spec.restart_policy
    if not containers.is_initialized:
        if any(_failed_for_good(*entry, policy) for entry in containers.init):
            return "Failed"
        if not containers.has_started or any(_is_coming(*entry) for entry in containers.init):
            return "Pending"
    records = [record for _, record in containers.main]
    if any(not record.has_run for record in records):
        return "Pending"
    if any(isinstance(record.state, RunningState) for record in records):
        return "Running"
    if any(_is_to_run(*entry, policy) for entry in containers.main):
        return "Running"
    return final_phase(records)


def final_phase(records: Sequence[ContainerRecord]) -> str:
    """The phase of a pod whose containers have all ended for good."""
    has_failed = any(record.ended is None or record.ended.exit_code != 0 for record in records)
    return "Failed" if has_failed else "Succeeded"


def _failed_for_good(container: Container, record: ContainerRecord, policy: str) -> bool:
    state = record.state
    if not isinstance(state, TerminatedState) or state.exit_code == 0:
        return False
    return not init_runs_again(container, policy, state.exit_code)


def _is_coming(container: Container, record: ContainerRecord) -> bool:
    """Whether it is a plain init container that has not come through yet, and not failed either."""
    return not is_sidecar(container) and (isinstance(record.state, RunningState) or not record.has_run)


def _is_to_run(container: Container, record: ContainerRecord, policy: str) -> bool:
    if isinstance(record.state, WaitingState):
        return True
    return isinstance(record.state, TerminatedState) and runs_again(container, policy, record.state.exit_code)


def pod_status(pod: Pod, containers: Containers, phase_: str, addresses: PodAddresses, moment: str) -> Obj:
    """The whole status; `moment` is the transition time of what changed."""
    ip = addresses.of(pod)
    status: Obj = {
        "phase": phase_,
        "observedGeneration": pod.metadata.generation,
        "conditions": _conditions(pod, containers, phase_, moment),
        "hostIP": addresses.host_ip,
        "hostIPs": [{"ip": addresses.host_ip}],
        "startTime": pod.status.start_time or moment,
    }
    if containers.has_sandbox or pod.spec.host_network:
        status["podIP"], status["podIPs"] = ip, [{"ip": ip}]
    if containers.init:
        status["initContainerStatuses"] = [container_status(*entry, is_init=True) for entry in containers.init]
    if (level := containers.pod_level) is not None and phase_ not in FINISHED:
        status["resources"] = level.resources
        if requests := level.allocated.get("requests"):
            status["allocatedResources"] = requests
    status["containerStatuses"] = [container_status(*entry) for entry in containers.main]
    if containers.ephemeral:
        status["ephemeralContainerStatuses"] = [ephemeral_status(*entry) for entry in containers.ephemeral]
    return status


def _resize_conditions(found: Sequence[Obj], known: Mapping[str, Condition], moment: str) -> list[Obj]:
    """They come first. A pending or running resize that turns into another keeps its time."""
    since = {kind: condition.last_transition_time for kind, condition in known.items()}
    return [condition | {"lastTransitionTime": since.get(condition["type"]) or moment} for condition in found]


class _Verdict(msgspec.Struct, frozen=True):
    holds: bool
    reason: str = ""
    message: str = ""


_TRUE = _Verdict(True)


def _conditions(pod: Pod, containers: Containers, phase_: str, moment: str) -> list[Obj]:
    containers_ready = _ready(containers, phase_)
    verdicts = {
        "PodReadyToStartContainers": _Verdict(containers.has_sandbox and phase_ not in FINISHED),
        "Initialized": _initialized(containers, phase_),
        "Ready": _gated(pod, containers_ready),
        "ContainersReady": containers_ready,
        "PodScheduled": _TRUE,
    }
    if may_restart_all(pod):
        verdicts[ALL_RESTARTING] = _restarting(containers, phase_)
    known = {condition.type: condition for condition in pod.status.conditions}
    conditions = [] if phase_ in FINISHED else _resize_conditions(containers.resize_conditions, known, moment)
    for kind in RESIZE_CONDITIONS:
        known.pop(kind, None)
    for kind, verdict in verdicts.items():
        status = "True" if verdict.holds else "False"
        old = known.pop(kind, None)
        since = old.last_transition_time if old and old.status == status and old.last_transition_time else moment
        condition: Obj = {"type": kind, "status": status, "lastTransitionTime": since}
        if verdict.reason:
            condition["reason"] = verdict.reason
        if verdict.message:
            condition["message"] = verdict.message
        if pod.metadata.generation and kind != ALL_RESTARTING:
            condition["observedGeneration"] = pod.metadata.generation
        conditions.append(condition)
    conditions.extend(_kept(condition) for condition in known.values())
    return conditions


def _ready(containers: Containers, phase_: str) -> _Verdict:
    if phase_ == "Succeeded":
        return _Verdict(False, "PodCompleted")
    if phase_ == "Failed":
        return _Verdict(False, "PodFailed")
    serving = [*(entry for entry in containers.init if is_sidecar(entry[0])), *containers.main]
    unready = [
        container.name
        for container, record in serving
        if not (isinstance(record.state, RunningState) and record.is_ready)
    ]
    if unready:
        return _Verdict(False, "ContainersNotReady", f"containers with unready status: {_listed(unready)}")
    return _TRUE


def _restarting(containers: Containers, phase_: str) -> _Verdict:
    if phase_ in FINISHED:
        return _Verdict(False, "PodCompleted" if phase_ == "Succeeded" else "PodFailed")
    if not containers.is_restarting:
        return _Verdict(False)
    return _Verdict(True, "RestartAllContainersStarted", "container exited with restart policy rule")


def _gated(pod: Pod, containers_ready: _Verdict) -> _Verdict:
    """A pod that asks for it is ready only when the conditions that it names are true."""
    if not containers_ready.holds or not pod.spec.raw_readiness_gates:
        return containers_ready
    statuses = {condition.type: condition.status for condition in pod.status.conditions}
    problems = []
    for gate in pod.spec.readiness_gates:
        kind, status = go_quote(gate.condition_type), statuses.get(gate.condition_type)
        if status is None:
            problems.append(f"corresponding condition of pod readiness gate {kind} does not exist.")
        elif status != "True":
            problems.append(f'the status of pod readiness gate {kind} is not "True", but {status}')
    return _Verdict(False, "ReadinessGatesNotReady", ", ".join(problems)) if problems else _TRUE


def is_readiness_outdated(pod: Pod, containers: Containers) -> bool:
    """Whether somebody else has said that the pod is ready, or is not; or has set a condition that a readiness gate
    names.
    """
    shown = next((condition for condition in pod.status.conditions if condition.type == "Ready"), None)
    if shown is None:
        return bool(pod.spec.raw_readiness_gates)
    wanted = _gated(pod, _ready(containers, phase(pod, containers)))
    return (shown.status == "True", shown.message) != (wanted.holds, wanted.message)


def _initialized(containers: Containers, phase_: str) -> _Verdict:
    if phase_ == "Succeeded":
        return _Verdict(True, "PodCompleted")
    if containers.is_initialized or containers.has_started:
        return _TRUE
    incomplete = [container.name for container, record in containers.init if not is_init_done(container, record)]
    return _Verdict(False, "ContainersNotInitialized", f"containers with incomplete status: {_listed(incomplete)}")


def is_init_done(container: Container, record: ContainerRecord) -> bool:
    """Whether the init containers after this one may start."""
    if is_sidecar(container):
        return isinstance(record.state, RunningState) and record.is_started
    return isinstance(record.state, TerminatedState) and record.state.exit_code == 0


def _listed(names: Sequence[str]) -> str:
    """In Go's notation of a list of strings."""
    return f"[{' '.join(names)}]"


def _kept(condition: Condition) -> Obj:
    """A condition that another component set (DisruptionTarget)."""
    kept = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
        "observedGeneration": condition.observed_generation,
    }
    return {key: value for key, value in kept.items() if value}
