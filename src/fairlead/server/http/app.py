"""The ASGI application: from an HTTP request, through the chain, to its answer.

Two listeners (TLS and plain) differ in how they authenticate.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from fairlead.runtime.clock import stopwatch
from fairlead.runtime.http.exchange import Receive, Scope, Send, framing
from fairlead.runtime.http.pieces import PIECE_BYTES, Pace
from fairlead.runtime.http.protocol import TRANSPORT
from fairlead.runtime.offload import offload
from fairlead.server.aggregation.aggregator import Aggregator
from fairlead.server.audit.auditor import Auditor
from fairlead.server.auth.authenticator import Authenticator
from fairlead.server.fairness.fairness import Fairness
from fairlead.server.http.answers import Answer, warning_headers
from fairlead.server.http.audit import audit_id, complete
from fairlead.server.http.chain import Services, chained
from fairlead.server.http.compression import compressed
from fairlead.server.http.debug import Debug
from fairlead.server.http.documents import Documents
from fairlead.server.http.forwarding import Forwarder
from fairlead.server.http.health import Health, Progress
from fairlead.server.http.request import Request
from fairlead.server.http.resources import ResourceHandlers
from fairlead.server.http.tunnel import Tunnels
from fairlead.server.metrics.requests import Endpoint, note_waits
from fairlead.server.registry.registry import Registry

if TYPE_CHECKING:  # its library is there if somebody wants it
    from fairlead.server.http.tracing import Tracing

log = logging.getLogger(__name__)


class Application:
    """What a listener serves."""

    def __init__(
        self,
        registry: Registry,
        documents: Documents,
        authenticate: Authenticator,
        progress: Progress | None = None,
        fairness: Fairness | None = None,
        auditor: Auditor | None = None,
        aggregator: Aggregator | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._progress = progress or Progress()
        self._forwarder, self._tunnels = Forwarder(), Tunnels()
        backends = aggregator.backends if aggregator else None
        self._resources = ResourceHandlers(registry, self._forwarder, self._tunnels, backends)
        self._metrics = registry.metrics
        health = Health(registry, self._progress)
        services = Services(
            authenticate,
            registry.authorizer,
            self._resources,
            documents,
            health,
            Debug(registry, fairness),
            self._metrics,
            self._forwarder,
            self._tunnels,
            fairness,
            auditor,
            aggregator,
            tracing,
        )
        #: Whether nobody has an answer before the audit webhook has it.
        self._audits_first = auditor is not None and auditor.blocks
        self._handle = chained(services)

    def close(self) -> None:
        """End every watch: the listener is about to stop."""
        self._progress.is_stopping = True
        self._resources.streams.close()
        self._tunnels.close()
        self._forwarder.close()

    def note_failed_handshake(self) -> None:
        """A connection ended before it was one."""
        self._metrics.requests.handshake_errors.add()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(reversed(scope["headers"]))  # the first of its name counts, as in Go
        id_ = audit_id(headers)
        request = Request(scope, headers, receive, send, audit_id=id_, headers_out=[(b"audit-id", id_)])
        request.came_at = stopwatch()
        note_waits(request.waits)
        answer, size = None, 0
        try:
            answer = await self._handle(request)
            if request.rest is not None:
                request.forget()
                await request.rest()
            if answer is not None:
                if self._audits_first and request.audit is not None and not request.audit.is_long_running:
                    await complete(request, answer.code)
                size = await _send(compressed(answer, request), request)
        finally:
            if request.endpoint is not None:
                self._count(request.endpoint, request, answer, size)
            await complete(request, answer.code if answer is not None else None)

    def _count(self, endpoint: Endpoint, request: Request, answer: Answer | None, size: int) -> None:
        """The request is over."""
        if answer is None and not request.is_streamed:  # the client has gone
            self._metrics.requests.abandon(endpoint)
            return
        code = answer.code if answer is not None else HTTPStatus.OK
        self._metrics.requests.end(endpoint, code, size, stopwatch() - request.came_at, sum(request.waits))


async def _send(answer: Answer, request: Request) -> int:
    """Send it; returns how many bytes its body had."""
    send = request.send
    headers = [
        (b"content-type", answer.media_type.encode()),
        framing(answer.length, request.scope["http_version"]),
        *answer.headers,
        *request.headers_out,
        *warning_headers(request.warnings),
    ]
    if all(name != b"cache-control" for name, _ in headers):
        headers.append((b"cache-control", b"no-cache, private"))
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    pace, unread, size, body = Pace(request.scope), 0, 0, b""
    try:
        pieces = iter(answer.pieces() if request.method != "HEAD" else ())
        while (piece := await offload(lambda: next(pieces, None), is_long=answer.rest_length is None)) is not None:
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})
                unread += len(body)
                size += len(body)
            if unread >= PIECE_BYTES:
                unread = 0
                if not await pace.ready():
                    return size
            body = piece
    except Exception:  # an answer that has begun can only be broken off
        log.exception("%s", request.log_line, extra=request.log_extra)
        request.scope[TRANSPORT].abort()
        return size
    await send({"type": "http.response.body", "body": body})
    return size + len(body)
