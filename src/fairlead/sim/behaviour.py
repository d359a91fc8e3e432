"""The annotations, ours and KWOK's, that declare what containers do on a simulated node. See docs/simulated-nodes.md.

An annotation of ours applies to all containers of the pod, or with a container's name in front to that one alone:

    sim.fairlead.dev/lifetime-seconds: "60"
    web.sim.fairlead.dev/exit-code: "1"

Init containers succeed at once unless they are named. An invalid annotation is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

import msgspec

from fairlead.api.pods import Container, Pod
from fairlead.golang.durations import non_negative_seconds
from fairlead.node.container_runtime import Exit, Image, Probed, Start, WantedImage
from fairlead.node.containers import SIGKILLED, SIGTERMED, Stopping, container_id
from fairlead.node.grace_periods import LEAST_STOP_SECONDS
from fairlead.node.restarts import runs_again
from fairlead.node.start_requirements import not_found_at_registry
from fairlead.node.status import is_sidecar

PREFIX: Final = "sim.fairlead.dev/"
START_SECONDS: Final = PREFIX + "start-seconds"
LIFETIME_SECONDS: Final = PREFIX + "lifetime-seconds"
EXIT_CODE: Final = PREFIX + "exit-code"
STOP_SECONDS: Final = PREFIX + "stop-seconds"
STOP_EXIT_CODE: Final = PREFIX + "stop-exit-code"
PULL_ERROR: Final = PREFIX + "pull-error"
STARTED_SECONDS: Final = PREFIX + "started-seconds"
READY_SECONDS: Final = PREFIX + "ready-seconds"
UNREADY: Final = PREFIX + "unready"
FAILS_LIVENESS_SECONDS: Final = PREFIX + "fails-liveness-seconds"

#: The lifetime of a container that never ends by itself.
FOREVER: Final = "forever"
#: The lifetime of pods that are meant to end: those of Jobs, and Helm hooks and tests.
TASK_SECONDS: Final = 1.0
_HELM_HOOK: Final = "helm.sh/hook"
#: Hosts of this top-level domain never exist (RFC 2606), so pulls from there fail.
_NOWHERE: Final = ".invalid"

#: KWOK's annotations that delay a stage.
_KWOK: Final = ".stage.kwok.x-k8s.io/delay"
_KWOK_START: Final = ("pod-create" + _KWOK, "pod-ready" + _KWOK)
_KWOK_COMPLETE: Final = "pod-complete" + _KWOK
_KWOK_DELETE: Final = "pod-delete" + _KWOK

#: The longest time (a century): timestamps cannot show much later dates.
LONGEST_SECONDS: Final = 100 * 366 * 86_400.0


class Behaviour(msgspec.Struct, frozen=True):
    """What one container does. Times in seconds; a lifetime of None never ends."""

    lifetime: float | None = None
    exit_code: int = 0
    stop: float = 0.0
    stop_exit_code: int = SIGTERMED
    pull_error: str = ""


_RUNS: Final = Behaviour()
_ENDS: Final = Behaviour(lifetime=TASK_SECONDS)
_COMES_THROUGH: Final = Behaviour(lifetime=0.0)


def behaviour_of(pod: Pod, container: Container, *, is_init: bool = False) -> Behaviour:
    default = _default(pod, container, is_init=is_init)
    settings = _annotations_for(pod.metadata.annotations, container.name, is_named_only=is_init)
    comes_from_nowhere = _NOWHERE in container.image and _registry(container.image).endswith(_NOWHERE)
    if not settings and not comes_from_nowhere:
        return default
    lifetime = default.lifetime
    if settings.get("lifetime-seconds") == FOREVER:
        lifetime = None
    elif (
        seconds := _first(_seconds(settings.get("lifetime-seconds")), _delay(settings.get(_KWOK_COMPLETE)))
    ) is not None:
        lifetime = seconds
    pull_error = settings.get("pull-error") or ("true" if comes_from_nowhere else "")
    return Behaviour(
        lifetime,
        _code(settings.get("exit-code"), 0),
        _first(_seconds(settings.get("stop-seconds")), _delay(settings.get(_KWOK_DELETE))) or 0.0,
        _code(settings.get("stop-exit-code"), SIGTERMED),
        not_found_at_registry(container.image) if pull_error == "true" else pull_error,
    )


#: When the kernel ends a container that started then because of memory, as far as that is known.
MemoryExit: TypeAlias = Callable[[Pod, Container, float], Exit | None]
#: How much memory a container that started then uses now.
MemoryBytes: TypeAlias = Callable[[Pod, Container, float, float], int]
#: What keeps a pod from its volumes: "" nothing, None that they are not attached yet.
Mount: TypeAlias = Callable[[Pod], str | None]


class SimulatedRuntime:
    """A `ContainerRuntime` in which nothing runs: containers do what their pod declares, and use what it declares."""

    def __init__(
        self,
        memory_exit: MemoryExit,
        memory_bytes: MemoryBytes,
        claims_problem: Callable[[Pod], str] = lambda pod: "",
        mount: Mount = lambda pod: "",
    ) -> None:
        self._memory_exit, self._memory_bytes = memory_exit, memory_bytes
        self._claims_problem, self._mount = claims_problem, mount

    def sandbox_ready_at(self, pod: Pod, since: float) -> float:
        return since + start_seconds(pod)

    def has_lost_sandbox(self, pod: Pod) -> bool:
        return False

    def prepare(self, pod: Pod) -> str | None:
        return self._claims_problem(pod)

    def unprepare(self, pod: Pod) -> bool:
        return True

    def mount(self, pod: Pod) -> str | None:
        return self._mount(pod)

    def image(self, pod: Pod, wanted: WantedImage) -> Image:
        return Image(not self.pull(pod, wanted))

    def pull(self, pod: Pod, wanted: WantedImage) -> str:
        """Images that are volumes are there."""
        container = wanted.container
        return "" if container is None else behaviour_of(pod, container, is_init=wanted.is_init).pull_error

    def start(self, pod: Pod, container: Container, attempt: int, now: float, *, is_init: bool) -> Start:
        id_ = f"containerd://{container_id(pod.metadata.uid, container.name, attempt)}"
        return Start(now, id_, f"fairlead-sim://{container.image}")

    def probed(self, pod: Pod, container: Container, started_at: float) -> Probed | None:
        return None

    def exit_of(self, pod: Pod, container: Container, started_at: float, *, is_init: bool) -> Exit | None:
        behaviour = behaviour_of(pod, container, is_init=is_init)
        own = None if behaviour.lifetime is None else Exit(started_at + behaviour.lifetime, behaviour.exit_code)
        killed = self._memory_exit(pod, container, started_at)
        return killed if killed is not None and (own is None or killed.at < own.at) else own

    def startup_answers_at(self, pod: Pod, container: Container, started_at: float) -> float:
        settings = _annotations_for(pod.metadata.annotations, container.name, is_named_only=False)
        return started_at + (_seconds(settings.get("started-seconds")) or 0.0)

    def answers_at(self, pod: Pod, container: Container, started_at: float) -> float:
        settings = _annotations_for(pod.metadata.annotations, container.name, is_named_only=False)
        if settings.get("unready") == "true":
            return math.inf
        return started_at + (_seconds(settings.get("ready-seconds")) or 0.0)

    def hangs_at(self, pod: Pod, container: Container, started_at: float) -> float:
        settings = _annotations_for(pod.metadata.annotations, container.name, is_named_only=False)
        seconds = _seconds(settings.get("fails-liveness-seconds"))
        return math.inf if seconds is None else started_at + seconds

    def memory_bytes(self, pod: Pod, container: Container, started_at: float, now: float) -> int:
        return self._memory_bytes(pod, container, started_at, now)

    def resize(self, pod: Pod, generation: int, but: Collection[str]) -> str | None:
        return ""

    def stop(self, pod: Pod, container: Container, stopping: Stopping, *, is_init: bool) -> Exit:
        behaviour = behaviour_of(pod, container, is_init=is_init)
        since, grace = stopping.since, stopping.grace_seconds
        if stopping.turn > since:
            told_at = min(stopping.turn, since + grace)
            since, grace = told_at, max(since + grace - told_at, LEAST_STOP_SECONDS)
        if behaviour.stop > grace:
            return Exit(since + grace, SIGKILLED)
        return Exit(since + behaviour.stop, behaviour.stop_exit_code)


def _annotations_for(annotations: Mapping[str, str], container: str, *, is_named_only: bool) -> dict[str, str]:
    """The annotations for one container: ours by the part after the prefix, KWOK's by the whole name."""
    settings: dict[str, str] = {}
    if not annotations:
        return settings
    own = f"{container}.{PREFIX}"
    for key, value in annotations.items():
        if key.startswith(own):
            settings[key.removeprefix(own)] = value
        elif is_named_only:
            continue
        elif key.startswith(PREFIX):
            settings.setdefault(key.removeprefix(PREFIX), value)
        elif key.endswith(_KWOK):
            settings[key] = value
    return settings


