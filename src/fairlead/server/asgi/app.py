"""The ASGI application: from an HTTP request to the registry and back.

One function a step: authenticate, route, decode, call, answer. Every refusal is an `ApiError` that becomes a `Status`
in one place, and whatever else goes wrong becomes a 500 that tells the client nothing but an id in our log.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from fairlead.api.errors import ApiError, BadRequest, EntityTooLarge, InternalError, Unauthorized
from fairlead.server.admission.base import User
from fairlead.server.asgi.answers import Answer, warning_headers
from fairlead.server.asgi.documents import Documents
from fairlead.server.asgi.paths import parse
from fairlead.server.asgi.request import Request
from fairlead.server.asgi.resources import Resources
from fairlead.server.registry import Registry

Scope: TypeAlias = Any
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
#: Who a request is from, by its headers; None: nobody we know.
Authenticate = Callable[[Mapping[bytes, bytes]], User | None]

#: kube-apiserver's limit of a request body.
MAX_BODY_BYTES = 3 << 20

log = logging.getLogger(__name__)


class Application:
    """What a listener serves. Two listeners (TLS and plain) differ in how they authenticate."""

    def __init__(self, registry: Registry, documents: Documents, authenticate: Authenticate) -> None:
        self._authenticate = authenticate
        self._documents = documents
        self._resources = Resources(registry)

    def close(self) -> None:
        """End every watch: the listener is about to stop."""
        self._resources.streams.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"this server speaks only http, not {scope['type']}")
        request = Request(scope, dict(scope["headers"]), _query(scope["query_string"]), receive)
        try:
            answer = await self._answer(request, send)
        except ClientGone:
            return
        except ApiError as error:
            answer = Answer.of_error(error, request)
        except RecursionError:  # bodies are bounded, but patch upon patch can nest an object ever deeper
            answer = Answer.of_error(BadRequest("the object is nested too deeply"), request)
        except Exception:
            log.exception("%s %s", request.method, request.path)
            answer = Answer.of_error(InternalError("Internal error occurred: see the server's log"), request)
        if answer is not None:
            await _send(answer, request, send)

    async def _answer(self, request: Request, send: Send) -> Answer | None:
        target = parse(request.path)
        if not (request.is_watch or (target and target.is_watch)):  # whoever watches has another parameter for it
            request.check_timeout()
        user = self._authenticate(request.headers)
        if user is None:
            raise Unauthorized("Unauthorized")
        request.caller.user = user
        if request.method in ("POST", "PUT", "PATCH", "DELETE"):
            request.body = await _body(request.receive)
        if target is None:
            return self._documents.answer(request)
        return await self._resources.answer(request, target, send)


def _query(raw: bytes) -> dict[str, str]:
    """The parameters; of one that is given twice the first counts, as in apimachinery."""
    return dict(reversed(parse_qsl(raw.decode("latin-1"), keep_blank_values=True))) if raw else {}


class ClientGone(Exception):
    """The connection closed before the request was complete: nothing of it may be carried out."""


async def _body(receive: Receive) -> bytes:
    """The whole body; a client that goes away half-way has sent nothing."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise EntityTooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")
        more = message.get("more_body", False)
    return body


async def _send(answer: Answer, request: Request, send: Send) -> None:
    headers = [
        (b"content-type", answer.media_type.encode()),
        (b"content-length", b"%d" % answer.length),
        (b"cache-control", b"no-cache, private"),
        *answer.headers,
        *warning_headers(request.caller.warnings),
    ]
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    is_body_wanted = request.method != "HEAD"
    body = answer.body if is_body_wanted else b""
    for chunk in answer.rest if is_body_wanted else ():
        await send({"type": "http.response.body", "body": body, "more_body": True})
        body = chunk
    await send({"type": "http.response.body", "body": body})
