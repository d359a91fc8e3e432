"""In-place resize on the node: what a pod is allocated, and what becomes of another desired size.

    desired ─▶ allowed? ─▶ fits? ─▶ allocated, in progress
                 │          └─▶ deferred: looked at again when something changes
                 └─▶ infeasible: until something else is desired

A resize that does not fit even the empty node is deferred as well: the API server refuses it, so it hardly gets here.
Source: pkg/kubelet/allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from fairlead.api.objects import Obj
from fairlead.api.podresources import pod_requests
from fairlead.api.qos import GUARANTEED, qos_class
from fairlead.api.quantity import ZERO, canonical, parse
from fairlead.golang.quoting import go_quote
from fairlead.node.admission import admit
from fairlead.node.critical import is_static
from fairlead.node.resize_messages import ResizeEvent, pending_event, preempting_event, started_event

#: The conditions of a pod's resize.
PENDING: Final = "PodResizePending"
IN_PROGRESS: Final = "PodResizeInProgress"
RESIZE_CONDITIONS: Final = (PENDING, IN_PROGRESS)
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"

#: Resources as they stand in a specification, by container; those of the pod level under `POD_LEVEL`.
Allocated: TypeAlias = Mapping[str, Obj]
POD_LEVEL: Final = "$pod"


class ResizeSettings(msgspec.Struct, frozen=True):
    """What of a kubelet's configuration stands in the way of resizing."""

    cpu_manager_policy: str = "none"
    memory_manager_policy: str = "None"
    #: Whether a container of that name of a pod may swap.
    may_swap: Callable[[Obj, str], bool] = lambda pod, container: False


class PendingResize(msgspec.Struct, frozen=True):
    """Why a pod is not allocated what is desired."""

    reason: str
    message: str
    generation: int

    def condition(self) -> Obj:
        kind = {"type": PENDING, "status": "True", "reason": self.reason}
        return kind | {"message": self.message, "observedGeneration": self.generation}


class PodSize(msgspec.Struct, frozen=True):
    """What a node knows of the size of one of its pods."""

    allocated: Allocated
    pending: PendingResize | None = None
    #: When it was put off first; for the order among those that are.
    pending_since: float | None = None
    #: Generation of the resize that is being carried out.
    in_progress: int | None = None

    def conditions(self) -> list[Obj]:
        found = [] if self.pending is None else [self.pending.condition()]
        if self.in_progress is not None:
            found.append({"type": IN_PROGRESS, "status": "True", "observedGeneration": self.in_progress})
        return found


class NodePods(msgspec.Struct, frozen=True):
    """The pods of a node as they are desired, and their sizes, by uid; and the uids of those that wait, in order."""

    node: Obj
    pods: Mapping[str, Obj]
    sizes: Mapping[str, PodSize]
    waiting: tuple[str, ...] = ()

    def allocated_pods(self, but: str) -> list[Obj]:
        """All but one, with what they are allocated."""
        return [with_allocation(pod, self.sizes[uid].allocated) for uid, pod in self.pods.items() if uid != but]


class Retried(msgspec.Struct, frozen=True):
    """What came of looking at the pending resizes."""

    state: NodePods
    events: tuple[ResizeEvent, ...] = ()
    #: Pods that have to go for a critical one that grows.
    preempted: tuple[Obj, ...] = ()


def allocation(pod: Obj) -> Allocated:
    """What a pod is allocated as it stands."""
    found = {container["name"]: container.get("resources") or {} for container in _resizable(pod["spec"])}
    if pod["spec"].get("resources") is not None:
        found[POD_LEVEL] = pod["spec"]["resources"]
    return found


def with_allocation(pod: Obj, allocated: Allocated) -> Obj:
    """The pod with what it is allocated instead of what is desired."""
    spec = dict(pod["spec"])
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [
                container | {"resources": allocated[container["name"]]} if container["name"] in allocated else container
                for container in spec[kind]
            ]
    if POD_LEVEL in allocated or "resources" in spec:
        spec["resources"] = allocated.get(POD_LEVEL)
    return pod | {"spec": spec}


def queued(state: NodePods, uid: str) -> NodePods:
    """The pod joins those that wait, whose order is settled anew.

    What asks for no more goes first, the latest of it ahead; then higher priority, then Guaranteed pods, then what has
    been put off for longest.
    """
    if uid in state.waiting:
        return state
    waiting: list[str] = []
    for other in (*(each for each in state.waiting if each in state.pods), uid):
        place = len(waiting)
        while place and _goes_before(state, other, waiting[place - 1]):
            place -= 1
        waiting.insert(place, other)
    return replace(state, waiting=tuple(waiting))


def retried(state: NodePods, settings: ResizeSettings, conditions: Sequence[str], now: float) -> Retried:
    """Look at every pending resize once, in order; `conditions` are the pressures that the node is under."""
    events: list[ResizeEvent] = []
    preempted: list[Obj] = []
    still_waiting: list[str] = []
    for uid in state.waiting:
        if uid not in state.pods:
            continue
        result = _resized(state, uid, settings, conditions, now)
        state, events, preempted = result.state, [*events, *result.events], [*preempted, *result.preempted]
        pending = state.sizes[uid].pending
        if pending is not None and pending.reason == DEFERRED:
            still_waiting.append(uid)
    return Retried(replace(state, waiting=tuple(still_waiting)), tuple(events), tuple(preempted))


