"""The resize of one pod, from the time when it is wanted until its containers have what they are allocated.

    wanted ─▶ pending ─▶ allocated ─▶ in progress ─▶ completed
                                          └─▶ error: a memory limit below what is used; tried again

Who decides whether it is allocated is `resize.py`. Sources: pkg/kubelet/kubelet.go (SyncPod),
pkg/kubelet/kuberuntime (doPodResizeAction, validateMemoryResizeAction).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead.api.objects import Obj
from fairlead.api.pods import Container, Pod
from fairlead.api.quantity import parse
from fairlead.golang.quoting import go_quote
from fairlead.node.container_runtime import ContainerRuntime
from fairlead.node.container_sync import DEFAULT_GRACE_SECONDS, ContainerSync, Note
from fairlead.node.containers import ContainerRecord, RunningState
from fairlead.node.resize import IN_PROGRESS, PENDING, POD_LEVEL, Allocated, PendingResize, PodSize
from fairlead.node.resize_messages import completed_event, error_event
from fairlead.node.status import Containers, PodLevel, is_sidecar
from fairlead.runtime.clock import parse_timestamp

#: When a kubelet sees that the runtime has done what it was asked for.
ACTUATION_SECONDS: Final = 1.0
#: When a kubelet tries again what failed.
RETRY_SECONDS: Final = 10.0


class ResizeProgress(msgspec.Struct):
    """What a pod has that is resized, besides what its containers are allocated."""

    pending: PendingResize | None = None
    pending_since: float | None = None
    #: Generation of the resize that is carried out, when to look at it, and what went wrong the last time.
    in_progress: int | None = None
    due_at: float = 0.0
    error: str = ""
    #: The runtime is at it.
    is_under_way: bool = False

    def conditions(self) -> list[Obj]:
        conditions = PodSize({}, self.pending, self.pending_since, self.in_progress).conditions()
        if self.error:
            conditions[-1] |= {"reason": "Error", "message": self.error}
        return conditions

    def take(self, size: PodSize, now: float) -> None:
        """The node has decided."""
        self.pending, self.pending_since = size.pending, size.pending_since
        if size.in_progress is not None and size.in_progress != self.in_progress:
            self.in_progress, self.error, self.due_at = size.in_progress, "", now + ACTUATION_SECONDS

    def clock_set(self, seconds: float) -> None:
        self.due_at += seconds

    def advance(self, containers: Containers, sync: ContainerSync) -> None:
        """Carry out what is allocated."""
        if self.pending is not None and not wants_resize(containers):  # taken back
            self.pending, self.pending_since, sync.has_changed = None, None, True
        if self.in_progress is None:
            return
        if sync.now < self.due_at:
            sync.wake(self.due_at)
            return
        pod = sync.pod
        if error := memory_error(sync.runtime, pod, containers, sync.now):
            self._fail(error, containers, sync)
            return
        restarts = [entry for entry in resizable(containers) if _needs_restart(*entry)]
        for container, record in restarts:
            grace = pod.spec.termination_grace_period_seconds
            message = f"Container {container.name} resize requires restart"
            seconds = DEFAULT_GRACE_SECONDS if grace is None else grace
            sync.stop(container, record, message, seconds, is_init=is_sidecar(container))
        problem = sync.runtime.resize(pod, self.in_progress, {container.name for container, _ in restarts})
        self.is_under_way = problem is None
        if problem is None:
            return
        if problem and restarts:  # the pod may not be smaller than what has yet to end
            self.is_under_way, self.due_at = True, sync.now + ACTUATION_SECONDS
            sync.wake(self.due_at)
            return
        if problem:
            self._fail(problem, containers, sync)
            return
        self.error = ""
        for container, record in resizable(containers):
            if record.resources != record.allocated and (container, record) not in restarts:
                record.resources = record.allocated
        if containers.pod_level is not None:
            containers.pod_level.resources = containers.pod_level.allocated
        sync.has_changed = True

    def finish(self, containers: Containers, sync: ContainerSync) -> None:
        """Nothing is left to do if all containers that run have what they are allocated."""
        if self.in_progress is None or self.is_under_way or sync.now < self.due_at:
            return
        if any(map(_differs, resizable(containers))):
            return
        if (level := containers.pod_level) is not None and level.resources != level.allocated:
            return
        event = completed_event(_summarized(sync.pod, containers), self.in_progress)
        sync.notes.append(Note(event.type, event.reason, event.message))
        self.in_progress, sync.has_changed = None, True

    def _fail(self, error: str, containers: Containers, sync: ContainerSync) -> None:
        assert self.in_progress is not None
        if error != self.error:
            event = error_event(_summarized(sync.pod, containers), self.in_progress, error)
            sync.notes.append(Note(event.type, event.reason, event.message))
            self.error, sync.has_changed = error, True
        self.due_at = sync.now + RETRY_SECONDS
        sync.wake(self.due_at)


def remembered_progress(pod: Pod) -> ResizeProgress | None:
    """What an earlier process has reported."""
    progress = ResizeProgress()
    for condition in pod.status.conditions:
        generation = condition.observed_generation or 0
        if condition.type == PENDING:
            progress.pending = PendingResize(condition.reason, condition.message, generation)
            began = condition.last_transition_time
            progress.pending_since = parse_timestamp(began) if began else None
        elif condition.type == IN_PROGRESS:
            progress.in_progress, progress.error = generation, condition.message
    return progress if progress.conditions() else None


def resizable(containers: Containers) -> Iterator[tuple[Container, ContainerRecord]]:
    """Those whose size can change: all but ephemeral ones."""
    yield from containers.main
    yield from containers.init


def _lasting(containers: Containers) -> Iterator[tuple[Container, ContainerRecord]]:
    """Those that run side by side once the pod has started."""
    yield from containers.main
    if containers.init:
        yield from (entry for entry in containers.init if is_sidecar(entry[0]))


def wants_resize(containers: Containers) -> bool:
    """Whether something else is desired than what is allocated."""
    level = containers.pod_level
    if level is not None and level.desired != level.allocated:
        return True
    return any((container.resources or {}) != record.allocated for container, record in resizable(containers))


def allocated_by_container(containers: Containers) -> Allocated:
    found = {container.name: record.allocated for container, record in resizable(containers)}
    return found if containers.pod_level is None else found | {POD_LEVEL: containers.pod_level.allocated}


def remembered_pod_level(pod: Pod) -> PodLevel | None:
    """Of a pod with resources of its own: what an earlier process has reported, or else what it asks for."""
    if not pod.spec.raw_resources:
        return None
    desired = msgspec.json.decode(pod.spec.raw_resources)
    reported = msgspec.json.decode(pod.status.raw_resources) if pod.status.raw_resources else desired
    is_pending = any(condition.type == PENDING for condition in pod.status.conditions)
    return PodLevel(reported if is_pending else desired, reported)


def memory_error(runtime: ContainerRuntime, pod: Pod, containers: Containers, now: float) -> str:
    """Why memory limits cannot be lowered to what is allocated: more than that is in use."""
    changing = [entry for entry in resizable(containers) if _differs(entry)]
    lowered = {container.name for container, record in changing if _is_memory_lowered(record)}
    level = containers.pod_level
    is_pod_lowered = level is not None and _is_memory_lowered(level)
    if not lowered and not is_pod_lowered:
        return ""
    usages = {
        container.name: runtime.memory_bytes(pod, container, record.state.started_at, now)
        for container, record in resizable(containers)
        if isinstance(record.state, RunningState)
    }
    errors = []
    limits = [_memory_limit(record.allocated) for _, record in _lasting(containers)]
    total, used = sum(limit or 0 for limit in limits), sum(usages.values())
    before = [_memory_limit(record.resources) for _, record in _lasting(containers)]
    is_lower = None in before or total < sum(limit or 0 for limit in before)
    if level is not None and (own := _memory_limit(level.allocated)) is not None:
        limits, total, is_lower = [own], own, is_pod_lowered
    if None not in limits and is_lower and used > total:
        errors.append(f"attempting to set pod memory limit ({total}) below current usage ({used})")
    for container, record in changing:
        limit, usage = _memory_limit(record.allocated), usages.get(container.name, 0)
        if container.name in lowered and not _needs_restart(container, record) and limit is not None and usage > limit:
            name = go_quote(container.name)
            errors.append(f"attempting to set container {name} memory limit ({limit}) below current usage ({usage})")
    if not errors:
        return ""
    return f"cannot decrease memory limits: {errors[0] if len(errors) == 1 else '[' + ', '.join(errors) + ']'}"


def _differs(entry: tuple[Container, ContainerRecord]) -> bool:
    record = entry[1]
    return isinstance(record.state, RunningState) and record.resources != record.allocated


def _is_memory_lowered(record: ContainerRecord | PodLevel) -> bool:
    limit, before = _memory_limit(record.allocated), _memory_limit(record.resources)
    return limit is not None and (before is None or limit < before)


def _memory_limit(resources: Mapping[str, Any]) -> int | None:
    text = (resources.get("limits") or {}).get("memory")
    return None if text is None else parse(text).units


def _needs_restart(container: Container, record: ContainerRecord) -> bool:
    """Whether the container wants to be restarted when one of the resources that change does."""
    return _differs((container, record)) and any(
        policy.restart_policy == "RestartContainer"
        and _amounts(record.allocated, policy.resource_name) != _amounts(record.resources, policy.resource_name)
        for policy in container.resize_policy or ()
    )


def _amounts(resources: Mapping[str, Any], name: str) -> list[Any]:
    texts = [(resources.get(kind) or {}).get(name) for kind in ("requests", "limits")]
    return [None if text is None else parse(text) for text in texts]


def _summarized(pod: Pod, containers: Containers) -> Obj:
    """The pod as its events sum it up, with what it is allocated."""

    def listed(entries: list[tuple[Container, ContainerRecord]]) -> list[Obj]:
        return [{"name": container.name, "resources": record.allocated} for container, record in entries]

    spec = {"initContainers": listed(containers.init), "containers": listed(containers.main)}
    return {"metadata": {"generation": pod.metadata.generation}, "spec": spec}
