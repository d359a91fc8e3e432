"""What is counted of device plugins: by the names of pkg/kubelet/metrics (1.36)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.kinds.resource_names import is_extended
from fairlead.runtime.metrics import DEFAULT_BOUNDS, Counter, Family, Histogram

#: The most resources that are told apart: whoever reaches the socket may name any number, and as long as he likes.
_MOST_NAMES: Final = 1000
_OTHERS: Final = "others"


class DevicePluginMetrics:
    def __init__(self) -> None:
        self._registrations = Counter(
            "kubelet_device_plugin_registration_total",
            "[ALPHA] Cumulative number of device plugin registrations. Broken down by resource name.",
            "resource_name",
        )
        self._names = set[str]()
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
        self._registrations.add((self._told_apart(resource),))

    def allocated(self, resource: str, seconds: float) -> None:
        self._allocations.observe(seconds, (self._told_apart(resource),))

    def _told_apart(self, resource: str) -> str:
        if resource not in self._names:
            if len(self._names) >= _MOST_NAMES or not is_extended(resource):
                return _OTHERS
            self._names.add(resource)
        return resource
