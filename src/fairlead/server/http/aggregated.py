"""Requests for versions of groups for which another server answers.

Source: kube-aggregator, pkg/apiserver/handler_proxy.go; apiserver, pkg/util/proxy/proxy.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from fairlead.api.errors import InternalError
from fairlead.client.calls import Body
from fairlead.client.webhooks import ServiceError
from fairlead.server.aggregation.aggregator import Aggregator
from fairlead.server.aggregation.backends import identifying
from fairlead.server.aggregation.services import RemoteService
from fairlead.server.http.answers import Answer
from fairlead.server.http.forwarding import Forwarder, Unreachable
from fairlead.server.http.request import Request
from fairlead.server.http.tunnel import Destination, Tunnels, connect, wants_tunnel

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    import aiohttp

#: How long a server may take to say what it serves: every client asks for that.
_DISCOVERY_SECONDS: Final = 5.0


def service_for(aggregator: Aggregator, path: str) -> RemoteService | None:
    """The other server that answers for this path; None: this one does."""
    parts = path.removeprefix("/openapi/v3").split("/", 4)
    if len(parts) < 4 or parts[1] != "apis":
        return None
    return aggregator.serving(parts[2], parts[3])


async def answer(
    aggregator: Aggregator, forwarder: Forwarder, tunnels: Tunnels, service: RemoteService, request: Request
) -> Answer | None:
    """What the other server says, or that it cannot be reached."""
    backends = aggregator.backends
    if not service.is_available:
        return _failed("service unavailable", HTTPStatus.SERVICE_UNAVAILABLE)
    try:
        context = backends.context(service)
        place, address = backends.place(service), backends.address(service)
    except ValueError as error:
        return _failed(str(error), HTTPStatus.INTERNAL_SERVER_ERROR)
    except ServiceError:
        return _failed("service unavailable", HTTPStatus.SERVICE_UNAVAILABLE)
    if wants_tunnel(request):
        dial = partial(connect, *place, context, service.host)
        told = tuple(_told(request, address))
        try:
            return await tunnels.run(request, Destination(dial, address, address, _target(request), told))
        except InternalError as error:
            return _failed(error.message, HTTPStatus.SERVICE_UNAVAILABLE)
    is_discovery = request.path.strip("/").count("/") == 2
    opening = partial(_opened, aggregator, service, address, request)
    seconds = min(request.timeout(), _DISCOVERY_SECONDS) if is_discovery else request.timeout()
    try:
        await forwarder.run(request, opening, host=service.host, seconds=seconds)
    except Unreachable as error:
        return _failed(f"error trying to reach service: {error}", HTTPStatus.SERVICE_UNAVAILABLE)
    return None


def _opened(
    aggregator: Aggregator,
    service: RemoteService,
    address: str,
    request: Request,
    headers: list[tuple[str, str]],
    body: Body,
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    whole = [*headers, *_told(request, address)]
    target = _target(request)
    return aggregator.backends.opened(service, address, request.method, target, whole, body)


def _told(request: Request, address: str) -> Iterator[tuple[str, str]]:
    """What the other server is told of the request beside its headers: who asks, above all."""
    yield "X-Forwarded-Uri", _target(request).partition("?")[0]
    yield "X-Forwarded-Host", address
    yield "X-Forwarded-Proto", "https"
    yield from identifying(request.known_user)


def _target(request: Request) -> str:
    """Path and query as they came."""
    path, query = request.scope["raw_path"], request.scope["query_string"]
    return str((path + b"?" + query if query else path).decode("ascii"))


def _failed(text: str, code: int) -> Answer:
    return Answer.of_text(f"{text}\n", code)
