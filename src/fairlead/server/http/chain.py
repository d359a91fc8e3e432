"""The handler chain of every request: each middleware calls the next, or answers itself.

    recover ▸ bound ▸ authenticate ▸ trace ▸ audit ▸ impersonate ▸ authorize ▸ receive ▸ take_turn ▸ dispatch

Before authentication nothing of a request is read but its path and the headers that authentication needs; before
authorization not its body. Nobody holds a seat while they send: whoever has a turn can be answered. Every
refusal is an `ApiError` that becomes a `Status` in `recover`; every other exception becomes a 500 without details.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from fairlead.api.errors import (
    ApiError,
    BadRequest,
    EntityTooLarge,
    InternalError,
    ServerTimeout,
    Unauthorized,
    Unknown,
)
from fairlead.api.users import ANONYMOUS_USER, User
from fairlead.golang.quoting import go_quote
from fairlead.runtime.clock import stopwatch
from fairlead.runtime.http.exchange import Receive
from fairlead.runtime.http.protocol import ON_AUTHENTICATED, TRANSPORT
from fairlead.runtime.offload import works_for
from fairlead.runtime.tracing import step
from fairlead.runtime.watchdog import working_on
from fairlead.server.access import Authorizer, Decision, Verdict, check
from fairlead.server.aggregation.aggregator import Aggregator
from fairlead.server.audit.auditor import Auditor
from fairlead.server.auth import websocket_tokens
from fairlead.server.auth.authenticator import Authenticator, Credentials
from fairlead.server.auth.impersonation import impersonated, wanted_user
from fairlead.server.context import REQUEST_SECONDS
from fairlead.server.fairness.fairness import Fairness, Rejected
from fairlead.server.fairness.flows import Flow
from fairlead.server.http import aggregated, measuring, node_proxy, pod_proxy
from fairlead.server.http.answers import Answer, Headers
from fairlead.server.http.audit import begin, begin_of_stranger
from fairlead.server.http.authorization import access_request, runs_long
from fairlead.server.http.debug import Debug
from fairlead.server.http.documents import Documents
from fairlead.server.http.forwarding import Forwarder
from fairlead.server.http.health import HEALTH_PATHS, Health
from fairlead.server.http.request import Request
from fairlead.server.http.resources import ResourceHandlers
from fairlead.server.http.tunnel import Tunnels
from fairlead.server.metrics import ServerMetrics
from fairlead.server.metrics.access import ALLOWED, DENIED, ERROR, NO_OPINION

if TYPE_CHECKING:  # its library is there if somebody wants it
    from fairlead.server.http.tracing import Tracing

#: kube-apiserver's limit of a request body.
MAX_BODY_BYTES: Final = 3 << 20

_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

log = logging.getLogger(__name__)


class Services(msgspec.Struct, frozen=True):
    """What the middleware works with."""

    authenticate: Authenticator
    authorizer: Authorizer
    resources: ResourceHandlers
    documents: Documents
    health: Health
    debug: Debug
    metrics: ServerMetrics
    #: The requests that others answer, in this protocol and in others.
    forwarder: Forwarder
    tunnels: Tunnels
    #: None: nobody has to wait.
    fairness: Fairness | None = None
    #: None: there is no audit log.
    auditor: Auditor | None = None
    #: None: nobody else answers for anything.
    aggregator: Aggregator | None = None
    #: None: nobody traces requests.
    tracing: Tracing | None = None


#: The rest of the chain; None: the answer has been streamed already.
Handler: TypeAlias = Callable[[Request], Awaitable[Answer | None]]
Middleware: TypeAlias = Callable[[Services, Handler, Request], Awaitable[Answer | None]]


class ClientGone(Exception):
    """The connection closed before the request was complete: nothing of it may be carried out."""


class BodyTimeout(ServerTimeout):
    """The body did not come in time."""


async def recover(services: Services, proceed: Handler, request: Request) -> Answer | None:
    """Turn every exception of the rest of the chain into an answer."""
    try:
        return await proceed(request)
    except ApiError as error:
        request.warnings.extend(error.warnings)
        answer = _refusal(error, request)
        if isinstance(error, BodyTimeout):
            answer.headers.append((b"connection", b"close"))  # what may still come is no request
        return answer
    except RecursionError:  # bodies are bounded, but patch upon patch can nest an object ever deeper
        return _refusal(BadRequest("the object is nested too deeply"), request)
    except ClientGone:
        if request.audit is not None:
            request.audit.answers_status(Unknown("unexpected EOF").status())
        return None
    except Exception as error:
        log.exception("%s", request.log_line, extra=request.log_extra)
        if request.audit is not None:
            request.audit.panicked(error)
        return _refusal(InternalError("Internal error occurred: see the server's log"), request)


def _refusal(error: ApiError, request: Request) -> Answer:
    """The answer to an error; `Accept` of an unauthenticated client is not parsed."""
    if request.audit is not None:
        request.audit.answers_status(error.status())
    if request.user is None:
        return Answer.of_status(error, request.json_form())
    return Answer.of_error(error, request)


async def bound(services: Services, proceed: Handler, request: Request) -> Answer | None:
    """Require one `Host` header, with Go's error texts. The connection has bounded the head already."""
    match request.count(b"host"):
        case 1:
            return await proceed(request)
        case 0 if request.scope["http_version"] != "1.1":
            return await proceed(request)
        case 0:
            problem = "missing required Host header"
        case _:
            problem = "too many Host headers"
    answer = Answer.of_text(f"400 Bad Request: {problem}", 400)
    answer.headers.append((b"connection", b"close"))
    return answer


