"""One request and its answer: the two ends of an ASGI call, over a transport."""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from functools import lru_cache
from typing import Any, TypeAlias

from fairlead.runtime.clock import now
from fairlead.runtime.flag import Flag

Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Any]]
Send: TypeAlias = Callable[[Any], Awaitable[None]]
ASGIApplication: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus}

log = logging.getLogger(__name__)


def framing(length: int | None, version: str) -> tuple[bytes, bytes]:
    """The header that tells the client where the answer ends."""
    if length is not None:
        return b"content-length", b"%d" % length
    return (b"transfer-encoding", b"chunked") if version == "1.1" else (b"connection", b"close")


def _odd_status_line(code: int) -> bytes:
    """Of one that others have made up, in Go's words."""
    return f"HTTP/1.1 {code} status code {code}\r\n".encode()


@lru_cache(maxsize=4)
def _date_line(second: int) -> bytes:
    """The Date header, which Go sends with every answer."""
    return f"date: {formatdate(second, usegmt=True)}\r\n".encode()


class Exchange:
    """One request and its answer."""

    __slots__ = (
        "_answered",
        "_arrival",
        "_chunked",
        "_head",
        "_is_gone",
        "_is_writable",
        "_on_gone",
        "_taken",
        "_transport",
        "_waits_for_continue",
        "body",
        "expects_more",
        "has_begun",
        "is_complete",
        "is_upgraded",
        "keep_alive",
        "scope",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        is_writable: Flag,
        scope: Scope,
        keep_alive: bool,
        taken: Callable[[], None],
        answered: Callable[[Exchange], None],
    ) -> None:
        self._transport, self._is_writable = transport, is_writable
        self.scope = scope
        self.keep_alive = keep_alive
        self._taken, self._answered = taken, answered
        self.body = bytearray()
        self.expects_more = True
        self._arrival = Flag()
        self._on_gone: Callable[[], None] | None = None
        self._waits_for_continue = False
        for name, value in scope["headers"]:
            if name == b"expect":
                self._waits_for_continue = value.lower() == b"100-continue" and scope["http_version"] == "1.1"
        self._is_gone = self.has_begun = False
        self.is_complete = self.is_upgraded = False
        self._head: bytes | None = None
        self._chunked = False

    async def run(self, application: ASGIApplication) -> None:
        """Call the application, which answers its own errors: an exception that gets here ends the connection."""
        try:
            await application(self.scope, self.receive, self.send)
        except Exception:
            log.exception("%s %s", self.scope["method"], self.scope["raw_path"])
        if self._is_gone:
            self._answered(self)
        elif self.is_complete:
            return
        elif self.is_upgraded:  # what has been written may leave
            self._answered(self)
        else:
            self._transport.abort()

    # -- the request

    def receive_body(self, data: bytes) -> None:
        if not self.is_complete and self._on_gone is None:
            self.body += data
            self._arrival.set()

    def receive_end(self) -> None:
        self.expects_more = False
        self._arrival.set()

    def disconnect(self) -> None:
        self._is_gone = True
        self._arrival.set()
        if self._on_gone is not None:
            self._on_gone()

    def when_gone(self, tell: Callable[[], None]) -> None:
        """Whoever answers wants no more of the body, but to be told when the client has gone."""
        self._on_gone, self.body = tell, bytearray()
        self._taken()
        if self._is_gone:
            tell()

    async def receive(self) -> dict[str, Any]:
        """The next part of the body, or `http.disconnect` if the client has gone (or was answered)."""
        if self._waits_for_continue and not self._transport.is_closing():
            self._waits_for_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not (self._is_gone or self.is_complete):
            await self._arrival.wait()
            self._arrival.clear()
        if self._is_gone or self.is_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), bytearray()
        self._taken()
        return {"type": "http.request", "body": body, "more_body": self.expects_more}

    # -- the answer

    async def send(self, message: Any) -> None:
        """Send a part of the answer once the connection is writable. The head goes with the first part of the body."""
        if not self._is_writable.is_set():
            await self._is_writable.wait()
        if self._is_gone:
            return
        if message["type"] == "http.response.start":
            self.has_begun = True
            if self._waits_for_continue and self.expects_more:
                self.keep_alive = False  # without 100 Continue the client may send the body or not
            self._waits_for_continue = False
            self._head = self._composed(message["status"], message["headers"])
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self.scope["method"] == "HEAD":
            body = b""
        elif self._chunked:
            body = b"%b%b" % (b"%x\r\n%b\r\n" % (len(body), body) if body else b"", b"" if more else b"0\r\n\r\n")
        if self._head is not None:
            body, self._head = self._head + body, None
        self._transport.write(body)
        if not more:
            self.is_complete = True
            self.body = bytearray()
            self._arrival.set()
            self._answered(self)

    def _composed(self, code: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        parts = [_STATUS_LINES.get(code) or _odd_status_line(code), _date_line(int(now()))]
        for name, value in headers:
            if b"\r" in value or b"\n" in value:
                raise ValueError(f"a header must be one line: {name!r}")
            if name == b"transfer-encoding":
                self._chunked = True
            elif name == b"connection":
                self.keep_alive = False
                continue
            parts += (name, b": ", value, b"\r\n")
        parts.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        return b"".join(parts)
