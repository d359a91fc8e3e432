"""HTTP/1.1 on one connection: it parses requests, one at a time, and writes their answers in order.

The client is not authenticated when the first bytes arrive, so every buffer is bounded here:

- unparsed bytes: nothing is parsed, and then nothing read, while a request waits for the answer before it;
- the head of a request, in bytes, lines and time; the trailers of a chunked body, in bytes;
- the body, until the application asks for it; the answer, until the client takes it (by `send`).

The parser is llhttp, as in Node; the application speaks ASGI. The scope has five additions: the transport and whether
it is writable, so that watches can be written straight (measured: 6-8 µs a delivery instead of 20-25);
`ON_AUTHENTICATED`, which the application calls once it knows the user; `WHEN_GONE`, so that a watch needs no task that
waits for the client's end; and where the client wishes to speak another protocol, the `Upgrade` by which the
application takes the connection. Head and body are one write: one TLS record.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, Protocol

import httptools
import msgspec

from fairlead.runtime.flag import Flag
from fairlead.runtime.http.exchange import ASGIApplication, Exchange
from fairlead.runtime.http.upgrading import UPGRADE, Streams, Upgrade, streams_over

#: Go's default limit of a request's head (http.DefaultMaxHeaderBytes), which is kube-apiserver's.
MAX_HEAD_BYTES = 1 << 20
#: Each line of a head is two objects of Python, however short it is.
MAX_HEAD_LINES = 1000
#: Far beyond what any selector needs; decoding the escapes of a megabyte would take a noticeable time.
MAX_URL_BYTES = 128 << 10
#: How much is parsed before we look whether a request has to wait: no more requests than fit in there are ever held.
SLICE_BYTES = 4096
#: What may wait of a body.
HIGH_WATER_BYTES = 64 << 10

#: The keys of the scope under which an application finds the transport, the flag that is set while that takes more, the
#: function that tells of a known client, and that by which it wants to be told when the client has gone.
TRANSPORT = "fairlead.transport"
WRITABLE = "fairlead.writable"
ON_AUTHENTICATED = "fairlead.known"
WHEN_GONE = "fairlead.gone"

_BAD = "400 Bad Request"
_URL_TOO_LONG = "414 URI Too Long"
_HEAD_TOO_LARGE = "431 Request Header Fields Too Large"
_UNKNOWN_ENCODING = "501 Not Implemented"
#: What is said beneath a status line that is not the same.
_EXPLAINED = {_UNKNOWN_ENCODING: "Unsupported transfer encoding"}
#: A number of more than 63 bits is no length to Go. It has so many digits.
_MAX_LENGTH_DIGITS = 19
_MAX_LENGTH = (1 << 63) - 1


class Patience(msgspec.Struct, frozen=True):
    """How long a client may take, in seconds."""

    head: float = 30.0
    #: kube-apiserver's --request-timeout is 60 s; the application answers before this ends.
    body: float = 65.0
    idle: float = 300.0


class ConnectionHost(Protocol):
    """Who has accepted the connection."""

    @property
    def application(self) -> ASGIApplication:
        """What answers."""

    @property
    def patience(self) -> Patience:
        """How long its clients may take."""

    def on_authenticated(self, connection: Connection) -> None:
        """The client has shown who it is."""

    def on_closed(self, connection: Connection) -> None:
        """The connection is closed."""

    def on_task(self, task: asyncio.Task[None]) -> None:
        """A request is being answered."""


#: Of a connection on which nothing more is read.
_NO_PARSER: Final = httptools.HttpRequestParser(None)


class _Stage(Enum):
    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    ANSWER = auto()


class Connection(asyncio.Protocol):
    """One client.

    ```
            ┌──────────────── answered ───────────────┐
            ▼                                         │
    ──▶   IDLE ──▶ HEAD ──▶ BODY ──▶ ANSWER ──────────┘
            ▲                 └─ answered already ─┐
            └──────────────────────────────────────┘
    ```
    """

    __slots__ = (
        "__weakref__",
        "_client",
        "_exchange",
        "_headers",
        "_host",
        "_is_deaf",
        "_is_paused",
        "_is_upgraded",
        "_is_writable",
        "_loop",
        "_may_upgrade",
        "_overhead",
        "_parser",
        "_stage",
        "_unparsed",
        "_url",
        "_waiting",
        "_why",
        "_wished",
        "deadline",
        "is_known",
        "transport",
    )

    def __init__(self, host: ConnectionHost) -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._parser = self._new_parser()
        self.transport: asyncio.Transport | None = None
        self.is_known = False
        #: When the client will have had its time.
        self.deadline = math.inf
        self._stage = _Stage.IDLE
        self._exchange: Exchange | None = None
        #: Those after it; no more than fit into a slice.
        self._waiting: list[Exchange] = []
        self._unparsed = b""
        self._is_deaf = False
        self._is_paused = False
        #: What the request that is read wishes to speak instead; and whether what follows one may be of that protocol.
        self._wished = b""
        self._may_upgrade = False
        self._is_upgraded = False
        self._is_writable = Flag(is_set=True)
        self._why = _BAD
        #: Bytes since the head began, or since the last of the body.
        self._overhead = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._client: Any = None

    # -- the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._client = transport.get_extra_info("peername")
        self._enter(_Stage.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_deaf = True
        self._unparsed = b""
        for exchange in (self._exchange, *self._waiting):
            if exchange is not None:
                exchange.disconnect()
        self._waiting.clear()
        self._is_writable.set()
        self._host.on_closed(self)
        # What refers to itself stays until garbage is collected, here 50 KB of OpenSSL with it.
        self.transport, self._parser = None, _NO_PARSER
        if self._exchange is not None and self._exchange.is_complete:
            self._exchange = None

    def data_received(self, data: bytes) -> None:
        if self._unparsed:
            self._unparsed += data  # it was under way when reading was paused
        else:
            self._parse(data)

    def pause_writing(self) -> None:
        self._is_writable.clear()

    def resume_writing(self) -> None:
        self._is_writable.set()

    def expire(self) -> None:
        """The client has had its time: half a request, an answer that it does not take, or nothing at all."""
        self.abort()

    def abort(self) -> None:
        """End it now: a polite end, over TLS, waits for the answer of a client that may sleep."""
        self._is_deaf = True
        if self.transport is not None:
            self.transport.abort()

    def shutdown(self) -> None:
        """The listener stops: what has been understood is answered, and nothing else is waited for."""
        exchange = self._exchange
        if exchange is None or exchange.is_complete or exchange.expects_more or self._is_upgraded:
            self.abort()
        else:
            self._is_deaf = True
            exchange.keep_alive = False

    def close(self) -> None:
        """End it when what was written has left, if that takes no longer than a head may."""
        self._is_deaf = True
        self.deadline = self._loop.time() + self._host.patience.head
        if self.transport is not None:
            self.transport.close()

    # -- what arrives

    def _parse(self, data: bytes) -> None:
        if len(data) <= SLICE_BYTES and not (self._waiting or self._is_deaf or self._may_upgrade):  # as nearly always
            self._feed(data)
            data = b""
        for start in range(0, len(data), SLICE_BYTES):
            if self._is_deaf:
                return
            if self._waiting or self._may_upgrade:
                self._unparsed += data[start:]
                break
            self._feed(data[start : start + SLICE_BYTES])
        self._steer()

    def _feed(self, piece: bytes) -> None:
        self._overhead += len(piece)
        try:
            if self._overhead > MAX_HEAD_BYTES + SLICE_BYTES:
                raise self._refusing(_HEAD_TOO_LARGE)
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._reread(piece[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse()

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # Connections end with an answer that says so; what a client sent after that is not looked at.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _reread(self, rest: bytes) -> None:
        """Read a head again without its wish for another protocol, as Go does, which answers in this one unless a
        handler takes the connection. The parser takes such a request to have no body, and all that follows for the
        other protocol.
        """
        wished, self._parser, self._overhead = self._parser, self._new_parser(), 0
        self._wished = next(value for name, value in self._headers if name == b"upgrade")
        lines = [b"%b: %b\r\n" % header for header in self._headers if header[0] != b"upgrade"]
        head = b"%b %b HTTP/%b\r\n" % (wished.get_method(), self._url, wished.get_http_version().encode())
        self._feed(b"".join((head, *lines, b"\r\n")))
        if self._may_upgrade:
            self._unparsed += rest
        elif rest:
            self._feed(rest)

    def _take(self) -> Streams:
        """Hand the connection over: HTTP is over on it. What answers the request ends it by ending."""
        transport, exchange = self.transport, self._exchange
        assert transport is not None and exchange is not None and not (exchange.expects_more or exchange.has_begun)
        self._is_upgraded = exchange.is_upgraded = True
        exchange.keep_alive, self.deadline = False, math.inf
        early, self._unparsed = self._unparsed, b""
        if self._is_paused:
            self._is_paused = False
            transport.resume_reading()
        return streams_over(transport, early, self.connection_lost)

    def _refusing(self, why: str) -> httptools.HttpParserError:
        self._why = why
        return httptools.HttpParserError(why)

    def _refuse(self) -> None:
        """In Go's words, whose server ends the connection with them. What was asked before is answered before."""
        if self._stage is _Stage.BODY and self._waiting:
            self._waiting.pop()
        ahead = self._waiting[-1] if self._waiting else self._exchange
        if ahead is not None and not (ahead.is_complete or ahead.expects_more):
            self._is_deaf, ahead.keep_alive = True, False
        elif self.transport is None or (ahead is not None and ahead.has_begun and not ahead.is_complete):
            self.abort()
        else:
            text = _EXPLAINED.get(self._why, self._why)
            self.transport.write(
                f"HTTP/1.1 {self._why}\r\ncontent-type: text/plain; charset=utf-8\r\n"
                f"connection: close\r\n\r\n{text}".encode()
            )
            self.close()

    def _steer(self) -> None:
        """Read on, or not for now."""
        exchange, transport = self._exchange, self.transport
        full = bool(self._waiting or self._unparsed) or (exchange is not None and len(exchange.body) > HIGH_WATER_BYTES)
        if full == self._is_paused or transport is None or transport.is_closing():
            return
        self._is_paused = full
        if full:
            transport.pause_reading()
        else:
            transport.resume_reading()

    # -- the parser's callbacks

    def on_message_begin(self) -> None:
        self._url, self._headers, self._overhead = b"", [], 0
        self._enter(_Stage.HEAD)

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > MAX_URL_BYTES:
            raise self._refusing(_URL_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._stage is not _Stage.HEAD:
            return  # after a chunked body: nobody asks for those
        if len(self._headers) >= MAX_HEAD_LINES:
            raise self._refusing(_HEAD_TOO_LARGE)
        name = name.lower()
        if name == b"transfer-encoding" and value.lower() != b"chunked":
            raise self._refusing(_UNKNOWN_ENCODING)
        if name == b"content-length" and not _is_length(value):
            raise self._refusing(_BAD)
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        assert self.transport is not None
        if self._parser.should_upgrade():
            if self._parser.get_method() == b"CONNECT":
                raise self._refusing(_BAD)
            return
        path, query = _split(self._url)
        version = self._parser.get_http_version()
        scope = {
            "type": "http",
            "http_version": version,
            "method": self._parser.get_method().decode("ascii"),
            "raw_path": path,
            "query_string": query,
            "headers": self._headers,
            "client": self._client,
            TRANSPORT: self.transport,
            WRITABLE: self._is_writable,
            ON_AUTHENTICATED: self.on_authenticated,
            WHEN_GONE: self._tell_when_gone,  # no method of the exchange, which would hold itself
        }
        wished, self._wished = self._wished, b""
        if wished and not self._waiting and (self._exchange is None or self._exchange.is_complete):
            scope[UPGRADE] = Upgrade(wished.decode("latin-1"), self._take)
        keep_alive = version == "1.1" and self._parser.should_keep_alive()
        exchange = Exchange(self.transport, self._is_writable, scope, keep_alive, self._taken, self._answered)
        self._overhead = 0
        self._enter(_Stage.BODY)
        if self._exchange is None or self._exchange.is_complete:
            self._start(exchange)
        else:
            self._waiting.append(exchange)

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        self._receiving().receive_body(body)

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        self._overhead = 0
        exchange = self._receiving()
        self._may_upgrade = UPGRADE in exchange.scope and not exchange.is_complete
        exchange.receive_end()
        self._enter(_Stage.IDLE if exchange.is_complete else _Stage.ANSWER)

    def _receiving(self) -> Exchange:
        exchange = self._waiting[-1] if self._waiting else self._exchange
        assert exchange is not None
        return exchange

    # -- what is answered

    def on_authenticated(self) -> None:
        """The client has shown who it is."""
        if not self.is_known:
            self.is_known = True
            self._host.on_authenticated(self)
            if self._stage is _Stage.ANSWER:
                self._enter(_Stage.ANSWER)

    def _start(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._host.on_task(self._loop.create_task(exchange.run(self._host.application)))

    def _tell_when_gone(self, tell: Callable[[], None]) -> None:
        """The request that is being answered needs nothing more of its client, but to know when it has gone."""
        assert self._exchange is not None
        self._exchange.when_gone(tell)

    def _taken(self) -> None:
        """Somebody has taken what there was of the body."""
        if self._is_paused:
            self._steer()

    def _answered(self, exchange: Exchange) -> None:
        self._may_upgrade = False
        if self.transport is None:
            self._exchange = None
            return
        if self.transport.is_closing():
            return
        if not exchange.keep_alive:
            self.close()
            return
        if self._waiting:
            self._start(self._waiting.pop(0))
        elif self._stage is _Stage.ANSWER:
            self._enter(_Stage.IDLE)
        if self._unparsed and not self._waiting:
            data, self._unparsed = self._unparsed, b""
            self._parse(data)
        self._steer()

    def _enter(self, stage: _Stage) -> None:
        self._stage = stage
        patience = self._host.patience
        if stage is _Stage.BODY:
            seconds = patience.body
        elif stage is _Stage.HEAD or not self.is_known:
            seconds = patience.head
        elif stage is _Stage.IDLE:
            seconds = patience.idle
        else:
            seconds = math.inf  # however long our own work takes
        self.deadline = self._loop.time() + seconds


def _is_length(value: bytes) -> bool:
    digits = value.strip()
    significant = digits.lstrip(b"0")
    return (
        digits.isdigit() and len(significant) <= _MAX_LENGTH_DIGITS and int(digits[-_MAX_LENGTH_DIGITS:]) <= _MAX_LENGTH
    )


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query. Raises for a URL that is none (httptools reads those that name a host, which proxies get)."""
    if not url.isascii():
        raise httptools.HttpParserInvalidURLError
    if url[:1] == b"/":
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""