async def authenticate(services: Services, proceed: Handler, request: Request) -> Answer | None:
    """Set the user of the request; 401 without one."""
    began = stopwatch()
    request.user = await _who(services.authenticate, request)
    if request.user is None:
        services.metrics.access.refused(stopwatch() - began, has_credentials=b"authorization" in request.headers)
        if services.auditor is not None:
            begin_of_stranger(services.auditor, request)
        raise Unauthorized("Unauthorized")
    services.metrics.access.authenticated(request.user.name, stopwatch() - began)
    if ON_AUTHENTICATED in request.scope and request.user is not ANONYMOUS_USER:
        request.scope[ON_AUTHENTICATED]()
    request.requester = request.user
    request.read_query()
    return await proceed(request)


async def _who(authenticate: Authenticator, request: Request) -> User | None:
    """Who sends it. What has shown that, and is not for whoever it goes on to, is taken out of its headers."""
    if request.count(b"authorization") > 1:
        return None
    headers, token = request.scope["headers"], ""
    if request.wishes_for("websocket"):
        try:
            token, headers = websocket_tokens.taken_out(headers)
        except websocket_tokens.BadProtocols:
            return None
    shown = Credentials(request.headers, request.scope[TRANSPORT], request.path, headers, token)
    user = await authenticate(shown)
    if token or shown.used:
        request.replace_headers([header for header in headers if header[0] not in shown.used])
    return user


async def trace(services: Services, proceed: Handler, request: Request) -> Answer | None:
    """Tell a collector how long the rest of the way takes, and its steps."""
    traced = services.tracing.begin(request) if services.tracing is not None else None
    if traced is None:
        return await proceed(request)
    with traced.entered:
        try:
            answer = await proceed(request)
            if request.rest is not None:
                rest, request.rest = request.rest, None
                await rest()
        except ApiError as error:
            traced.answered(error.code)
            raise
        if answer is not None:
            traced.answered(answer.code)
        return answer


async def audit(services: Services, proceed: Handler, request: Request) -> Answer | None:
    """Tell of the request; the rest of the way adds to that, and `Application` says when it is over."""
    if services.auditor is not None and not await begin(services.auditor, request):
        return _internal_error(request, "failed to store audit event")
    return await proceed(request)


async def impersonate(services: Services, proceed: Handler, request: Request) -> Answer | None:
    """Go on as the user whom the headers name, if the one who asks may do that."""
    if (wanted := wanted_user(request.scope["headers"])) is not None:
        request.user, constraint = await impersonated(services.authorizer, access_request(request), wanted)
        if request.audit is not None:
            request.audit.impersonates(request.user, constraint)
    works_for(request.known_user.name)
    return await proceed(request)


async def authorize(services: Services, proceed: Handler, request: Request) -> Answer | None:
    """403 unless the user may do that."""
    asked = access_request(request)
    began = stopwatch()
    with step("authorization"):
        verdict = await services.authorizer.authorize(asked)
    services.metrics.access.authorized(_result(verdict), stopwatch() - began)
    if request.audit is not None:
        request.audit.decided(verdict)
    if verdict.error and not verdict.is_allowed:
        return _internal_error(request, verdict.error)
    check(verdict, asked)
    return await proceed(request)


