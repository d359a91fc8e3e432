"""What a node's decisions ask of whatever runs its containers: a simulation, or a container runtime.

A simulation foretells: it knows when something will be over. A real runtime is asked while things happen: it begins
what it is asked for once, and says that it is not there yet (None, or a time that never comes) until it is. Whoever
runs it has to look at the pod again when there is news.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple, Protocol

from fairlead.api.objects import Obj
from fairlead.api.pods import Container, Pod
from fairlead.node.containers import Stopping


class Exit(NamedTuple):
    """The end of a container."""

    at: float  # seconds since the epoch
    code: int
    #: Where it is neither `Completed` nor `Error`: `OOMKilled`.
    reason: str = ""
    #: Its last words.
    message: str = ""


class WantedImage(NamedTuple):
    """An image that a container needs to start: its own, or one that is a volume."""

    key: str
    reference: str
    policy: str
    #: Of whom events tell: the container; of the pod, if it is empty.
    path: str = ""
    #: Whose own it is.
    container: Container | None = None
    is_init: bool = False


class Image(NamedTuple):
    """Whether an image is on the machine."""

    is_present: bool
    #: Where nobody can say: `InvalidImageName` or `ImageInspectError`, and why.
    problem: str = ""
    message: str = ""
    #: It is being found out.
    is_asked_for: bool = False


class Start(NamedTuple):
    """How far the start of a container has come."""

    #: When it started; infinite while it has not.
    at: float = math.inf
    container_id: str = ""
    image_id: str = ""
    #: Why it cannot be made (`CreateContainerError`), or was made and did not start (`RunContainerError`).
    problem: str = ""
    message: str = ""
    #: What its status shows of this run besides: who it runs as, and its mounts.
    shown: Obj | None = None


class Probed(NamedTuple):
    """What the probes of a container have come to where they are really made."""

    is_started: bool
    is_ready: bool
    #: The one that has failed too often: `Liveness` or `Startup`.
    failed: str = ""


class ContainerRuntime(Protocol):
    """Answers at once, with what is known at that moment; a later question may have another answer."""

    def sandbox_ready_at(self, pod: Pod, since: float) -> float:
        """When the pod that the node has had since then can start its first container."""
        ...

    def has_lost_sandbox(self, pod: Pod) -> bool:
        """Whether what its containers share, which was made once, is gone: they end, and it is made again."""
        ...

    def prepare(self, pod: Pod) -> str | None:
        """Why the devices of its claims cannot be had; empty once they are prepared, None until then."""
        ...

    def unprepare(self, pod: Pod) -> bool:
        """Whether the devices of its claims are given back, now that all of its containers have ended."""
        ...

    def mount(self, pod: Pod) -> str | None:
        """Why its volumes cannot be mounted, of which all sources are there; empty once they are, None until then."""
        ...

    def image(self, pod: Pod, wanted: WantedImage) -> Image: ...

    def pull(self, pod: Pod, wanted: WantedImage) -> str | None:
        """Try to get the image: why it cannot be had, empty once it is there, None until then."""
        ...

    def start(self, pod: Pod, container: Container, attempt: int, now: float, *, is_init: bool) -> Start:
        """Start the container for the n-th time, from 0."""
        ...

    def exit_of(self, pod: Pod, container: Container, started_at: float, *, is_init: bool) -> Exit | None:
        """How the container that started then ends, or has ended; None if nobody can say yet."""
        ...

    def probed(self, pod: Pod, container: Container, started_at: float) -> Probed | None:
        """What its probes say now; None where none are made, and the answers are foretold instead."""
        ...

    def startup_answers_at(self, pod: Pod, container: Container, started_at: float) -> float:
        """From when on the container that started then answers its startup probe; infinite if it never does."""
        ...

    def answers_at(self, pod: Pod, container: Container, started_at: float) -> float:
        """From when on the container that started then answers its readiness probe; infinite if it never does."""
        ...

    def hangs_at(self, pod: Pod, container: Container, started_at: float) -> float:
        """From when on the container that started then fails its liveness probe; infinite if it never does."""
        ...

    def memory_bytes(self, pod: Pod, container: Container, started_at: float, now: float) -> int:
        """How much memory the container uses now; 0 if nobody can say."""
        ...

    def resize(self, pod: Pod, generation: int, but: Collection[str]) -> str | None:
        """Give the pod and its running containers what they are allocated, but for some that are started anew.

        Why that cannot be done; empty once it is, None until then. A resize goes by its generation.
        """
        ...

    def stop(self, pod: Pod, container: Container, stopping: Stopping, *, is_init: bool) -> Exit:
        """How the container ends that is stopped so."""
        ...
