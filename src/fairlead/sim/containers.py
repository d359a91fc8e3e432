"""What a simulated pod does on its node: state and time in, next status and wake-up time out.

    bound ─▶ (refused) ─▶ Failed
      └────▶ starting ─▶ Running ─▶ (lifetime over) ─▶ Succeeded | Failed | restarted, with back-off
                │           ├─────▶ (deleted) ─▶ stopping ─▶ Failed | Succeeded ─▶ gone
                │           └─────▶ (sent away by the node) ─▶ stopping ─▶ Failed
                └▶ something is missing: waits for it

How long a container lives and how it ends, a pod declares (`behaviour.py`); what a kubelet makes of that is in
`fairlead/node/`. What is not in the pod's status (back-offs) is forgotten with the process, as a kubelet forgets it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.pods import FINISHED, Container, Pod
from fairlead.client.events import NORMAL, WARNING
from fairlead.node.containers import NEVER_SEEN, SIGKILLED, Record, Running, Terminated, Waiting, remembered
from fairlead.node.starting import NOTHING, Found, needs_of, volume_problem
from fairlead.node.status import Containers, Place, came_through, final_phase, is_sidecar, phase, pod_status
from fairlead.runtime.clock import parse_timestamp, timestamp
from fairlead.sim.behaviour import behaviour_of, start_seconds
from fairlead.sim.turn import Note, Pull, Turn, path_of

_CAME_THROUGH: Final = Terminated(0, "Completed")


class Step(msgspec.Struct, frozen=True):  # made at every step, ten times as fast as a dataclass
    """What to do now, and when to look again (seconds since the epoch; None: at the next change)."""

    status: Obj | None = None
    is_gone: bool = False
    is_resized: bool = False
    wake_at: float | None = None


class PodKill(msgspec.Struct, frozen=True):
    """The node has no room for the pod any more, or not enough of something."""

    #: Phase, reason and message of its end, and the condition that tells of it.
    status: Obj
    condition: Obj | None
    stop_seconds: int
    since: float


class PodRun:
    """One pod on its node. A step may be taken at any time; what it says is said again until it is `reported`."""

    __slots__ = (
        "_has_changed",
        "_has_sandbox",
        "_is_initialized",
        "_is_over",
        "_is_stopping",
        "_notes",
        "_problem",
        "_pulls",
        "_records",
        "address",
        "deleted_at",
        "kill",
        "needs",
        "reported_version",
        "seen_at",
    )

    def __init__(self, pod: Pod, address: int, now: float) -> None:
        self.seen_at = now
        self.deleted_at: float | None = None
        self.kill: PodKill | None = None
        self.address = address
        #: The resourceVersion that the pod got by what was last reported of it.
        self.reported_version = ""
        self.needs = needs_of(pod)
        self._records = _remembered(pod, now)
        self._has_sandbox = self._is_initialized = False
        if any(record.has_run for record in self._records.values()):
            self._has_sandbox = True
            self._is_initialized = any(self._records[one.name].has_run for one in pod.spec.containers)
        self._is_over = self._is_stopping = False
        self._problem = ""  # what is wrong with its volumes
        self._pulls: dict[str, Pull] = {}
        self._has_changed = False
        self._notes: list[Note] = []

    @property
    def is_starting(self) -> bool:
        """Whether a container waits to start."""
        return any(isinstance(record.state, Waiting) for record in self._records.values())

    def reported(self) -> list[Note]:
        """The status of the last step is known to the server; the events to record of it."""
        self._has_changed = False
        notes, self._notes = self._notes, []
        return notes

    def step(self, pod: Pod, place: Place, now: float, found: Found = NOTHING) -> Step:
        """What is to be done about an admitted pod now; `found` is what there is of what it needs."""
        if self.deleted_at is not None:
            return self._stop(pod, place, self.deleted_at, now)
        if pod.is_finished:
            return Step()
        if self.kill is not None:
            return self._end_killed(pod, place, self.kill, now)
        start_at = self.seen_at + start_seconds(pod)
        if not self._has_sandbox and now < start_at:
            return Step(wake_at=start_at)
        turn = Turn(pod, now, self.needs, found, self._pulls, self._notes)
        containers = self._containers(pod)
        is_resized = self._resize(containers)
        if not self._is_over and self._mount(containers, found):
            self._go_on(containers, turn)
        self._has_changed |= turn.has_changed
        if not self._has_changed:
            return Step(wake_at=turn.wake_at)
        reached = phase(pod, containers)
        if reached in FINISHED:
            self._is_over = True
            _end_sidecars(pod, containers, now)
        return Step(self._status(pod, containers, reached, place, now), is_resized=is_resized, wake_at=turn.wake_at)

    def _containers(self, pod: Pod) -> Containers:
        records = self._records
        return Containers(
            [(one, records[one.name]) for one in pod.spec.init_containers],
            [(one, records[one.name]) for one in pod.spec.containers],
            self._is_initialized,
            self._has_sandbox,
        )

    def _status(self, pod: Pod, containers: Containers, reached: str, place: Place, now: float) -> Obj:
        return pod_status(pod, containers, reached, place, timestamp(now))

    def _resize(self, containers: Containers) -> bool:
        """Give every running container what its spec says now (KEP-1287): simulated ones need no restart for that."""
        is_resized = False
        for container, record in containers.main:
            wanted = container.resources or {}
            if isinstance(record.state, Running) and record.resources != wanted:
                record.resources = wanted
                is_resized = self._has_changed = True
        return is_resized

    def _mount(self, containers: Containers, found: Found) -> bool:
        """Whether the pod has what every container of it needs; a volume that is missing is told once."""
        if self._has_sandbox:
            return True
        problem = volume_problem(self.needs.volumes, found)
        if problem and problem != self._problem:
            self._notes.append(Note(WARNING, "FailedMount", problem))
            self._has_changed = True
        self._problem = problem
        self._has_sandbox = containers.has_sandbox = not problem
        return not problem

    def _go_on(self, containers: Containers, turn: Turn) -> None:
        for container, record in containers.init:
            if not self._is_initialized or is_sidecar(container):
                turn.tick(container, record, is_init=True)
            if not self._is_initialized and not came_through(container, record):
                return
        self._is_initialized = containers.is_initialized = True
        for container, record in containers.main:
            turn.tick(container, record)

    def _stop(self, pod: Pod, place: Place, deleted_at: float, now: float) -> Step:
        """A deleted pod."""
        if pod.is_finished:
            return Step(is_gone=True)
        containers = self._containers(pod)
        grace = pod.metadata.deletion_grace_period_seconds or 0
        stop_at = self._wind_down(pod, containers, deleted_at, grace, now)
        if now < stop_at:
            return Step(wake_at=stop_at)
        reached = final_phase([record for _, record in containers.main])
        return Step(self._status(pod, containers, reached, place, now), is_gone=True)

    def _end_killed(self, pod: Pod, place: Place, kill: PodKill, now: float) -> Step:
        """A pod that has to go stays as an object, with what happened to it."""
        containers = self._containers(pod)
        stop_at = self._wind_down(pod, containers, kill.since, kill.stop_seconds, now)
        if now < stop_at:
            return Step(wake_at=stop_at)
        self._is_over = True
        status = self._status(pod, containers, kill.status["phase"], place, now) | kill.status
        if kill.condition is not None:
            status["conditions"].append(kill.condition | {"lastTransitionTime": timestamp(now)})
        return Step(status)

    def _wind_down(self, pod: Pod, containers: Containers, since: float, grace: float, now: float) -> float:
        """Tell the containers to stop, and kill them when their grace is over; when that is, or was."""
        running = [(*one, True) for one in containers.init] + [(*one, False) for one in containers.main]
        running = [one for one in running if isinstance(one[1].state, Running)]
        if not self._is_stopping:
            self._is_stopping = True
            self._notes += [
                Note(NORMAL, "Killing", f"Stopping container {container.name}", path_of(container, is_init=is_init))
                for container, _, is_init in running
            ]
        took = {one.name: behaviour_of(pod, one, is_init=is_init) for one, _, is_init in running}
        stop_at = since + max((min(one.stop, grace) for one in took.values()), default=0.0)
        if now < stop_at:
            return stop_at
        for container, record, _ in running:
            behaviour = took[container.name]
            was_killed = behaviour.stop > grace
            record.end(SIGKILLED if was_killed else behaviour.stop_exit_code, since + min(behaviour.stop, grace))
        _close(containers)
        return stop_at


def _end_sidecars(pod: Pod, containers: Containers, now: float) -> None:
    """The pod is over: what keeps running beside the others is stopped."""
    for container, record in containers.init:
        if isinstance(record.state, Running):
            record.end(behaviour_of(pod, container, is_init=True).stop_exit_code, now)


def _close(containers: Containers) -> None:
    """Nothing of the pod will run any more: what waits ended as it did before, or was never seen."""
    for _, record in [*containers.init, *containers.main]:
        if isinstance(record.state, Waiting) and record.last is not None:
            record.state, record.last = record.last, None
    if containers.is_initialized or not containers.init:
        for _, record in containers.main:
            if isinstance(record.state, Waiting):
                record.state = NEVER_SEEN


def _remembered(pod: Pod, now: float) -> dict[str, Record]:
    """The containers of a pod that the node sees for the first time, as its status tells of them."""
    init, main, status = pod.spec.init_containers, pod.spec.containers, pod.status
    first = Waiting("PodInitializing" if init else "ContainerCreating")
    if status.phase != "Running" and not status.container_statuses:
        return {one.name: Record(first) for one in (*init, *main)}
    known = {one.name: one for one in (*status.init_container_statuses, *status.container_statuses)}
    began = parse_timestamp(status.start_time) if status.start_time else now

    def record(container: Container, unknown: Running | Terminated) -> Record:
        if (told := known.get(container.name)) is not None:
            return remembered(told)
        return Record(unknown if status.phase == "Running" else first, resources=container.resources or {})

    found = {one.name: record(one, Running(began) if is_sidecar(one) else _CAME_THROUGH) for one in init}
    return found | {one.name: record(one, Running(began)) for one in main}
