"""What a node's decisions ask of whatever runs its containers: a simulation, or a container runtime."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from fairlead.api.pods import Container, Pod


class Exit(NamedTuple):
    """The end of a container."""

    at: float  # seconds since the epoch
    code: int
    #: Where it is neither `Completed` nor `Error`: `OOMKilled`.
    reason: str = ""


class ContainerRuntime(Protocol):
    """Answers at once, with what is known at that moment; a later question may have another answer."""

    def sandbox_ready_at(self, pod: Pod, since: float) -> float:
        """When the pod that the node has had since then can start its first container."""
        ...

    def pull_error(self, pod: Pod, container: Container, *, is_init: bool) -> str:
        """Why the container's image cannot be had; empty if it can."""
        ...

    def exit_of(self, pod: Pod, container: Container, started_at: float, *, is_init: bool) -> Exit | None:
        """How the container that started then ends, or has ended; None if nobody can say yet."""
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

    def stop(self, pod: Pod, container: Container, since: float, grace: float, *, is_init: bool) -> Exit:
        """How the container ends that was told to stop then and is killed after `grace` seconds."""
        ...