def _resized(state: NodePods, uid: str, settings: ResizeSettings, conditions: Sequence[str], now: float) -> Retried:
    pod, size = state.pods[uid], state.sizes[uid]
    generation = pod["metadata"].get("generation", 0)
    if is_same_size(allocation(pod), size.allocated):
        return Retried(_sized(state, uid, replace(size, pending=None, pending_since=None)))
    if problem := next(_infeasible(pod, size.allocated, settings), ""):
        return _put_off(state, uid, PendingResize(INFEASIBLE, problem, generation), INFEASIBLE, now)
    admission = admit(pod, state.node, state.allocated_pods(uid), conditions)
    if (refusal := admission.refusal) is not None:
        return _put_off(state, uid, PendingResize(DEFERRED, refusal.message, generation), refusal.reason, now)
    gone = {victim["metadata"]["uid"] for victim in admission.preempted}
    left = replace(state, pods={each: other for each, other in state.pods.items() if each not in gone})
    events = (*map(preempting_event, admission.preempted), started_event(pod))
    return Retried(_sized(left, uid, PodSize(allocation(pod), in_progress=generation)), events, admission.preempted)


def _put_off(state: NodePods, uid: str, pending: PendingResize, cause: str, now: float) -> Retried:
    """There is an event only if this is news."""
    size = state.sizes[uid]
    since = now if size.pending_since is None else size.pending_since
    after = _sized(state, uid, replace(size, pending=pending, pending_since=since))
    is_news = size.pending != pending
    event = pending_event(state.pods[uid], cause, pending.message, is_infeasible=pending.reason == INFEASIBLE)
    return Retried(after, (event,) if is_news else ())


def _sized(state: NodePods, uid: str, size: PodSize) -> NodePods:
    return replace(state, sizes={**state.sizes, uid: size})


def _infeasible(pod: Obj, allocated: Allocated, settings: ResizeSettings) -> Iterator[str]:
    """What no waiting could help."""
    if is_static(pod):
        yield "In-place resize of static-pods is not supported"
    changed = {name for name in ("cpu", "memory") if _is_changed(pod, allocated, name)}
    if any(settings.may_swap(pod, name) for name in _unswappable(pod, allocated)):
        yield "In-place resize of containers with swap is not supported."
    if qos_class(pod["spec"]) != GUARANTEED:
        return
    text = "Resize is infeasible for Guaranteed Pods alongside {} Manager policy {}"
    if settings.cpu_manager_policy == "static" and "cpu" in changed:
        yield text.format("CPU", go_quote(settings.cpu_manager_policy))
    if settings.memory_manager_policy == "Static" and "memory" in changed:
        yield text.format("Memory", go_quote(settings.memory_manager_policy))


def _is_changed(pod: Obj, allocated: Allocated, name: str) -> bool:
    """Whether a container is to have another request of it; the limits of Guaranteed pods are equal."""
    return any(
        _request(container.get("resources"), name) != _request(allocated.get(container["name"]), name)
        for container in _resizable(pod["spec"])
    )


def _unswappable(pod: Obj, allocated: Allocated) -> Iterator[str]:
    """Containers that are to have another memory request without a restart: their share of the swap would change."""
    for container in _resizable(pod["spec"]):
        policies = {policy["resourceName"]: policy["restartPolicy"] for policy in container.get("resizePolicy") or ()}
        before = _request(allocated.get(container["name"]), "memory")
        if _request(container.get("resources"), "memory") != before and policies.get("memory") != "RestartContainer":
            yield container["name"]


def _request(resources: Obj | None, name: str) -> Any:
    return parse(((resources or {}).get("requests") or {}).get(name, "0"))


def _resizable(spec: Obj) -> Iterator[Obj]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def is_same_size(desired: Allocated, allocated: Allocated) -> bool:
    """Whether they mean the same amounts, however they are written."""
    return {name: _canonical(resources) for name, resources in desired.items()} == {
        name: _canonical(resources) for name, resources in allocated.items()
    }


def _canonical(resources: Obj) -> Obj:
    amounts = {kind: resources.get(kind) or {} for kind in ("requests", "limits")}
    return {kind: {name: canonical(text) for name, text in found.items()} for kind, found in amounts.items()}


def _goes_before(state: NodePods, uid: str, other: str) -> bool:
    if not _is_growing(state, uid):
        return True
    return _is_growing(state, other) and _importance(state, uid) < _importance(state, other)


def _is_growing(state: NodePods, uid: str) -> bool:
    pod = state.pods[uid]
    desired, held = pod_requests(pod["spec"]), pod_requests(with_allocation(pod, state.sizes[uid].allocated)["spec"])
    return any(desired.get(name, ZERO) > held.get(name, ZERO) for name in ("cpu", "memory"))


def _importance(state: NodePods, uid: str) -> tuple[int, bool, float]:
    spec, since = state.pods[uid]["spec"], state.sizes[uid].pending_since
    waiting_since = float("inf") if since is None else since
    return (-(spec.get("priority") or 0), qos_class(spec) != GUARANTEED, waiting_since)
