"""What is counted of device plugins: by the names of pkg/kubelet/metrics (1.36)."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.runtime.metrics import DEFAULT_BOUNDS, Counter, Family, Histogram


class DevicePluginMetrics:
    def __init__(self) -> None:
        self._registrations = Counter(
            "kubelet_device_plugin_registration_total",
            "[ALPHA] Cumulative number of device plugin registrations. Broken down by resource name.",
            "resource_name",
        )
        self._allocations = Histogram(
            "kubelet_device_plugin_alloc_duration_seconds",
            "[ALPHA] Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
            DEFAULT_BOUNDS,
            "resource_name",
        )

    @property
    def families(self) -> Iterable[Family]:
        return self._registrations, self._allocations

    def registers(self, resource: str) -> None:
        self._registrations.add((resource,))

    def allocated(self, resource: str, seconds: float) -> None:
        self._allocations.observe(seconds, (resource,))
