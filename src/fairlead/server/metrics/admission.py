"""How long admission takes. Source: apiserver `admission/metrics/metrics.go`."""

from __future__ import annotations

from typing import Final

from fairlead.runtime.metrics import Counter, Distribution, Family, Histogram

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
        self.webhooks = WebhookMetrics()
        self.families: tuple[Family, ...] = (self._steps, self._controllers, *self.webhooks.families)

    def step(self, type_: str, operation: str, *, is_rejected: bool = False) -> Distribution:
        return self._steps.of((type_, operation, _flag(is_rejected)))

    def plugin(self, name: str, type_: str, operation: str, *, is_rejected: bool = False) -> Distribution:
        return self._controllers.of((name, type_, operation, _flag(is_rejected)))


class WebhookMetrics:
    """Of each webhook; the types are `admit` and `validating`."""

    def __init__(self) -> None:
        self._seconds = Histogram(
            "apiserver_admission_webhook_admission_duration_seconds",
            "[STABLE] How long one webhook took, by its name.",
            (*_SECONDS, 10.0, 25.0),
            "name",
            "type",
            "operation",
            "rejected",
        )
        self._calls = Counter(
            "apiserver_admission_webhook_request_total",
            "[ALPHA] Calls of webhooks, by name and by what came of them.",
            "name",
            "type",
            "operation",
            "code",
            "rejected",
        )
        self._rejections = Counter(
            "apiserver_admission_webhook_rejection_count",
            "[ALPHA] Requests that a webhook refused or that nobody dared to let pass without it.",
            "name",
            "type",
            "operation",
            "error_type",
            "rejection_code",
        )
        self._ignored = Counter(
            "apiserver_admission_webhook_fail_open_count",
            "[ALPHA] Requests that went on although a webhook did not answer.",
            "name",
            "type",
        )
        self.families: tuple[Family, ...] = (self._seconds, self._calls, self._rejections, self._ignored)

    def called(self, name: str, type_: str, operation: str, seconds: float, code: int, *, is_rejected: bool) -> None:
        rejected = _flag(is_rejected)
        self._seconds.observe(seconds, (name, type_, operation, rejected))
        self._calls.add((name, type_, operation, str(min(code, 600)), rejected))

    def rejected(self, name: str, type_: str, operation: str, error_type: str, code: int) -> None:
        """The type of error: `calling_webhook_error`, `apiserver_internal_error` or `no_error`."""
        self._rejections.add((name, type_, operation, error_type, str(min(code, 600))))

    def ignored(self, name: str, type_: str) -> None:
        self._ignored.add((name, type_))


def _flag(value: bool) -> str:
    return "true" if value else "false"
