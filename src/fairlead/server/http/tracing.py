"""Traces of requests, for an OpenTelemetry collector (`--tracing-config-file`).

A request is traced if its client traces it and may decide that (administrators and those who monitor), else by chance.
Spans leave in batches by OTLP over HTTP, from a thread of the library; those that nobody takes are dropped.
Sources: apiserver, pkg/endpoints/filters/traces.go, pkg/server/options/tracing.go; component-base, tracing (1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fairlead.api.users import MASTERS
from fairlead.runtime.clock import now, stopwatch
from fairlead.runtime.tracing import Entered, Span
from fairlead.server.http.request import Request
from fairlead.server.http.tracing_configuration import TracingSettings

_SERVICE: Final = "apiserver"
#: Whose own traces are gone on with.
_TRUSTED_GROUPS: Final = frozenset({MASTERS, "system:monitoring"})
_EXPORT_SECONDS: Final = 5
#: How long what is not sent yet may take when the server stops.
_LAST_SECONDS: Final = 2.0
_LONGEST_ATTRIBUTE: Final = 1024
_READER: Final = TraceContextTextMapPropagator()


class _Span:
    """One of the library's, as the parts of the server see it."""

    __slots__ = ("_span", "_tracer")

    def __init__(self, tracer: trace.Tracer, span: trace.Span) -> None:
        self._tracer, self._span = tracer, span

    def child(self, name: str) -> Span:
        return _Span(self._tracer, self._tracer.start_span(name, trace.set_span_in_context(self._span)))

    def end(self, error: BaseException | None = None) -> None:
        if error is not None:
            self._span.set_status(trace.StatusCode.ERROR, str(error)[:_LONGEST_ATTRIBUTE])
        self._span.end()


class TracedRequest:
    """The span of a request: enter it, and say how it was answered."""

    def __init__(self, tracer: trace.Tracer, span: trace.Span) -> None:
        self._span = span
        self.entered = Entered(_Span(tracer, span))

    def answered(self, code: int) -> None:
        self._span.set_attribute("http.response.status_code", code)
        if code >= 500:
            self._span.set_status(trace.StatusCode.ERROR)


class Tracing:
    """Begins the spans of requests."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("fairlead")

    def begin(self, request: Request) -> TracedRequest | None:
        """The span of an authenticated request, since it came; None if it is not traced."""
        parent, links = _parent(request)
        span = self._tracer.start_span(
            span_name(request),
            parent,
            trace.SpanKind.SERVER,
            _attributes(request),
            links,
            start_time=int((now() - (stopwatch() - request.came_at)) * 1e9),
        )
        return TracedRequest(self._tracer, span) if span.is_recording() else None


def _parent(request: Request) -> tuple[Any, list[trace.Link]]:
    """What the request is a part of, and what it only belongs to."""
    sent = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in request.headers.items()
        if name in (b"traceparent", b"tracestate")
    }
    if "traceparent" not in sent:
        return trace.set_span_in_context(trace.INVALID_SPAN), []
    context = _READER.extract(sent)
    if _TRUSTED_GROUPS.intersection(request.known_user.groups):
        return context, []
    stranger = trace.get_current_span(context).get_span_context()
    links = [trace.Link(stranger)] if stranger.is_valid else []
    return trace.set_span_in_context(trace.INVALID_SPAN), links


def _attributes(request: Request) -> dict[str, str]:
    return {
        "http.request.method": request.method,
        "url.path": request.scope["raw_path"].decode("ascii", "replace"),
        "http.target": request.uri,
        "user_agent.original": request.headers.get(b"user-agent", b"").decode("latin-1"),
        "audit-id": request.log_extra["audit_id"],
    }


def span_name(request: Request) -> str:
    """What all requests of a kind are called."""
    info = request.info
    if not info.resource:
        return request.method
    parts = ["apis", info.group, info.version] if info.group else ["api", info.version]
    if info.namespace:
        parts += ["namespaces", "{:namespace}"]
    parts.append(info.resource)
    if info.name:
        parts.append("{:name}")
    if info.subresource:
        parts.append(info.subresource)
    return f"{request.method} /{'/'.join(parts)}"


@asynccontextmanager
async def tracing(settings: TracingSettings, instance: str) -> AsyncIterator[Tracing]:
    """Trace while the block runs; `instance` tells this server from others."""
    resource = Resource.create({"service.name": _SERVICE, "service.instance.id": instance})
    sampler = ParentBased(TraceIdRatioBased(settings.sampled))
    limits = SpanLimits(max_attribute_length=_LONGEST_ATTRIBUTE)
    provider = TracerProvider(sampler, resource, shutdown_on_exit=False, span_limits=limits)
    exporter = OTLPSpanExporter(settings.url, timeout=_EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield Tracing(provider)
    finally:
        await asyncio.to_thread(provider.force_flush, int(_LAST_SECONDS * 1000))
        await asyncio.to_thread(provider.shutdown)