def _internal_error(request: Request, why: str) -> Answer:
    """As kube-apiserver, which tells it in plain text."""
    text = f"Internal Server Error: {go_quote(request.uri)}: {why}"
    return Answer.of_text(f"{text.translate(_HTML)}\n", 500)


def _result(verdict: Verdict) -> str:
    """How metrics call it."""
    if verdict.is_allowed:
        return ALLOWED
    if verdict.error:
        return ERROR
    return DENIED if verdict.decision is Decision.DENY else NO_OPINION


async def receive(services: Services, proceed: Handler, request: Request) -> Answer | None:
    """Read the body, unless it is for somebody else, who gets it as it comes. A `timeout` that is none is refused."""
    is_watch = request.is_watch or request.info.is_watch_path
    seconds = REQUEST_SECONDS if is_watch else request.timeout()  # a watch has timeoutSeconds
    if request.method in ("POST", "PUT", "PATCH", "DELETE"):
        if _is_for_others(services, request):
            request.has_unread_body = True
        else:
            request.body = await _body(request.receive, seconds)
    return await proceed(request)


def _is_for_others(services: Services, request: Request) -> bool:
    """Whether what is answered is what another server says."""
    info, aggregator = request.info, services.aggregator
    if aggregator is not None and aggregated.service_for(aggregator, info.path) is not None:
        return True
    return pod_proxy.is_proxied(info) or node_proxy.is_proxied(info)


async def take_turn(services: Services, proceed: Handler, request: Request) -> Answer | None:
    """Wait until it is this request's turn; 429 if that takes too long. A watch needs a seat until it has begun, what
    else goes on for long none at all.
    """
    asked = request.asked
    if services.fairness is None or asked is None or runs_long(asked):
        return await proceed(request)
    began = stopwatch()
    try:
        with step("priority and fairness"):
            admitted = await services.fairness.admit(asked, services.resources.count(request))
    except Rejected as rejected:
        services.resources.count_refused(request, HTTPStatus.TOO_MANY_REQUESTS)
        answer = Answer.of_text("Too many requests, please try again later.\n", HTTPStatus.TOO_MANY_REQUESTS)
        answer.headers.append((b"retry-after", b"1"))
        request.headers_out.extend(_flow_headers(rejected.flow))
        return answer
    request.headers_out.extend(_flow_headers(admitted.flow))
    request.on_begun = admitted.end
    request.waits.append(stopwatch() - began)
    try:
        return await proceed(request)
    finally:
        admitted.end()


def _flow_headers(flow: Flow) -> Headers:
    return [
        (b"x-kubernetes-pf-flowschema-uid", flow.schema.metadata.uid.encode()),
        (b"x-kubernetes-pf-prioritylevel-uid", flow.level.uid.encode()),
    ]


async def dispatch(services: Services, proceed: Handler, request: Request) -> Answer | None:
    """Call the handler of the path."""
    info = request.info
    working_on("apiserver", f"{request.method} {info.path}")
    aggregator = services.aggregator
    if aggregator is not None and (service := aggregated.service_for(aggregator, info.path)) is not None:
        return await aggregated.answer(aggregator, services.forwarder, services.tunnels, service, request)
    if info.resource:
        return await services.resources.answer(request)
    measuring.count_path(services.metrics.requests, request)
    endpoint, _, check = info.path.strip("/").partition("/")
    if endpoint in HEALTH_PATHS:
        excluded, is_verbose = request.queries.get("exclude", []), "verbose" in request.query
        return await services.health.answer(endpoint, check, excluded, is_verbose=is_verbose)
    if endpoint == "debug":
        return await services.debug.answer(request)
    return await services.documents.answer(request)


CHAIN: Final[tuple[Middleware, ...]] = (
    recover,
    bound,
    authenticate,
    trace,
    audit,
    impersonate,
    authorize,
    receive,
    take_turn,
    dispatch,
)


def chained(services: Services) -> Handler:
    """The middleware of `CHAIN` as one handler."""
    handler: Handler = _unreachable
    for middleware in reversed(CHAIN):
        handler = partial(middleware, services, handler)
    return handler


async def _unreachable(request: Request) -> Answer | None:
    raise AssertionError("the last step answers")


async def _body(receive: Receive, seconds: float) -> bytes:
    """The whole body; `ClientGone` if the client disconnects before its end."""
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
