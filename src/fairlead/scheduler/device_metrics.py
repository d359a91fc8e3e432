"""What is counted of claims of devices, by kube-scheduler's names, labels and buckets (pkg/scheduler/metrics)."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.runtime.metrics import Counter, Family, Histogram, exponential


class DeviceMetrics:
    """Claims that the scheduler makes, and devices that somebody has to prepare before their pod is bound."""

    def __init__(self) -> None:
        self._made = Counter(
            "scheduler_resourceclaim_creates_total",
            "[ALPHA] ResourceClaims that were made for extended resources, or should have been.",
            "status",
        )
        self._prepared = Counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "[ALPHA] Attempts to bind pods whose devices have binding conditions, by the drivers of these.",
            "profile",
            "driver",
            "status",
        )
        self._waited = Histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "[ALPHA] How long binding conditions of devices were waited for.",
            exponential(0.1, 2, 14),
            "profile",
            "driver",
            "status",
        )
        self.families: tuple[Family, ...] = (self._made, self._prepared, self._waited)

    def made(self, status: str) -> None:
        """A claim was to be made for extended resources of a pod: success or failure."""
        self._made.add((status,))

    def prepared(self, profile: str, drivers: Iterable[str], status: str, seconds: float) -> None:
        """Devices of these drivers were waited for: success, failure or timeout."""
        for driver in drivers:
            self._prepared.add((profile, driver, status))
            self._waited.observe(seconds, (profile, driver, status))
