"""What a request counts as: the labels of its metrics.

Only what is served has labels: the kind, subresource and version are the catalogue's words, the verb one of a few.
Source: apiserver `endpoints/metrics/metrics.go` (`cleanVerb`, `CleanScope`, `cleanDryRun`).
"""

from __future__ import annotations

from typing import Final

from fairlead.api.resources import Resource
from fairlead.server.http.request import Request
from fairlead.server.http.request_info import RequestInfo
from fairlead.server.metrics.requests import COMPONENT, CONNECT, WATCH, Asked, Endpoint, RequestMetrics

_APPLY_TYPE: Final = "application/apply-patch+yaml"
_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_CONNECTED: Final = frozenset({"log", "exec", "portforward", "attach", "proxy"})
#: Paths that are no resource's and yet count, with the component that upstream names.
_COUNTED_PATHS: Final = {"/healthz": "", "/livez": "", "/readyz": "", "/api": COMPONENT, "/apis": COMPONENT}


def count_resource(metrics: RequestMetrics, request: Request, row: Resource) -> None:
    """From now on the request counts as one of that kind."""
    if (endpoint := _endpoint_of(metrics, request, row)) is not None:
        _begin(metrics, request, endpoint)


def count_refused(metrics: RequestMetrics, request: Request, row: Resource, code: int) -> None:
    """The request, which is one of that kind, is not carried out."""
    if (endpoint := _endpoint_of(metrics, request, row)) is not None:
        metrics.refuse(endpoint, code)


def _endpoint_of(metrics: RequestMetrics, request: Request, row: Resource) -> Endpoint | None:
    """A subresource that the kind lacks is nobody's."""
    info = request.info
    subresource = info.subresource.partition("/")[0]
    if subresource and subresource not in row.subresources:
        return None
    scope = _scope(info)
    verb = _verb(request, scope, subresource)
    dry_run = _dry_run(request) if verb in _WRITES or verb == "APPLY" else ""
    fields = (verb, row.group, row.version, row.plural, subresource, scope, COMPONENT, dry_run)
    return metrics.endpoint(fields)


def count_path(metrics: RequestMetrics, request: Request) -> None:
    """The same for a path of the server's own."""
    path = request.path.rstrip("/")
    component = _COUNTED_PATHS.get(path)
    if component is not None:
        verb = "GET" if request.method in ("GET", "HEAD") else request.method if request.method in _WRITES else "other"
        _begin(metrics, request, metrics.endpoint(Asked(verb, subresource=path, component=component)))


def _begin(metrics: RequestMetrics, request: Request, endpoint: Endpoint) -> None:
    request.endpoint = endpoint
    metrics.begin(endpoint, request.came_at)


def _scope(info: RequestInfo) -> str:
    if info.name or info.verb == "create":
        return "resource"
    return "namespace" if info.namespace else "cluster"


def _verb(request: Request, scope: str, subresource: str) -> str:
    method = request.method
    if subresource in _CONNECTED:
        return CONNECT
    if method in ("GET", "HEAD"):
        if request.is_watch or request.info.is_watch_path:
            return WATCH
        return "GET" if scope == "resource" else "LIST"
    if method == "PATCH":
        return "APPLY" if request.full_content_type == _APPLY_TYPE else "PATCH"
    return method if method in _WRITES else "other"


def _dry_run(request: Request) -> str:
    wanted = request.queries.get("dryRun")
    if not wanted:
        return ""
    return "All" if all(value == "All" for value in wanted) else "invalid"
