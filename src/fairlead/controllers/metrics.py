"""What the controllers of a process count, by kube-controller-manager's names."""

from __future__ import annotations

from fairlead.runtime.metrics import Family, Gauge
from fairlead.runtime.workqueue_metrics import WorkQueueMetrics

_MANAGER = "kube-controller-manager"


class ControllerMetrics:
    """Their queues, and which of them run."""

    def __init__(self) -> None:
        self.queues = WorkQueueMetrics()
        self._running = Gauge(
            "running_managed_controllers", "[BETA] Whether a controller runs: 1 if it does.", "name", "manager"
        )
        self.families: tuple[Family, ...] = (*self.queues.families, self._running)

    def runs(self, name: str) -> None:
        """A controller has begun to work."""
        self._running.set(1, (name, _MANAGER))
