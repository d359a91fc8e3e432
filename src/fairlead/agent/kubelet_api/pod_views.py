"""A pod as the kubelet's API looks at it: which containers it has, and in which state they are.

Source: pkg/kubelet/kubelet_pods.go (`validateContainerLogStatus`), pkg/kubelet/kubelet.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fairlead.api.meta import View
from fairlead.golang.quoting import go_quote

_WAITING: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class _Waiting(View):
    reason: str = ""


class _Running(View):
    started_at: str = ""


class _Terminated(View):
    container_id: str = msgspec.field(default="", name="containerID")


class _State(View):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class ContainerStatus(View):
    name: str
    container_id: str = msgspec.field(default="", name="containerID")
    state: _State = _State()
    last_state: _State = _State()


class _Container(View):
    name: str


class _Spec(View):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] | None = ()
    ephemeral_containers: tuple[_Container, ...] | None = ()


class _Status(View):
    container_statuses: tuple[ContainerStatus, ...] | None = ()
    init_container_statuses: tuple[ContainerStatus, ...] | None = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] | None = ()


class _Metadata(View):
    name: str
    namespace: str = ""
    uid: str = ""


class PodView(View):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def has_container(self, name: str) -> bool:
        spec = self.spec
        kinds = (spec.containers, spec.init_containers, spec.ephemeral_containers)
        return any(container.name == name for kind in kinds for container in kind or ())

    def _statuses(self) -> Iterator[ContainerStatus]:
        status = self.status
        for kind in (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses):
            yield from kind or ()

    def container(self, name: str) -> ContainerStatus | None:
        """The status of a container; None: it has none yet."""
        return next((status for status in self._statuses() if status.name == name), None)


class NoLogs(Exception):
    """A container has written nothing that could be shown; the message is the kubelet's."""


def logged_container(pod: PodView, name: str, *, is_previous: bool) -> str:
    """The ID of the container whose log is meant: the one that runs, or the last that did. NoLogs: none has."""
    named = f"container {go_quote(name)} in pod {go_quote(pod.metadata.name)}"
    status = pod.container(name)
    if status is None:
        raise NoLogs(f"{named} is not available")
    last = status.last_state.terminated
    last_id = last.container_id if last is not None else ""
    state = status.state
    if is_previous:
        if not last_id:
            raise NoLogs(f"previous terminated {named} not found")
        return last_id
    if state.running is not None:
        return status.container_id
    if state.terminated is not None or last is not None:
        found = (state.terminated.container_id if state.terminated is not None else "") or last_id
        if not found:
            raise NoLogs(f"{named} is terminated")
        return found
    if state.waiting is not None:
        reason = state.waiting.reason
        raise NoLogs(f"{named} is waiting to start: {_WAITING.get(reason, reason)}")
    raise NoLogs(f"{named} is waiting to start - no logs yet")
