"""The ASGI application: from an HTTP request to the registry and back.

One function a step: authenticate, route, decode, call, answer. Until a request is authenticated nothing of it is looked
at but the few headers which that takes. Every refusal is an `ApiError` that becomes a `Status` in one place, and
whatever else goes wrong becomes a 500 that tells the client nothing but an id in our log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from fairlead.api.errors import ApiError, BadRequest, EntityTooLarge, InternalError, ServerTimeout, Unauthorized
from fairlead.api.users import User
from fairlead.runtime.watchdog import working_on
from fairlead.server.http.answers import Answer, warning_headers
from fairlead.server.http.documents import Documents
from fairlead.server.http.exchange import Receive, Scope, Send, framing
from fairlead.server.http.health import HEALTH_PATHS, Health, Progress
from fairlead.server.http.negotiate import Form
from fairlead.server.http.paths import parse
from fairlead.server.http.pieces import PIECE_BYTES, Pace
from fairlead.server.http.protocol import KNOWN, TRANSPORT
from fairlead.server.http.request import REQUEST_SECONDS, Request
from fairlead.server.http.resources import Resources
from fairlead.server.registry.registry import Registry

#: Who a request is from, by its headers; None: nobody we know.
Authenticate = Callable[[Mapping[bytes, bytes]], User | None]

#: kube-apiserver's limit of a request body.
MAX_BODY_BYTES = 3 << 20

log = logging.getLogger(__name__)


class Application:
    """What a listener serves. Two listeners (TLS and plain) differ in how they authenticate."""

    def __init__(
        self,
        registry: Registry,
        documents: Documents,
        authenticate: Authenticate,
        progress: Progress | None = None,
    ) -> None:
        self._authenticate = authenticate
        self._documents = documents
        self._progress = progress or Progress()
        self._health = Health(registry, self._progress)
        self._resources = Resources(registry)

    def close(self) -> None:
        """End every watch: the listener is about to stop."""
        self._progress.is_stopping = True
        self._resources.streams.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, dict(reversed(scope["headers"])), receive)  # the first of its name counts, as in Go
        if refusal := _host_refusal(request):
            await _send(refusal, request, send)
            return
        user = None if request.count(b"authorization") > 1 else self._authenticate(request.headers)
        if user is None:
            refusal = Answer.of_status(Unauthorized("Unauthorized"), Form(is_pretty=request.is_pretty))
            await _send(refusal, request, send)
            return
        if KNOWN in scope:
            scope[KNOWN]()
        request.caller.user = user
        try:
            answer = await self._answer(request, send)
        except ClientGone:
            return
        except ApiError as error:
            answer = Answer.of_error(error, request)
            if isinstance(error, BodyTimeout):
                answer.headers.append((b"connection", b"close"))  # what may still come is no request
        except RecursionError:  # bodies are bounded, but patch upon patch can nest an object ever deeper
            answer = Answer.of_error(BadRequest("the object is nested too deeply"), request)
        except Exception:
            log.exception("%s %s", request.method, request.path)
            answer = Answer.of_error(InternalError("Internal error occurred: see the server's log"), request)
        if answer is not None:
            await _send(answer, request, send)

    async def _answer(self, request: Request, send: Send) -> Answer | None:
        request.read_url()
        working_on("apiserver", f"{request.method} {request.path}")
        target = parse(request.path)
        is_watch = request.is_watch or (target is not None and target.is_watch)
        seconds = REQUEST_SECONDS if is_watch else request.timeout()  # whoever watches has another parameter for it
        if request.method in ("POST", "PUT", "PATCH", "DELETE"):
            request.body = await _body(request.receive, seconds)
        if target is not None:
            return await self._resources.answer(request, target, send)
        endpoint, _, check = request.path.strip("/").partition("/")
        if endpoint in HEALTH_PATHS:
            excluded, is_verbose = request.queries.get("exclude", []), "verbose" in request.query
            return await self._health.answer(endpoint, check, excluded, is_verbose=is_verbose)
        return await self._documents.answer(request)


def _host_refusal(request: Request) -> Answer | None:
    """Whose requests these are must be clear to everybody on the way here: one `Host`, in Go's words."""
    match request.count(b"host"):
        case 1:
            return None
        case 0 if request.scope["http_version"] != "1.1":
            return None
        case 0:
            problem = "missing required Host header"
        case _:
            problem = "too many Host headers"
    answer = Answer.of_text(f"400 Bad Request: {problem}", 400)
    answer.headers.append((b"connection", b"close"))
    return answer


class BodyTimeout(ServerTimeout):
    """The body did not come in time."""


class ClientGone(Exception):
    """The connection closed before the request was complete: nothing of it may be carried out."""


async def _body(receive: Receive, seconds: float) -> bytes:
    """The whole body; a client that goes away half-way has sent nothing."""
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                body += message["body"]
                if len(body) > MAX_BODY_BYTES:
                    raise EntityTooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")
                more = message["more_body"]
    except TimeoutError:
        text = "Timeout: request did not complete within the allotted timeout"
        raise BodyTimeout(text, shows_details=True) from None
    return bytes(body)


async def _send(answer: Answer, request: Request, send: Send) -> None:
    headers = [
        (b"content-type", answer.media_type.encode()),
        framing(answer.length, request.scope["http_version"]),
        (b"cache-control", b"no-cache, private"),
        *answer.headers,
        *warning_headers(request.caller.warnings),
    ]
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    pace, unread, body = Pace(request.scope), 0, b""
    try:
        for piece in answer.pieces() if request.method != "HEAD" else ():
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})
                unread += len(body)
            if unread >= PIECE_BYTES:
                unread = 0
                if not await pace.ready():
                    return
            body = piece
    except Exception:  # an answer that has begun can only be broken off
        log.exception("%s %s", request.method, request.path)
        request.scope[TRANSPORT].abort()
        return
    await send({"type": "http.response.body", "body": body})
