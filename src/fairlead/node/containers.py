"""What a node knows of one container of a pod, and how it tells it in the pod's status."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.pods import Container, ContainerStatus
from fairlead.node.restarts import BackOff, first_try
from fairlead.runtime.clock import parse_timestamp, timestamp

#: Exit codes of a process that a signal ended: 128 and its number.
SIGKILLED: Final = 137
SIGTERMED: Final = 143
#: A restart count is an int32, and anybody may have written it.
MOST_RESTARTS: Final = 2**31 - 1


class Waiting(msgspec.Struct, frozen=True):  # like all states made at every step, ten times as fast as a dataclass
    reason: str
    message: str = ""

    def encode(self) -> Obj:
        told = {"reason": self.reason, "message": self.message} if self.message else {"reason": self.reason}
        return {"waiting": told}


class Running(msgspec.Struct, frozen=True):
    started_at: float

    def encode(self) -> Obj:
        return {"running": {"startedAt": timestamp(self.started_at)}}


class Terminated(msgspec.Struct, frozen=True):
    """Times are None for a container of which nobody knows when it ran."""

    exit_code: int
    reason: str
    started_at: float | None = None
    finished_at: float | None = None
    message: str = ""
    container_id: str = ""

    def encode(self) -> Obj:
        told: Obj = {"exitCode": self.exit_code, "reason": self.reason}
        if self.message:
            told["message"] = self.message
        for name, at in (("startedAt", self.started_at), ("finishedAt", self.finished_at)):
            told[name] = None if at is None else timestamp(at)
        if self.container_id:
            told["containerID"] = self.container_id
        return {"terminated": told}


State = Waiting | Running | Terminated

#: What is told of a container that was never started, of a pod that is over (TerminatePod of the status manager).
NEVER_SEEN: Final = Terminated(
    SIGKILLED, "ContainerStatusUnknown", message="The container could not be located when the pod was terminated"
)


@dataclass(slots=True)
class Record:
    """One container: how it is, how it was before, and how often it began anew."""

    state: State
    last: Terminated | None = None
    restarts: int = 0
    container_id: str = ""
    back_off: BackOff | None = None
    resources: dict[str, Any] = field(default_factory=dict)

    @property
    def has_run(self) -> bool:
        return self.last is not None or not isinstance(self.state, Waiting)

    def start(self, pod_uid: str, container: Container, now: float) -> None:
        """It runs from now on: for the first time, or again."""
        if (ended := self.ended) is not None:
            failed_at = now if ended.finished_at is None else ended.finished_at
            self.back_off = self.back_off.tried(failed_at, now) if self.back_off else first_try(now)
            self.last = ended
            self.restarts = min(self.restarts + 1, MOST_RESTARTS)
        self.container_id = container_id(pod_uid, container.name, self.restarts)
        self.resources = container.resources or {}
        self.state = Running(now)

    def end(self, exit_code: int, now: float) -> None:
        assert isinstance(self.state, Running)
        reason = "Error" if exit_code else "Completed"
        self.state = Terminated(exit_code, reason, self.state.started_at, now, "", self.container_id)

    def wait(self, waiting: Waiting) -> None:
        """It does not run, and for that reason; what it was before is kept."""
        if isinstance(self.state, Terminated):
            self.last = self.state
        self.state = waiting

    @property
    def ended(self) -> Terminated | None:
        """How its latest run ended, if it has ended."""
        if isinstance(self.state, Terminated):
            return self.state
        return self.last if isinstance(self.state, Waiting) else None

    def allowed_at(self) -> float:
        """When it may run (again), as far as its earlier ends go."""
        ended = self.ended
        if ended is None or ended.finished_at is None or self.back_off is None:
            return 0.0
        return self.back_off.allowed_at(ended.finished_at)


def container_id(pod_uid: str, name: str, restarts: int) -> str:
    """The id of one run of a container. It follows from the pod's uid, which is as random as any id."""
    return "containerd://" + hashlib.sha256(f"{pod_uid}/{name}/{restarts}".encode()).hexdigest()


def remembered(status: ContainerStatus) -> Record:
    """What an earlier run of this process, or another cluster, told of the container."""
    state: State
    if status.state.running is not None:
        state = Running(_at(status.state.running.started_at) or 0.0)
    elif (ended := status.state.terminated) is not None:
        state = Terminated(ended.exit_code, ended.reason, _at(ended.started_at), _at(ended.finished_at), ended.message)
    else:
        waiting = status.state.waiting
        state = Waiting(waiting.reason, waiting.message) if waiting else Waiting("ContainerCreating")
    return Record(state, _last(status), status.restart_count, status.container_id, None, status.resources)


def _last(status: ContainerStatus) -> Terminated | None:
    told = status.last_state.get("terminated")
    if not told:
        return None
    return Terminated(
        told.get("exitCode", 0),
        told.get("reason", ""),
        _at(told.get("startedAt")),
        _at(told.get("finishedAt")),
        told.get("message", ""),
        told.get("containerID", ""),
    )


def _at(text: str | None) -> float | None:
    """None for a time that nobody knows, which some write as the year 1."""
    return at if text and (at := parse_timestamp(text)) > 0 else None


def container_status(container: Container, record: Record, *, is_init: bool = False) -> Obj:
    """One entry of `containerStatuses`; init containers are ready when they came through."""
    state = record.state
    is_running = isinstance(state, Running)
    resources = container.resources or {}
    requested = resources.get("requests")
    is_through = is_init and isinstance(state, Terminated) and state.exit_code == 0
    told: Obj = {
        "name": container.name,
        "image": container.image,
        "imageID": f"fairlead-sim://{container.image}" if record.container_id else "",
        "ready": is_running or (is_through and container.restart_policy != "Always"),
        "started": is_running,
        "restartCount": record.restarts,
        "state": state.encode(),
        "lastState": record.last.encode() if record.last else {},
        "resources": resources,
    }
    if record.container_id:
        told["containerID"] = record.container_id
    if requested:
        told["allocatedResources"] = requested
    return told
