"""Hands a request on to another server, and its answer back while it comes: lists, watches, whatever it is.

Nothing is gathered, of the body neither: a piece is read when the one before has been taken. Whoever goes ends the
other side, too. Who sends a body holds no seat.
Source: net/http/httputil/reverseproxy.go, apimachinery `util/proxy` (1.36).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from fairlead.client.calls import Body, import_library, why
from fairlead.golang.quoting import go_quote
from fairlead.runtime.http.exchange import framing
from fairlead.runtime.http.pieces import Pace
from fairlead.runtime.http.protocol import TRANSPORT
from fairlead.server.http.answers import Headers
from fairlead.server.http.authorization import runs_long
from fairlead.server.http.request import Request

if TYPE_CHECKING:
    import aiohttp

#: About one connection; they go no further.
_OF_CONNECTION: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade".split()
)
#: What shows who somebody is, and what is made anew.
_KEPT_BACK: Final = frozenset(b"authorization host content-length expect x-forwarded-for".split())
_KEPT_BACK_PREFIXES: Final = (b"impersonate-", b"x-remote-")
_MADE_ANEW: Final = frozenset(b"audit-id content-length date".split())
_LOOK_SECONDS: Final = 5.0
_BODILESS: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
#: A name with anything else may be one to whoever reads the answer, and none here: `content-length `.
_is_name: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch

#: Opens the way to the other server, given the headers of the request and its body.
Opening = Callable[[list[tuple[str, str]], Body], AbstractAsyncContextManager["aiohttp.ClientResponse"]]

#: What becomes of the headers of the answer.
Revision = Callable[[Headers], Headers]

log = logging.getLogger(__name__)


class Unreachable(Exception):
    """The other server gave no answer; the message says why, in Go's words."""


