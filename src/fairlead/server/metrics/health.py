"""The results of health checks, which `/metrics/slis` serves. Source: component-base `metrics/prometheus/slis`."""

from __future__ import annotations

from fairlead.runtime.metrics import Counter, Gauge, MetricsRegistry


class HealthMetrics:
    """How each check came out whenever somebody asked."""

    def __init__(self) -> None:
        self._last = Gauge("kubernetes_healthcheck", "[STABLE] How a check came out last: 1 is well.", "name", "type")
        self._all = Counter("kubernetes_healthchecks_total", "[STABLE] How checks came out.", "name", "type", "status")
        self.served = MetricsRegistry(self._last, self._all)

    def checked(self, name: str, endpoint: str, *, is_well: bool) -> None:
        self._last.set(float(is_well), (name, endpoint))
        self._all.add((name, endpoint, "success" if is_well else "error"))
