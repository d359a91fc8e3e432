"""A request for another protocol, handed on to another server as it is: once that agrees, bytes go both ways, unread.

Nothing is gathered: a side that does not read makes the other wait. Whoever goes ends both.
Source: apimachinery `util/proxy/upgradeaware.go` (1.36).
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final, TypeVar

import httptools
import msgspec

from fairlead.api.errors import BadRequest, InternalError
from fairlead.golang.quoting import go_quote
from fairlead.runtime.http.upgrading import UPGRADE, Streams, Upgrade
from fairlead.runtime.streaming.duplex import Connection, copy
from fairlead.server.http.answers import Answer
from fairlead.server.http.forwarding import forwarded
from fairlead.server.http.request import Request
from fairlead.server.nodes.kubelets import Kubelet, Kubelets

_PLAIN_TEXT: Final = "text/plain; charset=utf-8"
_MALFORMED: Final = "malformed HTTP response"
_MOST_HEAD_BYTES: Final = 64 << 10
_MOST_REFUSAL_BYTES: Final = 64 << 10
#: How long the other server may take to be there, and to agree or refuse.
_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 30.0
#: The protocols for which a connection is handed over. Who wishes for another one (`h2c`) is answered in this one.
_HANDED_OVER: Final = ("websocket", "SPDY/3.1")
_ENDS_LINE: Final = re.compile("[\x00\r\n]").search

_T = TypeVar("_T")


class Destination(msgspec.Struct, frozen=True):
    """Where a tunnel leads."""

    connect: Callable[[], Awaitable[Streams]]
    #: Where that is, and the `Host` under which the other server knows itself.
    address: str
    host: str
    #: Path and query.
    target: str
    #: What it is told beside what the client says.
    headers: tuple[tuple[str, str], ...] = ()


def to_kubelet(kubelets: Kubelets, kubelet: Kubelet, target: str) -> Destination:
    return Destination(lambda: kubelets.connect(kubelet), kubelet.authority, kubelet.authority, target)


async def connect(host: str, port: int, context: ssl.SSLContext | None, server_name: str | None = None) -> Streams:
    """A connection of one's own. OSError or TimeoutError: there is none."""
    async with asyncio.timeout(_CONNECT_SECONDS):
        name = server_name if context is not None else None
        return await asyncio.open_connection(host, port, ssl=context, server_hostname=name)


def wants_tunnel(request: Request) -> bool:
    """Whether the client wishes for a protocol of which nothing is read here."""
    return request.wishes_for(*_HANDED_OVER)


