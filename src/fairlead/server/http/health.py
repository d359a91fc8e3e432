"""`/healthz`, `/livez` and `/readyz`: whether the server works, and with `?verbose` the single checks.

Names and texts are kube-apiserver's, which scripts search for. `etcd` stands for the store.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from fairlead.golang.quoting import go_quote
from fairlead.server.http.answers import Answer
from fairlead.server.registry.registry import Registry

#: Returns the problem; empty if there is none.
HealthCheck = Callable[[], Coroutine[Any, Any, str]]

HEALTH_PATHS = ("healthz", "livez", "readyz")
#: What kube-apiserver begins when it listens already, and what is done here before anybody is heard.
_BEFORE_LISTENING = (
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
)


class Progress(msgspec.Struct):
    """The state of the process, set by the composition root."""

    is_ready: bool = True
    is_stopping: bool = False


class Health:
    """Runs the checks at each request."""

    def __init__(self, registry: Registry, progress: Progress) -> None:
        self._registry, self._progress = registry, progress
        always = {"ping": _fine, "log": _fine, "etcd": self._store}
        begun = dict.fromkeys(_BEFORE_LISTENING, _fine)
        ready = {"etcd-readiness": self._store, "informer-sync": self._synced}
        self._checks: dict[str, dict[str, HealthCheck]] = {
            "healthz": always | begun,
            "livez": always | begun,
            "readyz": always | ready | begun | {"shutdown": self._staying},
        }

    async def answer(self, endpoint: str, name: str, excluded: Sequence[str], *, is_verbose: bool) -> Answer:
        """All checks of an endpoint, or the one of that name."""
        checks = self._checks[endpoint]
        if not name:
            return await self._all(endpoint, excluded, is_verbose=is_verbose)
        if name not in checks:
            return Answer.not_found()
        if problem := await checks[name]():
            return Answer.of_text(f"internal server error: {problem}\n", HTTPStatus.INTERNAL_SERVER_ERROR)
        return Answer.of_text("ok")

    async def _all(self, endpoint: str, excluded: Sequence[str], *, is_verbose: bool) -> Answer:
        lines, failed = [], False
        checks = self._checks[endpoint]
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            problem = await check()
            self._registry.metrics.health.checked(name, endpoint, is_well=not problem)
            if problem:
                failed = True
                lines.append(f"[-]{name} failed: reason withheld")  # /readyz/NAME has it
            else:
                lines.append(f"[+]{name} ok")
        if unknown := sorted(set(excluded) - checks.keys()):
            names = ",".join(map(go_quote, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if failed:
            return Answer.of_text("\n".join([*lines, f"{endpoint} check failed\n"]), HTTPStatus.INTERNAL_SERVER_ERROR)
        return Answer.of_text("\n".join([*lines, f"{endpoint} check passed\n"]) if is_verbose else "ok")

    async def _store(self) -> str:
        return self._registry.store.trouble

    async def _synced(self) -> str:
        return "" if self._progress.is_ready else "the components have not seen the cluster yet"

    async def _staying(self) -> str:
        return "process is shutting down" if self._progress.is_stopping else ""


async def _fine() -> str:
    return ""
