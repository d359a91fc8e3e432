"""What is counted of the pods of a real node, besides what is measured: by the names of pkg/kubelet/metrics (1.36)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.api.pods import Container, EphemeralContainer
from fairlead.runtime.metrics import DEFAULT_BOUNDS, Counter, Family, Histogram

_START_BOUNDS: Final = (
    *(0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0),
    *(480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0),
)


class PodMetrics:
    def __init__(self) -> None:
        self._pods = Counter("kubelet_started_pods_total", "[ALPHA] Cumulative number of pods started")
        self._pod_errors = Counter(
            "kubelet_started_pods_errors_total", "[ALPHA] Cumulative number of errors when starting pods"
        )
        self._sandboxes = Histogram(
            "kubelet_run_podsandbox_duration_seconds",
            "[ALPHA] Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.",
            DEFAULT_BOUNDS,
            "runtime_handler",
        )
        self._sandbox_errors = Counter(
            "kubelet_run_podsandbox_errors_total",
            "[ALPHA] Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.",
            "runtime_handler",
        )
        self._containers = Counter(
            "kubelet_started_containers_total", "[ALPHA] Cumulative number of containers started", "container_type"
        )
        self._container_errors = Counter(
            "kubelet_started_containers_errors_total",
            "[ALPHA] Cumulative number of errors when starting containers",
            "container_type",
            "code",
        )
        self._rejections = Counter(
            "kubelet_admission_rejections_total", "[ALPHA] Cumulative number pod admission rejections", "reason"
        )
        self._starts = Histogram(
            "kubelet_pod_start_duration_seconds",
            "[ALPHA] Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
            _START_BOUNDS,
        )

    @property
    def families(self) -> Iterable[Family]:
        pods = (self._pods, self._pod_errors, self._sandboxes, self._sandbox_errors, self._rejections, self._starts)
        return *pods, self._containers, self._container_errors

    def sandbox(self, handler: str, seconds: float, *, is_made: bool) -> None:
        """One was made for a pod, or could not be."""
        self._pods.add()
        self._sandboxes.observe(seconds, (handler,))
        if not is_made:
            self._pod_errors.add()
            self._sandbox_errors.add((handler,))

    def container(self, container: Container, problem: str, *, is_init: bool) -> None:
        """One was started, or could not be: for that reason."""
        is_ephemeral = isinstance(container, EphemeralContainer)
        kind = "ephemeral_container" if is_ephemeral else "init_container" if is_init else "container"
        self._containers.add((kind,))
        if problem:
            self._container_errors.add((kind, problem))

    def refused(self, reason: str) -> None:
        self._rejections.add((reason,))

    def runs(self, seconds: float) -> None:
        """A pod runs, so long after it was seen first."""
        self._starts.observe(seconds)
