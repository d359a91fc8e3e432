"""The life of a pod on its node: state and time in, next status and wake-up time out.

    bound ─▶ (refused) ─▶ Failed
      └────▶ starting ─▶ Running ─▶ (lifetime over) ─▶ Succeeded | Failed | restarted, with back-off
                │           ├─────▶ (deleted) ─▶ stopping ─▶ Failed | Succeeded ─▶ gone
                │           └─────▶ (sent away by the node) ─▶ stopping ─▶ Failed
                └▶ something is missing: waits for it

How long a container lives and how it ends, its `ContainerRuntime` says. What the pod's status does not hold
(back-offs) is lost with the process, as with a kubelet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.objects import Obj
from fairlead.api.pods import FINISHED, Container, Pod
from fairlead.node.container_runtime import ContainerRuntime, Exit
from fairlead.node.container_sync import DEFAULT_GRACE_SECONDS, ContainerSync, Note, Pull, field_path
from fairlead.node.containers import (
    NEVER_SEEN,
    RESTARTING_ALL,
    ContainerRecord,
    RunningState,
    Stopping,
    TerminatedState,
    WaitingState,
    record_from_status,
)
from fairlead.node.grace_periods import LEAST_STOP_SECONDS, stop_timeout
from fairlead.node.resize import IN_PROGRESS, POD_LEVEL, PodSize
from fairlead.node.resize_progress import (
    ResizeProgress,
    allocated_by_container,
    remembered_pod_level,
    remembered_progress,
    wants_resize,
)
from fairlead.node.resource_claims import FAILED as FAILED_CLAIMS
from fairlead.node.resource_claims import told
from fairlead.node.restarts import LONGEST_SECONDS
from fairlead.node.start_requirements import NOTHING, Found, needs_of, volume_problem
from fairlead.node.status import (
    ALL_RESTARTING,
    Containers,
    PodAddresses,
    final_phase,
    is_init_done,
    is_readiness_outdated,
    is_sidecar,
    phase,
    pod_status,
)
from fairlead.runtime.clock import parse_timestamp, timestamp

#: The reason of the event that tells of a sandbox that is lost, and its message.
SANDBOX_CHANGED: Final = "SandboxChanged"
_SANDBOX_CHANGED_MESSAGE: Final = "Pod sandbox changed, it will be killed and re-created."
#: How long a kubelet takes at least to see that all containers of a pod are gone that is to run anew.
RESTART_ALL_SECONDS: Final = 1.0
_CAME_THROUGH: Final = TerminatedState(0, "Completed")
#: The reason of a pod that has run too long, and its message.
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
_DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"
#: A container, its record, and whether it is an init container.
_Entry: TypeAlias = tuple[Container, ContainerRecord, bool]


class PodStep(msgspec.Struct, frozen=True):
    """What to do now, and when to look again (seconds since the epoch; None: at the next change)."""

    status: Obj | None = None
    is_gone: bool = False
    #: Its spec desires other resources than it is allocated: the node decides.
    wants_resize: bool = False
    wake_at: float | None = None


class PodKill(msgspec.Struct, frozen=True):
    """The node ends the pod: it needs the room for another, or is short of a resource."""

    #: Phase, reason and message of its end, and the condition to add.
    status: Obj
    condition: Obj | None
    stop_seconds: int
    since: float


class PodRun:
    """One pod on its node. `step` may be called at any time, and repeats its result until `reported` is called."""

    __slots__ = (
        "_began",
        "_has_changed",
        "_has_sandbox",
        "_is_ending",
        "_is_initialized",
        "_is_over",
        "_is_stopping",
        "_is_to_go_on",
        "_longest_back_off",
        "_lost_at",
        "_notes",
        "_pod_level",
        "_problem",
        "_pulls",
        "_records",
        "_resize",
        "_restarting_since",
        "_runtime",
        "_told_generation",
        "address",
        "corrects_until",
        "deleted_at",
        "key",
        "kill",
        "needs",
        "reported_version",
        "seen_at",
    )

    def __init__(
        self,
        runtime: ContainerRuntime,
        pod: Pod,
        address: int,
        now: float,
        longest_back_off: float = LONGEST_SECONDS,
    ) -> None:
        self._runtime = runtime
        self._longest_back_off = longest_back_off
        self.seen_at = now
        self._began: float | None = None  # on this node, as its status says
        self.deleted_at: float | None = None
        self.kill: PodKill | None = None
        self.address = address
        self.key = pod.metadata.key
        #: Until when it puts right what others say of its readiness (NeedToReconcilePodReadiness).
        self.corrects_until = 0.0
        #: The pod's resourceVersion after our last status update.
        self.reported_version = ""
        self.needs = needs_of(pod)
        self._records = _remembered(pod, now)
        self._has_sandbox = self._is_initialized = False
        if any(record.has_run for record in self._records.values()):
            self._has_sandbox = True
            self._is_initialized = any(self._records[container.name].has_run for container in pod.spec.containers)
        self._resize = remembered_progress(pod)
        self._pod_level = remembered_pod_level(pod)
        self._is_over = self._is_stopping = self._is_ending = False
        self._lost_at: float | None = None  # when its sandbox was found lost, until that is dealt with
        self._is_to_go_on = False  # in another sandbox
        is_restarting = any((each.type, each.status) == (ALL_RESTARTING, "True") for each in pod.status.conditions)
        self._restarting_since = now if is_restarting else None  # all its containers
        self._problem = ""  # what is wrong with its claims or volumes
        self._pulls: dict[str, Pull] = {}
        self._has_changed = False
        self._told_generation = pod.status.observed_generation  # 0 until its status has told of one
        self._notes: list[Note] = []

    @property
    def is_starting(self) -> bool:
        """Whether a container waits to start."""
        return any(isinstance(record.state, WaitingState) for record in self._records.values())

    @property
    def running(self) -> dict[str, float]:
        """Since when each container runs that runs now, by name."""
        return {
            name: record.state.started_at
            for name, record in self._records.items()
            if isinstance(record.state, RunningState)
        }

    @property
    def has_sandbox(self) -> bool:
        """Its network is set up and its volumes are mounted, or were when it was last heard of."""
        return self._has_sandbox

    @property
    def is_over(self) -> bool:
        """Its containers have ended for good."""
        return self._is_over

    @property
    def is_resizing(self) -> bool:
        """Whether it was allocated something else than it desires when it was last looked at."""
        return self._resize is not None

    def reported(self) -> list[Note]:
        """The status of the last step was written; returns the events to record."""
        self._has_changed = False
        notes, self._notes = self._notes, []
        return notes

    def size(self, pod: Pod) -> PodSize:
        """What the node has allocated to the pod, and what has become of another desired size."""
        resize = self._resize or ResizeProgress()
        allocated = allocated_by_container(self._containers(pod))
        return PodSize(allocated, resize.pending, resize.pending_since, resize.in_progress)

    def in_force(self, pod: Pod) -> Pod:
        """The pod with the resources that its cgroup has, while another size is desired of it."""
        level = self._pod_level
        if level is None or level.resources == level.desired:
            return pod
        spec = msgspec.structs.replace(pod.spec, raw_resources=msgspec.Raw(msgspec.json.encode(level.resources)))
        return msgspec.structs.replace(pod, spec=spec)

    def resized(self, size: PodSize, now: float) -> None:
        """The node has decided about a resize."""
        self._resize = self._resize or ResizeProgress()
        self._resize.take(size, now)
        for name, record in self._records.items():
            record.allocated = size.allocated.get(name, record.allocated)
        if self._pod_level is not None:
            self._pod_level.allocated = size.allocated.get(POD_LEVEL, self._pod_level.allocated)
        self._has_changed = True

    def clock_set(self, seconds: float) -> None:
        """Somebody has set the clock by so much: nothing lasts longer or shorter for that."""
        self.seen_at += seconds
        self.corrects_until += seconds
        self._began, self.deleted_at = _moved(self._began, seconds), _moved(self.deleted_at, seconds)
        self._lost_at = _moved(self._lost_at, seconds)
        self._restarting_since = _moved(self._restarting_since, seconds)
        if self.kill is not None:
            self.kill = msgspec.structs.replace(self.kill, since=self.kill.since + seconds)
        for record in self._records.values():
            record.clock_set(seconds)
        for name, pull in self._pulls.items():
            if pull.back_off is not None:
                self._pulls[name] = pull._replace(back_off=pull.back_off.clock_set(seconds))
        if self._resize is not None:
            self._resize.clock_set(seconds)

    def step(self, pod: Pod, addresses: PodAddresses, now: float, found: Found = NOTHING) -> PodStep:
        """What to do with an admitted pod now; `found` are the existing sources among its needs."""
        if self._told_generation not in (0, pod.metadata.generation):
            self._has_changed = True
        if (due_at := self._due_at(pod)) is None:
            return self._step(pod, addresses, now, found)
        if now >= due_at:
            self._end_overdue(pod, now)
            return self._step(pod, addresses, now, found)
        step = self._step(pod, addresses, now, found)
        return msgspec.structs.replace(step, wake_at=due_at if step.wake_at is None else min(step.wake_at, due_at))

    def _due_at(self, pod: Pod) -> float | None:
        """When it has run long enough: `activeDeadlineSeconds` count from its start on this node."""
        seconds = pod.spec.active_deadline_seconds
        if seconds is None or pod.is_finished or self.kill is not None or self.deleted_at is not None or self._is_over:
            return None
        if self._began is None and (start := pod.status.start_time) is not None:
            self._began = parse_timestamp(start)
        return (self.seen_at if self._began is None else self._began) + seconds

    def _end_overdue(self, pod: Pod, now: float) -> None:
        status = {"phase": "Failed", "reason": DEADLINE_EXCEEDED, "message": _DEADLINE_MESSAGE}
        grace = pod.spec.termination_grace_period_seconds
        self.kill = PodKill(status, None, stop_timeout(DEFAULT_GRACE_SECONDS if grace is None else grace), now)
        self._notes.append(Note(NORMAL, DEADLINE_EXCEEDED, _DEADLINE_MESSAGE))

    def _step(self, pod: Pod, addresses: PodAddresses, now: float, found: Found) -> PodStep:
        if self.deleted_at is not None:
            return self._stop(pod, addresses, self.deleted_at, now)
        if pod.is_finished:
            return PodStep()
        if self.kill is not None:
            return self._end_killed(pod, addresses, self.kill, now)
        if not self._has_sandbox and not self._prepare(pod):
            return self._taken(pod, addresses, now)
        start_at = now if self._has_sandbox else self._runtime.sandbox_ready_at(pod, self.seen_at)
        if now < start_at:
            return self._taken(pod, addresses, now) if math.isinf(start_at) else PodStep(wake_at=start_at)
        containers = self._containers(pod)
        sync = ContainerSync(
            self._runtime,
            self.in_force(pod),
            now,
            self.needs,
            found,
            self._pulls,
            self._notes,
            addresses,
            self._longest_back_off,
        )
        if self._has_sandbox and not self._is_over and self._runtime.has_lost_sandbox(pod):
            if not self._end_with_sandbox(pod, containers, now):
                return PodStep()
            if not self._has_sandbox:
                return self._step(pod, addresses, now, found)
        elif not self._is_over and not self._is_ending and self._mount(pod, containers, found):
            if self._restarting_since is None:
                self._go_on(containers, sync)
            if self._restarting_since is not None:
                self._restart_all(containers, sync, self._restarting_since)
            containers.is_restarting = self._restarting_since is not None
            if self._resize is not None:
                containers.resize_conditions = self._resize.conditions()
        wants = not self._is_over and wants_resize(containers)
        self._has_changed |= sync.has_changed or self._is_ending
        if not self._has_changed and (pod.spec.raw_readiness_gates or now < self.corrects_until):
            self._has_changed = is_readiness_outdated(pod, containers)
        if not self._has_changed:
            return PodStep(wants_resize=wants, wake_at=sync.wake_at)
        reached = phase(pod, containers)
        if reached in FINISHED:
            self._is_ending = not self._have_sidecars_ended(pod, containers, now) or not self._runtime.unprepare(pod)
            if self._is_ending:
                return PodStep()
            self._is_over = True
        return PodStep(self._status(pod, containers, reached, addresses, now), wants_resize=wants, wake_at=sync.wake_at)

    def _taken(self, pod: Pod, addresses: PodAddresses, now: float) -> PodStep:
        """Show once that the node has it, where nobody can say how long it will take to start."""
        if pod.status.start_time is not None and not self._has_changed:
            return PodStep()
        containers = self._containers(pod)
        return PodStep(self._status(pod, containers, phase(pod, containers), addresses, now))

    def _containers(self, pod: Pod) -> Containers:
        records, level = self._records, self._pod_level
        if level is not None:
            level.desired = msgspec.json.decode(pod.spec.raw_resources) if pod.spec.raw_resources else {}
        return Containers(
            [(container, records[container.name]) for container in pod.spec.init_containers],
            [(container, records[container.name]) for container in pod.spec.containers],
            self._ephemeral(pod),
            self._is_initialized,
            self._has_sandbox,
            pod_level=level,
        )

    def _ephemeral(self, pod: Pod) -> list[tuple[Container, ContainerRecord]]:
        """They may come at any time."""
        found: list[tuple[Container, ContainerRecord]] = []
        for container in pod.spec.ephemeral_containers:
            record = self._records.setdefault(container.name, ContainerRecord(WaitingState("ContainerCreating")))
            found.append((container, record))
        return found

    def _status(self, pod: Pod, containers: Containers, reached: str, addresses: PodAddresses, now: float) -> Obj:
        self._told_generation = pod.metadata.generation
        return pod_status(pod, containers, reached, addresses, timestamp(now))

    def _mount(self, pod: Pod, containers: Containers, found: Found) -> bool:
        """Whether the volumes can be mounted; a missing one is recorded as an event once."""
        if self._has_sandbox:
            return True
        problem = volume_problem(self.needs.volumes, found) or self._runtime.mount(pod)
        if problem is None:
            return False
        self._take_problem("FailedMount", problem)
        self._has_sandbox = containers.has_sandbox = not problem
        return not problem

    def _prepare(self, pod: Pod) -> bool:
        """Whether it has the devices of its claims; what is wrong with them is recorded as an event once."""
        problem = self._runtime.prepare(pod)
        if problem:
            self._take_problem(FAILED_CLAIMS, told(problem))
        return problem == ""

    def _take_problem(self, reason: str, problem: str) -> None:
        if problem and problem != self._problem:
            self._notes.append(Note(WARNING, reason, problem))
            self._has_changed = True
        self._problem = problem

    def _end_with_sandbox(self, pod: Pod, containers: Containers, now: float) -> bool:
        """End what runs in a sandbox that is lost; False until it has. Then it is made again, if the pod goes on.

        Containers that ran start again whatever they ended with, and init containers all run anew
        (computePodActions and SyncPod of pkg/kubelet/kuberuntime).
        """
        if self._lost_at is None:
            self._lost_at = now
            self._is_to_go_on = _is_to_go_on(pod, containers)
            if self._is_to_go_on:
                self._notes.append(Note(NORMAL, SANDBOX_CHANGED, _SANDBOX_CHANGED_MESSAGE))
            self._notes += _killing(_running(containers))
            self._has_changed = True
        running = _running(containers)
        grace = pod.spec.termination_grace_period_seconds
        stopping = Stopping(self._lost_at, DEFAULT_GRACE_SECONDS if grace is None else grace)
        if now < self._end(pod, running, stopping, now):
            return False
        if running:
            self._has_changed = True
        if self._is_to_go_on:
            self._begin_again(containers, [record for _, record, is_init in running if not is_init])
        return True

    def _begin_again(self, containers: Containers, were_running: Sequence[ContainerRecord]) -> None:
        reason = _first_state(containers)
        for record in (*(record for _, record in containers.init), *were_running):
            if isinstance(record.state, TerminatedState):
                record.wait(reason)
        self._lost_at = None
        self._has_sandbox = containers.has_sandbox = self._is_initialized = containers.is_initialized = False

    def _go_on(self, containers: Containers, sync: ContainerSync) -> None:
        if self._resize is not None:
            self._resize.advance(containers, sync)
        self._advance(containers, sync)
        if self._resize is not None:
            self._resize.finish(containers, sync)
        if sync.restarts_all and not sync.is_starting:
            self._restarting_since = sync.now
            self._notes += _killing(_running(containers, with_ephemeral=False), "killing")

    def _restart_all(self, containers: Containers, sync: ContainerSync, since: float) -> None:
        """Kill all but ephemeral containers, without their hooks, and a moment later let the pod run anew."""
        running = _running(containers, with_ephemeral=False)
        ends_at = self._end(sync.pod, running, Stopping(since, LEAST_STOP_SECONDS, has_hook=False), sync.now)
        if sync.now < ends_at:
            sync.wake(ends_at)
            return
        records = [record for _, record in (*containers.init, *containers.main)]
        if any(not isinstance(record.state, WaitingState) for record in records):
            sync.has_changed = True
        for record in records:
            record.remove()
        if sync.now < since + RESTART_ALL_SECONDS:
            sync.wake(since + RESTART_ALL_SECONDS)
            return
        for record in records:
            if isinstance(record.state, WaitingState) and record.state.reason == RESTARTING_ALL:
                record.state = _first_state(containers)
        self._restarting_since = None
        self._is_initialized = containers.is_initialized = False
        sync.has_changed = True
        sync.wake(sync.now)

    def _advance(self, containers: Containers, sync: ContainerSync) -> None:
        for container, record in containers.ephemeral:  # before the others, which may be what is to be looked at
            sync.advance(container, record)
        for container, record in containers.init:
            if not self._is_initialized or is_sidecar(container):
                sync.advance(container, record, is_init=True)
            if sync.restarts_all:
                return
            if not self._is_initialized and not is_init_done(container, record):
                return
        self._is_initialized = containers.is_initialized = True
        for container, record in containers.main:
            sync.advance(container, record)

    def _stop(self, pod: Pod, addresses: PodAddresses, deleted_at: float, now: float) -> PodStep:
        """A deleted pod."""
        if pod.is_finished:
            return PodStep(is_gone=True)
        containers = self._containers(pod)
        grace = pod.metadata.deletion_grace_period_seconds or 0
        stop_at = self._wind_down(pod, containers, deleted_at, grace, now)
        if now < stop_at:
            return PodStep(self._status_while_stopping(pod, containers, addresses, now), wake_at=stop_at)
        if not self._runtime.unprepare(pod):
            return PodStep(self._status_while_stopping(pod, containers, addresses, now))
        reached = final_phase([record for _, record in containers.main])
        return PodStep(self._status(pod, containers, reached, addresses, now), is_gone=True)

    def _end_killed(self, pod: Pod, addresses: PodAddresses, kill: PodKill, now: float) -> PodStep:
        """End a pod by the node: the object stays, with the reason in its status."""
        containers = self._containers(pod)
        stop_at = self._wind_down(pod, containers, kill.since, kill.stop_seconds, now)
        if now < stop_at:
            return PodStep(self._status_while_stopping(pod, containers, addresses, now), wake_at=stop_at)
        if not self._runtime.unprepare(pod):
            return PodStep(self._status_while_stopping(pod, containers, addresses, now))
        self._is_over = True
        status = self._status(pod, containers, kill.status["phase"], addresses, now) | kill.status
        if kill.condition is not None:
            status["conditions"].append(kill.condition | {"lastTransitionTime": timestamp(now)})
        return PodStep(status)

    def _status_while_stopping(
        self, pod: Pod, containers: Containers, addresses: PodAddresses, now: float
    ) -> Obj | None:
        """What can be new before all has ended: its generation, and whether it is ready."""
        if not self._has_changed or (reached := phase(pod, containers)) in FINISHED:
            return None
        return self._status(pod, containers, reached, addresses, now)

    def _wind_down(self, pod: Pod, containers: Containers, since: float, grace: float, now: float) -> float:
        """Stop the containers, and kill those that outlive the grace period; returns when all have ended."""
        running = _running(containers)
        if not self._is_stopping:
            self._is_stopping = True
            self._notes += _killing(running)
        stop_at = self._end(pod, running, Stopping(since, grace), now)
        if now >= stop_at:
            _close(containers)
        return stop_at

    def _end(self, pod: Pod, running: Sequence[_Entry], stopping: Stopping, now: float) -> float:
        """Stop these, and kill those that outlive the grace period; returns when all have ended."""
        exits = self._exits(pod, running, stopping)
        stop_at = max((exit_.at for exit_ in exits), default=stopping.since)
        for (container, record, _), exit_ in zip(running, exits, strict=True):
            if math.isinf(exit_.at):
                self._take_readiness(pod, container, record)
        if now >= stop_at:
            for (_, record, _), exit_ in zip(running, exits, strict=True):
                record.end(exit_.code, exit_.at, exit_.reason, exit_.message)
        return stop_at

    def _exits(self, pod: Pod, running: Sequence[_Entry], stopping: Stopping) -> list[Exit]:
        """How these end that are told to stop: sidecars in their turn, after the main containers and those after them.

        Where hooks are left out nobody waits. Source: pkg/kubelet/kuberuntime/kuberuntime_termination_order.go.
        """
        exits: dict[str, Exit] = {}
        turn = stopping.since

        def stop(container: Container, *, is_init: bool, turn: float = 0.0) -> Exit:
            told = self._runtime.stop(pod, container, msgspec.structs.replace(stopping, turn=turn), is_init=is_init)
            exits[container.name] = told
            return told

        in_turn = running if stopping.has_hook else ()
        sidecars = {container.name: container for container, _, _ in in_turn if is_sidecar(container)}
        main = {container.name for container in pod.spec.containers}
        for container, _, is_init in running:
            if container.name not in sidecars:
                ends_at = stop(container, is_init=is_init).at
                turn = max(turn, ends_at) if container.name in main else turn
        for container in reversed(sidecars.values()):
            turn = max(turn, stop(container, is_init=True, turn=turn).at)
        return [exits[container.name] for container, _, _ in running]

    def _take_readiness(self, pod: Pod, container: Container, record: ContainerRecord) -> None:
        """It is probed until it has ended, and no longer shown as ready once it says so."""
        if container.readiness_probe is None or not isinstance(record.state, RunningState):
            return
        probed = self._runtime.probed(pod, container, record.state.started_at)
        if probed is not None and probed.is_ready != record.is_ready:
            record.is_ready, self._has_changed = probed.is_ready, True

    def _have_sidecars_ended(self, pod: Pod, containers: Containers, now: float) -> bool:
        """Stop what ran beside main containers that have ended; False while nobody can say when that ends."""
        running = _running(containers)
        exits = self._exits(pod, running, Stopping(now, math.inf))
        if any(math.isinf(exit_.at) for exit_ in exits):
            return False
        for (_, record, _), exit_ in zip(running, exits, strict=True):
            record.end(exit_.code, now, exit_.reason, exit_.message)
        return True


def _moved(at: float | None, seconds: float) -> float | None:
    return None if at is None else at + seconds


def _running(containers: Containers, *, with_ephemeral: bool = True) -> list[_Entry]:
    entries = [(*entry, True) for entry in containers.init]
    entries += [(*entry, False) for entry in containers.main]
    if with_ephemeral:
        entries += [(*entry, False) for entry in containers.ephemeral]
    return [entry for entry in entries if isinstance(entry[1].state, RunningState)]


def _first_state(containers: Containers) -> WaitingState:
    return WaitingState("PodInitializing" if containers.init else "ContainerCreating")


def _killing(running: Sequence[_Entry], message: str = "") -> list[Note]:
    return [
        Note(
            NORMAL,
            "Killing",
            message or f"Stopping container {container.name}",
            field_path(container, is_init=is_init),
        )
        for container, _, is_init in running
    ]


def _is_to_go_on(pod: Pod, containers: Containers) -> bool:
    """Whether anything of the pod would run in a new sandbox."""
    policy = pod.spec.restart_policy
    if policy == "Never":
        return not any(record.has_run for _, record in containers.all)
    ends = [record.state for _, record in containers.main]
    return policy == "Always" or not all(isinstance(end, TerminatedState) and end.exit_code == 0 for end in ends)


def _close(containers: Containers) -> None:
    """Final states of waiting containers: the last termination, or "never seen" for those that never started."""
    for _, record in containers.all:
        if isinstance(record.state, WaitingState) and record.last is not None:
            record.state, record.last = record.last, None
    if containers.is_initialized or not containers.init:
        for _, record in (*containers.main, *containers.ephemeral):
            if isinstance(record.state, WaitingState):
                record.state = NEVER_SEEN


def _remembered(pod: Pod, now: float) -> dict[str, ContainerRecord]:
    """The records of a pod that this process has not seen before, from its status."""
    init, main, status = pod.spec.init_containers, pod.spec.containers, pod.status
    first = WaitingState("PodInitializing" if init else "ContainerCreating")
    if status.phase != "Running" and not status.container_statuses:
        return {
            container.name: ContainerRecord(first, allocated=container.resources or {}) for container in (*init, *main)
        }
    every = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    known = {reported.name: reported for reported in every}
    is_resizing = any(condition.type == IN_PROGRESS for condition in status.conditions)
    began = parse_timestamp(status.start_time) if status.start_time else now

    def record(container: Container, unknown: RunningState | TerminatedState) -> ContainerRecord:
        if (reported := known.get(container.name)) is not None:
            return record_from_status(container, reported, is_resizing=is_resizing)
        resources = container.resources or {}
        state = unknown if status.phase == "Running" else first
        return ContainerRecord(state, allocated=resources, resources=resources)

    found = {
        container.name: record(container, RunningState(began) if is_sidecar(container) else _CAME_THROUGH)
        for container in init
    }
    found |= {container.name: record(container, RunningState(began)) for container in main}
    joined = (container for container in pod.spec.ephemeral_containers if container.name in known)
    return found | {container.name: record(container, RunningState(began)) for container in joined}