class Forwarder:
    """The requests of one listener that others answer."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """End them: the listener is about to stop."""
        for relay in self._open:
            relay.cancel()

    async def run(
        self,
        request: Request,
        opening: Opening,
        *,
        host: str,
        seconds: float,
        revise: Revision | None = None,
    ) -> None:
        """Answer the request with what the other server says. Unreachable: it says nothing.

        `host` is whose certificate it must show; `seconds` is how long it may take, unless it goes on for as long as
        the client likes.
        """
        is_long = request.is_watch or request.info.is_watch_path
        is_long = is_long or (request.asked is not None and runs_long(request.asked))
        upload = _Upload(request)
        relay = asyncio.create_task(_relay(request, upload, opening, host, None if is_long else seconds, revise))
        upload.on_gone = relay.cancel
        leaving = asyncio.create_task(_until_gone(request, upload))
        self._open.add(relay)
        try:
            await asyncio.wait([relay])
        finally:
            relay.cancel()
            leaving.cancel()
            self._open.discard(relay)
        if relay.cancelled():
            request.scope[TRANSPORT].abort()
        elif (error := relay.exception()) is not None:
            if not request.is_streamed:
                raise error
            log.warning("%s: the answer of another server broke off: %s", request.log_line, error)
            request.scope[TRANSPORT].abort()


class _Upload:
    """The body of a request, which is read as fast as the other server takes it."""

    def __init__(self, request: Request) -> None:
        self._request = request
        is_chunked = b"transfer-encoding" in request.headers
        self._length = b"" if is_chunked else request.headers.get(b"content-length", b"")
        self._is_there = request.has_unread_body and (is_chunked or self._length.strip(b"0") != b"")
        self.is_over = asyncio.Event()
        #: Called when the client goes.
        self.on_gone: Callable[[], object] = lambda: None
        if not self._is_there:
            self.is_over.set()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """How long it is, if the client has said that."""
        return [("Content-Length", self._length.decode("ascii"))] if self._is_there and self._length else []

    @property
    def body(self) -> Body:
        return self._pieces() if self._is_there else self._request.body or None

    async def _pieces(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self._request.receive()
            if message["type"] == "http.disconnect":
                self.on_gone()
                raise ConnectionError("the client has gone")
            more = message["more_body"]
            if message["body"]:
                yield message["body"]
        self.is_over.set()


async def _until_gone(request: Request, upload: _Upload) -> None:
    """While the other server takes nothing of a body, nothing of it is read, and only the connection shows the end."""
    while not upload.is_over.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await upload.is_over.wait()
        if request.scope[TRANSPORT].is_closing():
            upload.on_gone()
            return
    while (await request.receive())["type"] != "http.disconnect":
        pass
    upload.on_gone()


async def _relay(
    request: Request, upload: _Upload, opening: Opening, host: str, seconds: float | None, revise: Revision | None
) -> None:
    await import_library()
    import aiohttp

    pace = Pace(request.scope)
    headers, body = [*forwarded(request), *upload.headers], upload.body
    if request.has_unread_body:
        request.on_begun()
    try:
        async with asyncio.timeout(seconds), opening(headers, body) as response:
            await _begin(request, response, revise)
            async for piece in response.content.iter_any():
                if not await pace.ready():
                    return
                await request.send({"type": "http.response.body", "body": piece, "more_body": True})
    except TimeoutError:
        raise Unreachable("context deadline exceeded") from None
    except (aiohttp.ClientError, ValueError) as error:
        raise Unreachable(why(error, host)) from error
    await request.send({"type": "http.response.body", "body": b"", "more_body": False})


async def _begin(request: Request, response: aiohttp.ClientResponse, revise: Revision | None) -> None:
    """Send the head."""
    _check(response)
    headers = list(_returned((name.lower(), value) for name, value in response.raw_headers))
    headers = (revise(headers) if revise is not None else headers) + request.headers_out
    if response.status not in _BODILESS:
        headers.append(framing(_length(response), request.scope["http_version"]))
    if request.audit is not None:
        request.audit.answers_code(response.status)
    request.is_streamed = True
    await request.send({"type": "http.response.start", "status": response.status, "headers": headers})
    await request.send({"type": "http.response.body", "body": b"", "more_body": True})
    request.on_begun()


def _check(response: aiohttp.ClientResponse) -> None:
    """What the client would take for the end of HTTP, or where the answer ends, is said here alone."""
    if response.status == HTTPStatus.SWITCHING_PROTOCOLS:
        protocol = go_quote(response.headers.get("Upgrade", ""))
        raise Unreachable(f'backend tried to switch protocol {protocol} when "" was requested')
    if response.status < HTTPStatus.OK:
        raise Unreachable("net/http: HTTP/1.x transport connection broken: malformed HTTP status code")
    for name, _ in response.raw_headers:
        if not _is_name(name):
            line = go_quote(name.decode("latin-1"))
            raise Unreachable(f"net/http: HTTP/1.x transport connection broken: malformed MIME header line: {line}")


def _length(response: aiohttp.ClientResponse) -> int | None:
    text = response.headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdigit() else None


def forwarded(request: Request) -> Iterator[tuple[str, str]]:
    """The headers of the request that are for the other server, and who has handed it on."""
    headers = request.scope["headers"]
    hops = [value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for"]
    for name, value in _without_hops(headers):
        if name not in _KEPT_BACK and not name.startswith(_KEPT_BACK_PREFIXES):
            yield name.decode("latin-1"), value.decode("latin-1")
    yield "X-Forwarded-For", ", ".join([*hops, str(request.scope["client"][0])])
    yield "Audit-Id", request.audit_id.decode("latin-1")


def _returned(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    return (header for header in _without_hops(list(headers)) if header[0] not in _MADE_ANEW)


def _without_hops(headers: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    named = {option.strip().lower() for name, value in headers if name == b"connection" for option in value.split(b",")}
    return (header for header in headers if header[0] not in _OF_CONNECTION and header[0] not in named)
