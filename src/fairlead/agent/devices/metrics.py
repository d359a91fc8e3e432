"""What is counted of claims of devices on a real node: by the names of pkg/kubelet/metrics (1.36)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from fairlead.runtime.metrics import GAUGE, Computed, Family, Histogram, exponential

#: From a tenth of a second to forty: a call of a driver may take 45.
_BOUNDS: Final = exponential(0.1, (40.0 / 0.1) ** (1 / 14), 15)
_ANY: Final = "<any>"


class DraMetrics:
    def __init__(self) -> None:
        self._operations = Histogram(
            "dra_operations_duration_seconds",
            "[ALPHA] How long it took to prepare the claims of a pod, or to give them back.",
            _BOUNDS,
            "operation_name",
            "is_error",
        )
        self._calls = Histogram(
            "dra_grpc_operations_duration_seconds",
            "[ALPHA] How long calls of drivers took.",
            _BOUNDS,
            "driver_name",
            "method_name",
            "grpc_status_code",
        )

    def families(self, drivers_of_claims: Iterable[Iterable[str]]) -> tuple[Family, ...]:
        """With the claims that are in use, by the drivers that have a part in each."""
        counts = Counter({_ANY: 0})
        for drivers in drivers_of_claims:
            counts.update((_ANY, *drivers))
        read = [((driver,), float(count)) for driver, count in counts.items()]
        name, text = "dra_resource_claims_in_use", "[ALPHA] Claims that are in use, of each driver and of any."
        return self._operations, self._calls, Computed(GAUGE, name, text, ("driver_name",), lambda: read)

    def operation(self, name: str, seconds: float, problem: str) -> None:
        self._operations.observe(seconds, (name, "true" if problem else "false"))

    def call(self, driver: str, method: str, seconds: float, code: str) -> None:
        self._calls.observe(seconds, (driver, method, code))
