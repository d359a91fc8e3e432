"""The events of in-place resizing. Their messages carry a summary of the desired resources, as JSON.

Source: pkg/kubelet/events.
"""

from __future__ import annotations

from typing import NamedTuple

from fairlead.api.objects import Obj
from fairlead.api.quantity import canonical
from fairlead.golang.json import printed
from fairlead.node.preemption import MESSAGE, PREEMPTING


class ResizeEvent(NamedTuple):
    pod: Obj
    type: str
    reason: str
    message: str


def started_event(pod: Obj) -> ResizeEvent:
    return ResizeEvent(pod, "Normal", "ResizeStarted", f"Pod resize started: {_summary(pod)}")


def completed_event(pod: Obj, generation: int) -> ResizeEvent:
    """Of a pod with what it is allocated; the generation is that of the resize."""
    return ResizeEvent(pod, "Normal", "ResizeCompleted", f"Pod resize completed: {_summary(pod, '', generation)}")


def error_event(pod: Obj, generation: int, error: str) -> ResizeEvent:
    return ResizeEvent(pod, "Warning", "ResizeError", f"Pod resize error: {_summary(pod, error, generation)}")


def pending_event(pod: Obj, cause: str, error: str, *, is_infeasible: bool) -> ResizeEvent:
    """The cause is that of an admission, `OutOfcpu` for one."""
    reason = "ResizeInfeasible" if is_infeasible else "ResizeDeferred"
    return ResizeEvent(pod, "Warning", reason, f"Pod resize {cause}: {_summary(pod, error)}")


def preempting_event(victim: Obj) -> ResizeEvent:
    return ResizeEvent(victim, "Warning", PREEMPTING, MESSAGE)


def _summary(pod: Obj, error: str = "", generation: int | None = None) -> str:
    summary: Obj = {}
    for kind in ("initContainers", "containers"):
        if containers := pod["spec"].get(kind):
            summary[kind] = [
                {"name": container["name"], "resources": _resources(container.get("resources") or {})}
                for container in containers
            ]
    summary["generation"] = pod["metadata"].get("generation", 0) if generation is None else generation
    if error:
        summary["error"] = error
    return printed(summary)


def _resources(resources: Obj) -> Obj:
    """Limits before requests, each in the order of its names, in canonical texts."""
    found = {kind: resources[kind] for kind in ("limits", "requests") if resources.get(kind)}
    return {kind: {name: canonical(amounts[name]) for name in sorted(amounts)} for kind, amounts in found.items()}
