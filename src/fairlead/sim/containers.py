"""What a simulated pod does on its node, decided purely: state in, next status and wake-up time out.

    bound ─▶ (refused) ─▶ Failed
      └────▶ starting ─▶ Running ─▶ (declared lifetime over) ─▶ Succeeded | Failed | restarted
                            └─────▶ (deleted) ─▶ stopping ─▶ gone

How long a container takes to start, lives and takes to stop, and how it exits, a pod declares by annotation. Everything
else follows from its spec, its status and the time, so a simulated node can be stopped and started at any moment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.api.meta import Condition
from fairlead.api.objects import Obj
from fairlead.api.pods import FINISHED, Container, ContainerStatus, Pod
from fairlead.runtime.clock import parse_timestamp, timestamp

START_SECONDS = "sim.fairlead.dev/start-seconds"
LIFETIME_SECONDS = "sim.fairlead.dev/lifetime-seconds"
EXIT_CODE = "sim.fairlead.dev/exit-code"
STOP_SECONDS = "sim.fairlead.dev/stop-seconds"

#: No time may be longer (a century): what ends later has no date that a timestamp could tell.
LONGEST_SECONDS = 100 * 366 * 86_400.0
#: The kubelet's restart back-off: the first restart at once, then 10 s doubling to 300 s (S0-64).
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 10.0, 300.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a pod declares of its containers. Seconds; a lifetime of None never ends."""

    start: float = 0.0
    lifetime: float | None = None
    exit_code: int = 0
    stop: float = 0.0

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> Behaviour:
        """From annotations; one that makes no sense counts as not given."""
        if not annotations:
            return _DEFAULT
        return cls(
            _seconds(annotations.get(START_SECONDS)) or 0.0,
            _seconds(annotations.get(LIFETIME_SECONDS)),
            _exit_code(annotations.get(EXIT_CODE)),
            _seconds(annotations.get(STOP_SECONDS)) or 0.0,
        )


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= LONGEST_SECONDS else None


def _exit_code(text: str | None) -> int:
    try:
        code = int(text or "0")
    except ValueError:
        return 0
    return code if -(2**31) <= code < 2**31 else 0


