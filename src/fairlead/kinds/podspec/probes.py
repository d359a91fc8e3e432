"""Probes and lifecycle hooks of containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairlead.api.fields import Errors
from fairlead.api.names import http_header_name
from fairlead.api.objects import Obj
from fairlead.kinds.podspec.ports import validate_port_reference
from fairlead.kinds.podspec.scope import PodScope
from fairlead.kinds.rules import check

_SCHEMES = frozenset({"HTTP", "HTTPS"})
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_LINUX_NAMES = (
    "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM "
    "TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX"
)
_REAL_TIME = (*(f"RTMIN+{i}" for i in range(1, 16)), *(f"RTMAX-{i}" for i in range(1, 15)))
_LINUX_SIGNALS = frozenset(f"SIG{name}" for name in (*_LINUX_NAMES.split(), *_REAL_TIME))
_SIGNALS = {"linux": _LINUX_SIGNALS, "windows": frozenset({"SIGKILL", "SIGTERM"})}


def validate_probes(container: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    """Hooks and probes of a container that keeps running."""
    if (lifecycle := container.get("lifecycle")) is not None:
        _validate_lifecycle(lifecycle, f"{path}.lifecycle", scope, errors)
    if (probe := container.get("livenessProbe")) is not None:
        _validate_probe(probe, f"{path}.livenessProbe", scope, errors)
        _validate_single_success(probe, f"{path}.livenessProbe", errors)
    if (probe := container.get("readinessProbe")) is not None:
        _validate_probe(probe, f"{path}.readinessProbe", scope, errors)
        if (grace := probe.get("terminationGracePeriodSeconds")) is not None:
            errors.invalid(
                f"{path}.readinessProbe.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes"
            )
    if (probe := container.get("startupProbe")) is not None:
        _validate_probe(probe, f"{path}.startupProbe", scope, errors)
        _validate_single_success(probe, f"{path}.startupProbe", errors)


def _validate_single_success(probe: Obj, path: str, errors: Errors) -> None:
    if (threshold := probe.get("successThreshold", 0)) != 1:
        errors.invalid(f"{path}.successThreshold", threshold, "must be 1")


def _validate_probe(probe: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    _validate_handler(probe, _PROBE_HANDLERS, path, scope, errors)
    for field in _COUNTS:
        if (value := probe.get(field, 0)) < 0:
            errors.invalid(f"{path}.{field}", value, "must be greater than or equal to 0")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def _validate_lifecycle(lifecycle: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    for hook in ("postStart", "preStop"):
        if (handler := lifecycle.get(hook)) is not None:
            _validate_handler(handler, _HOOK_HANDLERS, f"{path}.{hook}", scope, errors)
    if (signal := lifecycle.get("stopSignal")) is not None:
        known = _SIGNALS.get(scope.os)
        if not scope.os:
            errors.forbidden(f"{path}.stopSignal", "may not be set for containers with empty `spec.os.name`")
        elif known is not None and signal not in known:
            errors.not_supported(f"{path}.stopSignal", signal, known)


HandlerRule = Callable[[Obj, str, PodScope, Errors], None]


def _validate_handler(
    handler: Obj, kinds: Mapping[str, HandlerRule], path: str, scope: PodScope, errors: Errors
) -> None:
    """Exactly one way to act; of several, the first is checked and the others are refused."""
    found = False
    for kind, rule in kinds.items():
        if (action := handler.get(kind)) is None:
            continue
        if found:
            errors.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
        else:
            rule(action, f"{path}.{kind}", scope, errors)
        found = True
    if not found:
        errors.required(path, "must specify a handler type")


def _validate_exec(action: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    if not action.get("command"):
        errors.required(f"{path}.command")


def _validate_http(action: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    if not action.get("path"):
        errors.required(f"{path}.path")
    validate_port_reference(action.get("port", 0), f"{path}.port", errors)
    if (scheme := action.get("scheme", "")) not in _SCHEMES:
        errors.not_supported(f"{path}.scheme", scheme, _SCHEMES)
    for header in action.get("httpHeaders") or ():
        check(errors, f"{path}.httpHeaders", header.get("name", ""), http_header_name)


def _validate_port_only(action: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    validate_port_reference(action.get("port", 0), f"{path}.port", errors)


def _validate_sleep(action: Obj, path: str, scope: PodScope, errors: Errors) -> None:
    seconds, grace = action.get("seconds", 0), scope.grace_seconds
    if grace is not None and not 0 <= seconds <= grace:
        errors.invalid(path, seconds, f"must be non-negative and less than terminationGracePeriodSeconds ({grace})")


_COMMON: Mapping[str, HandlerRule] = {
    "exec": _validate_exec,
    "httpGet": _validate_http,
    "tcpSocket": _validate_port_only,
}
_PROBE_HANDLERS = {**_COMMON, "grpc": _validate_port_only}
_HOOK_HANDLERS = {**_COMMON, "sleep": _validate_sleep}
