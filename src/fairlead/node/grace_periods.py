"""How long a pod gets to stop, and what the container runtime is told (S3-37, S3-38).

A pod that is deleted, evicted or sent away settles on one period, which can only become shorter; the runtime sends
SIGTERM, and SIGKILL when it is over. Sources: pkg/kubelet/pod_workers.go, pkg/kubelet/kuberuntime.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from fairlead.api.objects import Obj
from fairlead.api.podresources import is_sidecar

#: A container is never stopped faster than this, whatever anybody asks for.
LEAST_STOP_SECONDS: Final = 2
_LEAST_GRACE_SECONDS: Final = 1

KILLING: Final = "Killing"


class GracePeriod(NamedTuple):
    seconds: int
    #: Whether it replaces a longer one, with which the pod was stopping already.
    is_shortened: bool = False


def grace_period(pod: Obj, override: int | None = None, stopping_with: int | None = None) -> GracePeriod:
    """The period that a pod settles on. `override` is what an eviction asks for; without one, the pod's own counts."""
    seconds = stopping_with or 0
    is_stated = False
    for wanted in (pod["metadata"].get("deletionGracePeriodSeconds"), override):
        if wanted is not None and (seconds == 0 or wanted < seconds):
            seconds, is_stated = wanted, True
    if seconds == 0 and not is_stated:
        seconds = pod["spec"].get("terminationGracePeriodSeconds") or 0
    seconds = max(seconds, _LEAST_GRACE_SECONDS)
    return GracePeriod(seconds, stopping_with is not None and 0 != stopping_with != seconds)


def stop_timeout(grace_seconds: int) -> int:
    """What the runtime is given between SIGTERM and SIGKILL."""
    return max(grace_seconds, LEAST_STOP_SECONDS)


def probe_stop_timeout(pod: Obj, container: Obj, probe: str) -> int:
    """The same of a container whose `livenessProbe` or `startupProbe` failed, which may have a period of its own."""
    if (deletion := pod["metadata"].get("deletionGracePeriodSeconds")) is not None:
        return stop_timeout(deletion)
    of_pod = pod["spec"].get("terminationGracePeriodSeconds")
    if of_pod is None:
        return LEAST_STOP_SECONDS
    of_probe = (container.get(probe) or {}).get("terminationGracePeriodSeconds")
    return stop_timeout(of_pod if of_probe is None else of_probe)


class StopEvent(NamedTuple):
    field_path: str
    message: str


def stop_events(pod: Obj) -> Iterator[StopEvent]:
    """What is said of each container that has to stop."""
    for container in pod["spec"].get("containers") or ():
        yield _stop_event("containers", container["name"])
    for container in pod["spec"].get("initContainers") or ():
        if is_sidecar(container):
            yield _stop_event("initContainers", container["name"])


def _stop_event(kind: str, name: str) -> StopEvent:
    return StopEvent(f"spec.{kind}{{{name}}}", f"Stopping container {name}")