_DEFAULT = Behaviour()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod runs."""

    host_ip: str
    pod_ip: str


@dataclass(frozen=True, slots=True)
class Step:
    """What to do now, and when to look again (seconds since the epoch; None: at the next change)."""

    status: Obj | None = None
    is_gone: bool = False
    is_resized: bool = False
    wake_at: float | None = None


def step(pod: Pod, seen_at: float, deleted_at: float | None, place: Place, now: float) -> Step:
    """The next step of an admitted pod that the node first saw at `seen_at`, and saw deleted at `deleted_at`."""
    behaviour = Behaviour.of(pod.metadata.annotations)
    if deleted_at is not None:
        return _stopping(pod, behaviour, deleted_at, now)
    if pod.is_finished:
        return Step()
    if pod.status.phase != "Running":
        start_at = seen_at + behaviour.start
        if now < start_at:
            return Step(wake_at=start_at)
        return _started(pod, behaviour, place, now)
    return _running(pod, behaviour, place, now)


def _stopping(pod: Pod, behaviour: Behaviour, deleted_at: float, now: float) -> Step:
    grace = pod.metadata.deletion_grace_period_seconds or 0
    stop_at = deleted_at + min(behaviour.stop, grace)
    if now < stop_at and not pod.is_finished:
        return Step(wake_at=stop_at)
    return Step(is_gone=True)


def _started(pod: Pod, behaviour: Behaviour, place: Place, now: float) -> Step:
    moment = timestamp(now)
    status = _status(pod, "Running", moment, place, is_ready=True)
    status["containerStatuses"] = [
        _container(one, {"running": {"startedAt": moment}}, is_ready=True) for one in pod.spec.containers
    ]
    if pod.spec.init_containers:
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}}
        status["initContainerStatuses"] = [
            _container(one, ended, is_ready=True, has_started=False)
            if one.restart_policy != "Always"
            else _container(one, {"running": {"startedAt": moment}}, is_ready=True)
            for one in pod.spec.init_containers
        ]
    return Step(status, wake_at=None if behaviour.lifetime is None else now + behaviour.lifetime)


def _running(pod: Pod, behaviour: Behaviour, place: Place, now: float) -> Step:
    if _is_resized(pod):
        return _resized(pod, place, now)
    if behaviour.lifetime is None:
        return Step()
    began = next((one.state.running.started_at for one in pod.status.container_statuses if one.state.running), None)
    if began is None:
        return _restarted(pod, behaviour, place, now)
    ends_at = parse_timestamp(began) + behaviour.lifetime
    if now < ends_at:
        return Step(wake_at=ends_at)
    failed = behaviour.exit_code != 0
    policy = pod.spec.restart_policy
    if policy == "Always" or (policy == "OnFailure" and failed):
        return _crashed(pod, behaviour, place, began, now)
    status = _status(pod, "Failed" if failed else "Succeeded", timestamp(now), place, is_ready=False)
    if not failed:
        for condition in status["conditions"]:
            if condition["type"] in ("Ready", "ContainersReady"):
                condition["reason"] = "PodCompleted"
    ended = _terminated(behaviour, began, now)
    status["containerStatuses"] = [
        _container(one, ended, restarts, is_ready=False, has_started=False)
        for one, restarts in zip(pod.spec.containers, _restarts(pod), strict=True)
    ]
    return Step(status)


def _crashed(pod: Pod, behaviour: Behaviour, place: Place, began: str, now: float) -> Step:
    """A container that ended and is to run again: at once the first time, after a back-off from then on."""
    restarts = _restarts(pod)
    if not any(restarts):
        return _restarted(pod, behaviour, place, now)
    wait = _backoff(max(restarts))
    name, namespace = pod.metadata.name, pod.metadata.namespace
    status = _status(pod, "Running", timestamp(now), place, is_ready=False)
    status["containerStatuses"] = [
        _container(
            one,
            {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": f"back-off {_short(wait)} restarting failed container={one.name} "
                    f"pod={name}_{namespace}({pod.metadata.uid})",
                }
            },
            count,
            is_ready=False,
            has_started=False,
            last=_terminated(behaviour, began, now),
        )
        for one, count in zip(pod.spec.containers, restarts, strict=True)
    ]
    return Step(status, wake_at=now + wait)


def _is_resized(pod: Pod) -> bool:
    """Whether a running container has other resources than the ones that were asked for (KEP-1287)."""
    known = {one.name: one for one in pod.status.container_statuses if one.state.running}
    return any(one.name in known and (one.resources or {}) != known[one.name].resources for one in pod.spec.containers)


def _resized(pod: Pod, place: Place, now: float) -> Step:
    """Give every container what its spec says now; a simulated node needs no restart for that."""
    status = _status(pod, "Running", timestamp(now), place, is_ready=True)
    known = {one.name: one for one in pod.status.container_statuses}
    status["containerStatuses"] = [
        _container(one, _state(old), old.restart_count, is_ready=True, last=old.last_state)
        for one in pod.spec.containers
        if (old := known.get(one.name))
    ]
    return Step(status, is_resized=True)


def _state(status: ContainerStatus) -> Obj:
    running = status.state.running
    return {"running": {"startedAt": running.started_at}} if running else {}


def _restarted(pod: Pod, behaviour: Behaviour, place: Place, now: float) -> Step:
    moment = timestamp(now)
    status = _status(pod, "Running", moment, place, is_ready=True)
    ended = _terminated(behaviour, moment, now)
    status["containerStatuses"] = [
        _container(one, {"running": {"startedAt": moment}}, count + 1, is_ready=True, last=ended)
        for one, count in zip(pod.spec.containers, _restarts(pod), strict=True)
    ]
    lifetime = behaviour.lifetime
    return Step(status, wake_at=None if lifetime is None else now + lifetime)


def _backoff(restarts: int) -> float:
    return float(min(FIRST_BACKOFF_SECONDS * 2 ** (restarts - 1), LONGEST_BACKOFF_SECONDS))


def _short(seconds: float) -> str:
    """A Go duration of whole seconds: 10s, 1m20s, 5m0s."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _restarts(pod: Pod) -> list[int]:
    known = {one.name: one.restart_count for one in pod.status.container_statuses}
    return [known.get(one.name, 0) for one in pod.spec.containers]


def _terminated(behaviour: Behaviour, began: str, now: float) -> Obj:
    code = behaviour.exit_code
    return {
        "terminated": {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": began,
            "finishedAt": timestamp(now),
        }
    }


def _container(
    container: Container,
    state: Obj,
    restarts: int = 0,
    *,
    is_ready: bool,
    has_started: bool = True,
    last: Obj | None = None,
) -> Obj:
    resources = container.resources or {}
    requested = resources.get("requests")
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"fairlead-sim://{container.image}",
        "containerID": f"fairlead-sim://{container.name}",
        "ready": is_ready,
        "started": has_started,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
        "resources": resources,
        **({"allocatedResources": requested} if requested else {}),
    }


def _status(pod: Pod, phase: str, moment: str, place: Place, *, is_ready: bool) -> Obj:
    known = {one.type: one for one in pod.status.conditions}
    is_finished = phase in FINISHED
    wanted = {
        "PodReadyToStartContainers": not is_finished,
        "Initialized": True,
        "Ready": is_ready,
        "ContainersReady": is_ready,
        "PodScheduled": True,
    }
    conditions = []
    for kind, holds in wanted.items():
        status = "True" if holds else "False"
        old = known.pop(kind, None)
        since = old.last_transition_time if old and old.status == status and old.last_transition_time else moment
        condition: Obj = {"type": kind, "status": status, "lastTransitionTime": since}
        if pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation
        conditions.append(condition)
    conditions.extend(_kept(one) for one in known.values())
    ip = place.host_ip if pod.spec.host_network else (pod.status.pod_ip or place.pod_ip)
    return {
        "phase": phase,
        "observedGeneration": pod.metadata.generation,
        "conditions": conditions,
        "hostIP": place.host_ip,
        "hostIPs": [{"ip": place.host_ip}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": pod.status.start_time or moment,
    }


def _kept(condition: Condition) -> Obj:
    """A condition that somebody else set (DisruptionTarget)."""
    kept = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    return {key: value for key, value in kept.items() if value}