class Tunnels:
    """Those of one listener."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """End them: the listener is about to stop."""
        for task in self._open:
            task.cancel()

    async def run(self, request: Request, destination: Destination) -> Answer | None:
        """What the other server says; None: it agreed, and all is over. InternalError: it is not there."""
        upgrade: Upgrade | None = request.scope.get(UPGRADE)
        if upgrade is None:
            raise BadRequest("Upgrade request required")
        _check_bodiless(request)
        head = _head(request, upgrade, destination)
        try:
            backend = Connection(*await _while_there(request, destination.connect()))
        except OSError as error:
            raise InternalError(f"error dialing backend: {_why(destination.address, error)}") from None
        try:
            await backend.write(head)
            answer = await _while_there(request, _first_answer(backend))
            if answer.code != HTTPStatus.SWITCHING_PROTOCOLS:
                return Answer(answer.code, bytes(answer.body), answer.media_type)
            request.is_streamed = True
            if request.audit is not None:
                request.audit.answers_code(HTTPStatus.SWITCHING_PROTOCOLS)
            request.on_begun()
            client = Connection(*upgrade.take())
            await client.write(answer.raw)
            await self._pump(client, backend)
            return None
        except (ConnectionError, TimeoutError) as error:
            if not request.is_streamed:
                raise InternalError(f"error dialing backend: {error or 'EOF'}") from None
            return None
        finally:
            await backend.close()

    async def _pump(self, client: Connection, backend: Connection) -> None:
        """Until one of them has gone, and the other has what it said."""
        try:
            await self.until_one_ends(copy(client, backend), copy(backend, client))
        finally:
            await client.close()

    async def until_one_ends(self, *both: Coroutine[Any, Any, None]) -> None:
        """Do these, until the listener stops at the latest. The others are cancelled."""
        tasks = [asyncio.create_task(each) for each in both]
        self._open.update(tasks)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._open.difference_update(tasks)


async def _while_there(request: Request, doing: Awaitable[_T]) -> _T:
    """What comes of it. ConnectionError: nobody waits for that any more."""
    task, leaving = asyncio.ensure_future(doing), asyncio.create_task(_until_gone(request))
    try:
        await asyncio.wait([task, leaving], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ConnectionError("the client has gone")
    finally:
        task.cancel()
        leaving.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _check_bodiless(request: Request) -> None:
    """What nobody has read would be taken for the other protocol."""
    headers, is_unread = request.headers, request.has_unread_body or request.method in ("GET", "HEAD")
    if is_unread and (b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"):
        raise BadRequest("a request for another protocol has no body")


def _head(request: Request, upgrade: Upgrade, destination: Destination) -> bytes:
    """Names of users may come from anywhere: none of them ends its line."""
    for name, value in destination.headers:
        if _ENDS_LINE(value):
            raise InternalError(f"net/http: invalid header field value for {go_quote(name)}")
    lines = [f"{request.method} {destination.target} HTTP/1.1", f"Host: {destination.host}"]
    lines += [f"{name}: {value}" for name, value in forwarded(request)]
    lines += ["Connection: Upgrade", f"Upgrade: {upgrade.wished}", "Content-Length: 0"]
    told = "".join(f"{name}: {value}\r\n" for name, value in destination.headers)
    return b"".join(("".join(f"{line}\r\n" for line in lines).encode("latin-1"), told.encode(), b"\r\n"))


class _Answer:
    """The head of an answer, and its body if it is a refusal. What comes before it (`100 Continue`) is none."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.raw = b""
        self.code = 0
        self.body = bytearray()
        self.media_type = _PLAIN_TEXT
        self.is_complete = self._has_length = False

    def feed(self, data: bytes) -> None:
        if len(self.raw) + len(data) > _MOST_HEAD_BYTES + _MOST_REFUSAL_BYTES:
            raise ConnectionError("the answer of the other server is too long")
        self.raw += data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.is_complete = True
        except httptools.HttpParserError:
            if not self.is_complete:
                raise ConnectionError(_MALFORMED) from None

    def end(self) -> None:
        """The other server has said all: of a body without a length that is its end."""
        if self.code < HTTPStatus.OK or self._has_length:
            raise ConnectionError("EOF")
        self.is_complete = True

    def on_message_begin(self) -> None:
        if not self.is_complete:
            self.media_type, self._has_length = _PLAIN_TEXT, False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.is_complete:
            return
        name = name.lower()
        if name == b"content-type":
            self.media_type = value.decode("latin-1")
        self._has_length = self._has_length or name in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        if self.is_complete:
            return
        self.code = int(self._parser.get_status_code())
        if self.code < HTTPStatus.CONTINUE:
            raise ConnectionError(_MALFORMED)
        self.is_complete = self.code == HTTPStatus.SWITCHING_PROTOCOLS

    def on_body(self, body: bytes) -> None:
        if not self.is_complete:
            self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = self.is_complete or self.code >= HTTPStatus.OK


async def _first_answer(backend: Connection) -> _Answer:
    """Head and, of a refusal, body. What follows an agreement is kept as it came."""
    answer = _Answer()
    async with asyncio.timeout(_ANSWER_SECONDS):
        while not answer.is_complete:
            if data := await backend.read():
                answer.feed(data)
            else:
                answer.end()
    return answer


def _why(address: str, error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"dial tcp {address}: connect: connection refused"
    return str(error) or f"dial tcp {address}: i/o timeout"
