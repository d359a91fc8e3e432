"""How long admission takes. Source: apiserver `admission/metrics/metrics.go`."""

from __future__ import annotations

from typing import Final

from fairlead.runtime.metrics import Distribution, Family, Histogram

_SECONDS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)

ADMIT: Final = "admit"
VALIDATE: Final = "validate"


class AdmissionMetrics:
    """Of each plugin, and of all together."""

    def __init__(self) -> None:
        self._steps = Histogram(
            "apiserver_admission_step_admission_duration_seconds",
            "[STABLE] How long all plugins together took, by the step.",
            _SECONDS,
            "type",
            "operation",
            "rejected",
        )
        self._controllers = Histogram(
            "apiserver_admission_controller_admission_duration_seconds",
            "[STABLE] How long one plugin took, by its name.",
            _SECONDS,
            "name",
            "type",
            "operation",
            "rejected",
        )
        self.families: tuple[Family, ...] = (self._steps, self._controllers)

    def step(self, type_: str, operation: str, *, is_rejected: bool = False) -> Distribution:
        return self._steps.of((type_, operation, _flag(is_rejected)))

    def plugin(self, name: str, type_: str, operation: str, *, is_rejected: bool = False) -> Distribution:
        return self._controllers.of((name, type_, operation, _flag(is_rejected)))


def _flag(value: bool) -> str:
    return "true" if value else "false"
