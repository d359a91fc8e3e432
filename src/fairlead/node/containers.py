"""The record that a node keeps of one container, and its entry in the pod's status."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead.api.objects import Obj
from fairlead.api.pods import Container, ContainerStatus
from fairlead.node.restarts import LONGEST_SECONDS, BackOff, first_try
from fairlead.runtime.clock import parse_timestamp, timestamp

#: Exit codes of processes that a signal ended: 128 plus its number.
SIGKILLED: Final = 137
SIGTERMED: Final = 143
#: The reason of a container's end whose memory the kernel took.
OOM_KILLED: Final = "OOMKilled"
#: What a container ended with that ran when the machine went down, so that nobody saw how; and the reason.
LOST: Final = 255
UNKNOWN: Final = "Unknown"
#: While all containers of a pod are made to run anew, and what their last runs ended with then, whatever it was.
RESTARTING_ALL: Final = "RestartingAllContainers"
_REMOVED: Final = "The container is removed because RestartAllContainers in place"
#: The restart count is an int32, and clients may have written any value.
MOST_RESTARTS: Final = 2**31 - 1


class WaitingState(msgspec.Struct, frozen=True):
    reason: str
    message: str = ""

    def encode(self) -> Obj:
        fields = {"reason": self.reason, "message": self.message} if self.message else {"reason": self.reason}
        return {"waiting": fields}


class RunningState(msgspec.Struct, frozen=True):
    started_at: float

    def encode(self) -> Obj:
        return {"running": {"startedAt": timestamp(self.started_at)}}


class TerminatedState(msgspec.Struct, frozen=True):
    """The times are None if they are unknown; they are shown as the clock was then."""

    exit_code: int
    reason: str
    started_at: float | None = None
    finished_at: float | None = None
    message: str = ""
    container_id: str = ""
    #: By how much the clock was set since then.
    set_by: float = 0.0

    @property
    def ended_at(self) -> float | None:
        """When it ended, by the clock as it is now."""
        return None if self.finished_at is None else self.finished_at + self.set_by

    def clock_set(self, seconds: float) -> TerminatedState:
        return replace(self, set_by=self.set_by + seconds)

    def encode(self) -> Obj:
        fields: Obj = {"exitCode": self.exit_code, "reason": self.reason}
        if self.message:
            fields["message"] = self.message
        for name, at in (("startedAt", self.started_at), ("finishedAt", self.finished_at)):
            fields[name] = None if at is None else timestamp(at)
        if self.container_id:
            fields["containerID"] = self.container_id
        return {"terminated": fields}


LifecycleState = WaitingState | RunningState | TerminatedState

#: The final state of a container that never started, in a pod that has ended (TerminatePod of the status manager).
NEVER_SEEN: Final = TerminatedState(
    SIGKILLED, "ContainerStatusUnknown", message="The container could not be located when the pod was terminated"
)


#: What is left of a container that was removed for its pod to run anew.
_REMOVED_RUN: Final = TerminatedState(SIGKILLED, RESTARTING_ALL, message=_REMOVED)


class Stopping(msgspec.Struct, frozen=True):
    """A container was told to stop then, and is killed once the grace period is over."""

    since: float
    grace_seconds: float
    #: Else its `preStop` hook is left out.
    has_hook: bool = True
    #: Before then it gets no signal, unless its time is over.
    turn: float = 0.0


class ContainerRecord(msgspec.Struct, gc=False):
    """One container: its state, its last termination, and its restarts."""

    state: LifecycleState
    last: TerminatedState | None = None
    restarts: int = 0
    container_id: str = ""
    image_id: str = ""
    back_off: BackOff | None = None
    #: What the node gives it, and what its current run has.
    allocated: dict[str, Any] = msgspec.field(default_factory=dict)
    resources: dict[str, Any] = msgspec.field(default_factory=dict)
    stopping: Stopping | None = None
    #: It has passed its readiness probe, or has none; and it has failed it before.
    is_ready: bool = True
    has_failed_probe: bool = False
    #: It has passed its startup probe, or has none.
    is_started: bool = True
    #: How often its startup probe has failed, or its liveness probe once it has started.
    probe_failures: int = 0
    #: The node ended its latest run, and its back-off was over by then.
    restarts_at_once: bool = False
    #: It was removed, and starts as if for the first time; the restart is counted already.
    is_removed: bool = False
    #: What its status shows of its latest run besides.
    shown: Obj | None = None

    @property
    def has_run(self) -> bool:
        return self.last is not None or not isinstance(self.state, WaitingState)

    @property
    def next_attempt(self) -> int:
        """How often it will have been restarted when it starts next."""
        return self.restarts if self.ended is None or self.is_removed else min(self.restarts + 1, MOST_RESTARTS)

    def start(
        self,
        container: Container,
        now: float,
        container_id: str,
        image_id: str,
        longest_back_off: float = LONGEST_SECONDS,
    ) -> None:
        """The container starts now, for the first time or again."""
        self.restarts = self.next_attempt
        if (ended := self.ended) is not None:
            failed_at = now if ended.ended_at is None else ended.ended_at
            is_noted = not self.restarts_at_once or self.last is not None  # a kubelet takes no note of the first kill
            if is_noted and not self.is_removed:
                self.back_off = (
                    self.back_off.tried(failed_at, now) if self.back_off else first_try(now, longest_back_off)
                )
            self.last = self.last if self.is_removed else ended
        self.container_id, self.image_id = container_id, image_id
        self.resources = self.allocated
        self.restarts_at_once = self.has_failed_probe = self.is_removed = False
        self.is_started = container.startup_probe is None
        self.is_ready = self.is_started and container.readiness_probe is None
        self.probe_failures = 0
        self.state = RunningState(now)

    def end(self, exit_code: int, now: float, reason: str = "", message: str = "") -> None:
        assert isinstance(self.state, RunningState)
        reason = reason or ("Error" if exit_code else "Completed")
        self.state = TerminatedState(exit_code, reason, self.state.started_at, now, message, self.container_id)
        if self.stopping is not None:
            self.stopping, self.restarts_at_once = None, self._is_free(now)

    def wait(self, waiting: WaitingState) -> None:
        """The container waits for that reason; a termination becomes its last state."""
        if isinstance(self.state, TerminatedState):
            self.last = self.state
        self.state = waiting

    def remove(self) -> None:
        """Its pod runs anew: nothing is left of the container, and its back-off waits for the next end."""
        if not self.has_run or self.is_removed:
            return
        self.restarts, self.is_removed = self.next_attempt, True
        if not isinstance(self.state, WaitingState):
            self.last, self.state = _REMOVED_RUN, WaitingState(RESTARTING_ALL, _REMOVED)

    @property
    def ended(self) -> TerminatedState | None:
        """How its latest run ended, if it has ended."""
        if isinstance(self.state, TerminatedState):
            return self.state
        return self.last if isinstance(self.state, WaitingState) else None

    def allowed_at(self) -> float:
        """When its restart back-off is over."""
        ended = self.ended
        is_free = self.restarts_at_once or self.is_removed
        if ended is None or ended.ended_at is None or self.back_off is None or is_free:
            return 0.0
        return self.back_off.allowed_at(ended.ended_at)

    def clock_set(self, seconds: float) -> None:
        """Somebody has set the clock by so much: nothing lasts longer or shorter for that."""
        if isinstance(self.state, TerminatedState):
            self.state = self.state.clock_set(seconds)
        if self.last is not None:
            self.last = self.last.clock_set(seconds)
        if self.back_off is not None:
            self.back_off = self.back_off.clock_set(seconds)
        if self.stopping is not None:
            self.stopping = replace(self.stopping, since=self.stopping.since + seconds)

    def _is_free(self, now: float) -> bool:
        """Whether the back-off since the end of the run before this one is over."""
        before = self.last.ended_at if self.last is not None else None
        return before is None or self.back_off is None or now >= self.back_off.allowed_at(before)


def container_id(pod_uid: str, name: str, restarts: int) -> str:
    """The id of one run of a container, derived from the pod's uid, which is random.

    So whoever comes back after having died finds what it had begun, and begins nothing twice.
    """
    return hashlib.sha256(f"{pod_uid}/{name}/{restarts}".encode()).hexdigest()


def record_from_status(container: Container, status: ContainerStatus, *, is_resizing: bool) -> ContainerRecord:
    """The record of a container that an earlier process, or another cluster, has reported in this status."""
    state: LifecycleState
    if status.state.running is not None:
        state = RunningState(_at(status.state.running.started_at) or 0.0)
    elif (ended := status.state.terminated) is not None:
        times = _at(ended.started_at), _at(ended.finished_at)
        state = TerminatedState(ended.exit_code, ended.reason, *times, ended.message, ended.container_id)
    else:
        waiting = status.state.waiting
        state = WaitingState(waiting.reason, waiting.message) if waiting else WaitingState("ContainerCreating")
    record = ContainerRecord(state, _last(status), status.restart_count, status.container_id)
    record.image_id, record.shown = status.image_id, status.shown
    record.is_removed = isinstance(state, WaitingState) and state.reason == RESTARTING_ALL
    record.resources = status.resources or container.resources or {}
    record.allocated = _allocated(container, status, is_resizing=is_resizing)
    return record


def _allocated(container: Container, status: ContainerStatus, *, is_resizing: bool) -> dict[str, Any]:
    """The status shows the allocated requests; the limits are those desired while a resize is carried out."""
    desired, requests = container.resources or {}, status.allocated_resources
    if not requests:
        return status.resources or desired
    if is_resizing and requests == desired.get("requests"):
        return desired
    return status.resources | {"requests": requests}


def _last(status: ContainerStatus) -> TerminatedState | None:
    fields = status.last_state.get("terminated")
    if not fields:
        return None
    return TerminatedState(
        fields.get("exitCode", 0),
        fields.get("reason", ""),
        _at(fields.get("startedAt")),
        _at(fields.get("finishedAt")),
        fields.get("message", ""),
        fields.get("containerID", ""),
    )


def _at(text: str | None) -> float | None:
    """None for an unknown time, which some clients write as the year 1."""
    return at if text and (at := parse_timestamp(text)) > 0 else None


def container_status(container: Container, record: ContainerRecord, *, is_init: bool = False) -> Obj:
    """One entry of `containerStatuses`; init containers are ready once they have succeeded."""
    state = record.state
    is_running = isinstance(state, RunningState)
    requested = record.allocated.get("requests")
    is_through = is_init and isinstance(state, TerminatedState) and state.exit_code == 0
    fields: Obj = {
        "name": container.name,
        "image": container.image,
        "imageID": record.image_id,
        "ready": (is_running and record.is_ready) or (is_through and container.restart_policy != "Always"),
        "started": is_running and record.is_started,
        "restartCount": record.restarts,
        "state": state.encode(),
        "lastState": record.last.encode() if record.last else {},
        "resources": record.resources if is_running else record.allocated,
    }
    if record.container_id:
        fields["containerID"] = record.container_id
    if requested:
        fields["allocatedResources"] = requested
    return fields | record.shown if record.shown else fields


def ephemeral_status(container: Container, record: ContainerRecord) -> Obj:
    """The same of one that joined the pod: nobody waits for it, so it is never ready."""
    return container_status(container, record) | {"ready": False, "started": None}
