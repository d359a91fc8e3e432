"""How a pod declares what its containers do on a simulated node: annotations, ours and KWOK's. docs/simulated-nodes.md.

An annotation of ours speaks of all containers of the pod, or with a container's name before it of that one alone:

    sim.fairlead.dev/lifetime-seconds: "60"
    web.sim.fairlead.dev/exit-code: "1"

Init containers come through at once unless they are named. One that makes no sense counts as not given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead.api.pods import Container, Pod
from fairlead.golang.durations import non_negative_seconds
from fairlead.node.containers import SIGTERMED
from fairlead.node.restarts import runs_again
from fairlead.node.starting import not_found_at_registry
from fairlead.node.status import is_sidecar

PREFIX: Final = "sim.fairlead.dev/"
START_SECONDS: Final = PREFIX + "start-seconds"
LIFETIME_SECONDS: Final = PREFIX + "lifetime-seconds"
EXIT_CODE: Final = PREFIX + "exit-code"
STOP_SECONDS: Final = PREFIX + "stop-seconds"
STOP_EXIT_CODE: Final = PREFIX + "stop-exit-code"
PULL_ERROR: Final = PREFIX + "pull-error"

#: The lifetime of what never ends by itself.
FOREVER: Final = "forever"
#: How long a pod takes that is there to end: of a Job, or a hook or test of Helm.
TASK_SECONDS: Final = 1.0
_HELM_HOOK: Final = "helm.sh/hook"
#: No such name exists in the DNS (RFC 2606), so neither does what is to come from there.
_NOWHERE: Final = ".invalid"

#: The stages of KWOK that a pod may put off.
_KWOK: Final = ".stage.kwok.x-k8s.io/delay"
_KWOK_START: Final = ("pod-create" + _KWOK, "pod-ready" + _KWOK)
_KWOK_COMPLETE: Final = "pod-complete" + _KWOK
_KWOK_DELETE: Final = "pod-delete" + _KWOK

#: No time may be longer (a century): what ends later has no date that a timestamp could tell.
LONGEST_SECONDS: Final = 100 * 366 * 86_400.0


class Behaviour(msgspec.Struct, frozen=True):
    """What one container does. Seconds; a lifetime of None never ends. A pull error is empty where there is none."""

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
    told = _told(pod.metadata.annotations, container.name, is_named_only=is_init)
    comes_from_nowhere = _NOWHERE in container.image and _registry(container.image).endswith(_NOWHERE)
    if not told and not comes_from_nowhere:
        return default
    lifetime = default.lifetime
    if told.get("lifetime-seconds") == FOREVER:
        lifetime = None
    elif (seconds := _first(_seconds(told.get("lifetime-seconds")), _delay(told.get(_KWOK_COMPLETE)))) is not None:
        lifetime = seconds
    pull_error = told.get("pull-error") or ("true" if comes_from_nowhere else "")
    return Behaviour(
        lifetime,
        _code(told.get("exit-code"), 0),
        _first(_seconds(told.get("stop-seconds")), _delay(told.get(_KWOK_DELETE))) or 0.0,
        _code(told.get("stop-exit-code"), SIGTERMED),
        not_found_at_registry(container.image) if pull_error == "true" else pull_error,
    )


def _told(annotations: Mapping[str, str], container: str, *, is_named_only: bool) -> dict[str, str]:
    """What is told of one container: by the end of our annotations, and by the whole name of KWOK's."""
    told: dict[str, str] = {}
    if not annotations:
        return told
    own = f"{container}.{PREFIX}"
    for key, value in annotations.items():
        if key.startswith(own):
            told[key.removeprefix(own)] = value
        elif is_named_only:
            continue
        elif key.startswith(PREFIX):
            told.setdefault(key.removeprefix(PREFIX), value)
        elif key.endswith(_KWOK):
            told[key] = value
    return told


def start_seconds(pod: Pod) -> float:
    """How long the pod's containers take to start."""
    annotations = pod.metadata.annotations
    if not annotations:
        return 0.0
    own = _seconds(annotations.get(START_SECONDS))
    return sum(_delay(annotations.get(key)) or 0.0 for key in _KWOK_START) if own is None else own


def ends_by_itself(pod: Pod) -> bool:
    """Whether all its containers come to an end after which none runs again."""
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
    """How long a stage of KWOK is delayed; None if nothing is told."""
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