def start_seconds(pod: Pod) -> float:
    """How long the pod's containers take to start."""
    annotations = pod.metadata.annotations
    if not annotations:
        return 0.0
    if annotations.get(START_SECONDS) == FOREVER:
        return math.inf
    own = _seconds(annotations.get(START_SECONDS))
    return sum(_delay(annotations.get(key)) or 0.0 for key in _KWOK_START) if own is None else own


def ends_by_itself(pod: Pod) -> bool:
    """Whether all its containers end and none is restarted."""
    policy = pod.spec.restart_policy
    for container in pod.spec.containers:
        behaviour = behaviour_of(pod, container)
        if behaviour.lifetime is None or runs_again(container, policy, behaviour.exit_code):
            return False
    return True


def _default(pod: Pod, container: Container, *, is_init: bool) -> Behaviour:
    if is_init:
        return _RUNS if is_sidecar(container) else _COMES_THROUGH
    return _ENDS if _is_task(pod) else _RUNS


def _is_task(pod: Pod) -> bool:
    if any(owner.kind == "Job" for owner in pod.metadata.owner_references):
        return True
    return _HELM_HOOK in pod.metadata.annotations and pod.spec.restart_policy != "Always"


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _delay(text: str | None) -> float | None:
    """The delay of a KWOK stage; None if there is none."""
    if not text:
        return None
    try:
        seconds = non_negative_seconds(text)
    except ValueError:
        return None
    return seconds if seconds <= LONGEST_SECONDS else None


def _registry(image: str) -> str:
    """The host that an image comes from; empty for the default one."""
    host, slash, _ = image.partition("/")
    return host.partition(":")[0] if slash else ""


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= LONGEST_SECONDS else None


def _code(text: str | None, otherwise: int) -> int:
    if not text:
        return otherwise
    try:
        code = int(text)
    except ValueError:
        return otherwise
    return code if -(2**31) <= code < 2**31 else otherwise
