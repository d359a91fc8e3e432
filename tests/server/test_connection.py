"""What one connection may make us hold, whoever is at its other end."""

from __future__ import annotations

import asyncio
import json
import math
import resource
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fairlead.api import builtin
from fairlead.runtime.http.exchange import ASGIApplication, Receive, Scope, Send
from fairlead.runtime.http.listener import Limits
from fairlead.runtime.http.protocol import (
    HIGH_WATER_BYTES,
    MAX_HEAD_BYTES,
    MAX_HEAD_LINES,
    MAX_URL_BYTES,
    ON_AUTHENTICATED,
    SLICE_BYTES,
    Connection,
    Patience,
)
from fairlead.runtime.loops import run_virtual
from fairlead.server.auth.tokens import anybody
from fairlead.server.http.app import Application as ApiServer
from fairlead.server.http.documents import Documents
from tests.server import registry_world
from tests.server.registry_world import NAMESPACE, World

SHORTEST = b"GET / HTTP/1.1\r\n\r\n"
READ_BYTES = 256 << 10  # what uvloop reads at once


class Wire(asyncio.Transport):
    """A connection whose client sends while we read, and takes of our answers what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.reads = True
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class RecordingHost:
    """Accepts one connection, and counts what it hands out to be answered."""

    def __init__(self, application: ASGIApplication, patience: Patience | None = None) -> None:
        self.application = application
        self.patience = patience or Patience()
        self.tasks: list[asyncio.Task[None]] = []
        self.wire = Wire()
        self.connection = Connection(self)
        self.connection.connection_made(self.wire)

    def on_authenticated(self, connection: Connection) -> None:
        pass

    def on_closed(self, connection: Connection) -> None:
        pass

    def on_task(self, task: asyncio.Task[None]) -> None:
        self.tasks.append(task)

    async def receives(self, data: bytes) -> int:
        """Send it in pieces as large as reads are, for as long as it is read; how much was."""
        sent = 0
        while sent < len(data) and self.wire.reads and not self.wire.is_closed:
            self.connection.data_received(data[sent : sent + READ_BYTES])
            sent += READ_BYTES
            await settle()
        return min(sent, len(data))

    @property
    def answers(self) -> int:
        return self.wire.written.count(b"HTTP/1.1 ")


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def ok(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def asleep(scope: Scope, receive: Receive, send: Send) -> None:
    scope[ON_AUTHENTICATED]()
    await asyncio.sleep(math.inf)


def check(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(test())


def test_requests_that_nobody_reads_the_answers_of_are_not_read() -> None:
    async def test() -> None:
        host = RecordingHost(ok)
        host.connection.pause_writing()  # as a transport says when the client does not take what was written
        assert await host.receives(SHORTEST * 600_000) == READ_BYTES  # of 10 MB
        assert len(host.tasks) == 1
        assert host.answers == 0

    check(test)


def test_requests_behind_a_long_one_are_not_read() -> None:
    async def test() -> None:
        host = RecordingHost(asleep)
        assert await host.receives(SHORTEST * 600_000) == READ_BYTES
        assert len(host.tasks) == 1

    check(test)


def test_all_of_many_requests_sent_at_once_are_answered_in_their_order() -> None:
    async def numbered(scope: Scope, receive: Receive, send: Send) -> None:
        body = scope["raw_path"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    async def test() -> None:
        host = RecordingHost(numbered)
        host.connection.data_received(b"".join(b"GET /%d/ HTTP/1.1\r\n\r\n" % number for number in range(5000)))
        while host.answers < 5000:
            await settle()
        assert host.wire.reads
        order = [int(part.split(b"/")[1]) for part in bytes(host.wire.written).split(b"\r\n\r\n")[1:]]
        assert order == list(range(5000))

    check(test)


POST = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET / HTTP/1.1\r\n", b"a: b\r\n"),
        (b"GET / HTTP/1.1\r\na: ", b"b"),
        (POST + b"1\r\nx\r\n0\r\n", b"a: b\r\n"),
        (POST + b"1\r\nx\r\n0\r\na: ", b"b"),
        (POST + b"1;", b"x"),
        (b"GET /", b"x"),
        (b"", b"\r\n"),
    ],
)
def test_what_never_comes_to_an_end_is_cut_off(begin: bytes, more: bytes) -> None:
    """Heads, URLs, empty lines before a head, extensions of a chunk, trailers behind a body."""

    async def test() -> None:
        host = RecordingHost(asleep)
        sent = await host.receives(begin + more * (24 << 20 >> 4))
        assert host.wire.is_closed
        assert sent <= MAX_HEAD_BYTES + 2 * READ_BYTES

    check(test)


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (MAX_HEAD_LINES + 1), b"431"),
        (b"GET /" + b"x" * MAX_URL_BYTES + b" HTTP/1.1\r\n", b"414"),
        (b"GET / HTTP/1.1\r\na: " + b"x" * (MAX_HEAD_BYTES + 2 * SLICE_BYTES), b"431"),
    ],
)
def test_a_head_that_is_too_large_is_told_so(head: bytes, code: bytes) -> None:
    async def test() -> None:
        host = RecordingHost(ok)
        await host.receives(head + b"\r\n")
        assert host.wire.written.startswith(b"HTTP/1.1 " + code)
        assert not host.tasks

    check(test)


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        (b"Content-Length: 9223372036854775808", b"400 Bad Request"),
        (b"Content-Length: " + b"0" * 30 + b"9223372036854775808", b"400 Bad Request"),
        (b"Content-Length: +1", b"400 Bad Request"),
        (b"Transfer-Encoding: gzip, chunked", b"501 Not Implemented"),
        (b"Transfer-Encoding: gzip", b"501 Not Implemented"),
    ],
)
def test_a_body_that_nobody_could_read_is_refused_at_once(header: bytes, answer: bytes) -> None:
    """net/http: `parseContentLength` takes 63 bits, `parseTransferEncoding` nothing but chunks."""

    async def test() -> None:
        host = RecordingHost(echo)
        await host.receives(b"POST / HTTP/1.1\r\n" + header + b"\r\n\r\n")
        assert host.wire.written.startswith(b"HTTP/1.1 " + answer + b"\r\n")
        text = b"Unsupported transfer encoding" if answer.startswith(b"501") else answer
        assert host.wire.written.endswith(b"\r\n\r\n" + text)
        assert not host.tasks

    check(test)


@pytest.mark.parametrize("header", [b"Content-Length: 5", b"Content-Length: 0005", b"transfer-encoding: Chunked"])
def test_bodies_of_a_known_length_and_chunks_are_read(header: bytes) -> None:
    async def test() -> None:
        host = RecordingHost(echo)
        body = b"5\r\nhello\r\n0\r\n\r\n" if b"hunked" in header else b"hello"
        await host.receives(b"POST / HTTP/1.1\r\n" + header + b"\r\n\r\n" + body)
        assert host.wire.written.endswith(b"hello")

    check(test)


def test_an_answer_says_when_it_was_made() -> None:
    async def test() -> None:
        host = RecordingHost(ok)
        await host.receives(b"GET / HTTP/1.1\r\n\r\n")
        assert b"\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\n" in host.wire.written

    check(test)


def test_a_large_head_is_no_problem() -> None:
    async def test() -> None:
        host = RecordingHost(ok)
        await host.receives(b"GET / HTTP/1.1\r\na: " + b"x" * (MAX_HEAD_BYTES - SLICE_BYTES) + b"\r\n\r\n")
        assert host.answers == 1

    check(test)


def test_of_a_body_that_nobody_takes_little_is_held() -> None:
    async def test() -> None:
        host = RecordingHost(asleep)
        body = b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + b"x" * (10 << 20)
        assert await host.receives(body) <= READ_BYTES + HIGH_WATER_BYTES

    check(test)


def test_lines_after_a_body_are_not_kept() -> None:
    async def test() -> None:
        host = RecordingHost(ok)
        await host.receives(POST + b"0\r\n" + b"host: a\r\nauthorization: b\r\n" * 1000 + b"\r\n" + SHORTEST)
        assert host.answers == 2

    check(test)


def test_what_was_asked_before_nonsense_is_answered_before_it_ends() -> None:
    async def test() -> None:
        host = RecordingHost(ok)
        host.connection.data_received(SHORTEST * 3 + b"nonsense\r\n\r\n")
        await settle()
        assert host.answers == 3
        assert host.wire.written.count(b"connection: close") == 1
        assert host.wire.is_closed

    check(test)


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
@pytest.mark.parametrize("body", [b"", b"whole"])
@pytest.mark.parametrize("size", [1, 1000])
def test_who_asks_for_another_protocol_gets_this_one_and_its_body_is_read(
    protocol: bytes, body: bytes, size: int
) -> None:
    """Java's client asks for HTTP/2 like this, with every first request on a port without TLS."""
    asked = b"DELETE / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: %b\r\n" % protocol
    sent = asked + (b"Content-Length: %d\r\n\r\n" % len(body) if body else b"\r\n") + body

    async def test() -> None:
        host = RecordingHost(echo)
        for start in range(0, len(sent), size):
            host.connection.data_received(sent[start : start + size])
            await settle()
        assert host.wire.written.endswith(b"content-length: %d\r\n\r\n%b" % (len(body), body))
        await host.receives(SHORTEST * 2)
        assert host.answers == 3

    check(test)


@pytest.mark.parametrize(
    ("application", "framing", "stays"),
    [(ok, b"Content-Length: 5", False), (ok, b"Transfer-Encoding: chunked", False), (ok, b"a: b", True)],
)
def test_who_was_not_asked_for_its_body_is_not_heard_again(
    application: ASGIApplication, framing: bytes, stays: bool
) -> None:
    """Its next bytes may be that body or another request, and nobody can tell."""

    async def test() -> None:
        host = RecordingHost(application)
        await host.receives(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\n" + framing + b"\r\n\r\n")
        assert host.answers == 1
        assert (b"connection: close" not in host.wire.written, not host.wire.is_closed) == (stays, stays)

    check(test)


def test_who_speaks_http_1_0_is_not_told_to_continue() -> None:
    async def test() -> None:
        host = RecordingHost(echo)
        await host.receives(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok")
        assert host.wire.written.startswith(b"HTTP/1.1 200 OK\r\n")

    check(test)


def watching(version: bytes, test: Callable[[World, RecordingHost], Coroutine[Any, Any, None]]) -> None:
    """A watch of 10 seconds on the one connection."""
    path = b"/api/v1/namespaces/n/configmaps?watch=1&timeoutSeconds=10"
    request = b"GET " + path + b" HTTP/" + version + b"\r\nHost: localhost\r\n\r\n"

    async def main(world: World) -> None:
        documents = Documents(world.registry, "127.0.0.1:1")
        host = RecordingHost(ApiServer(world.registry, documents, anybody))
        await host.receives(request)
        await test(world, host)

    registry_world.run(main)


def test_nothing_follows_the_end_of_a_watch_that_its_client_reads_late() -> None:
    """What happened after its time, but before its end had left, came behind that."""

    async def test(world: World, host: RecordingHost) -> None:
        host.connection.pause_writing()
        await asyncio.sleep(11)
        await world.config("late")
        await settle()
        host.connection.resume_writing()
        await settle()
        assert host.wire.written.endswith(b"\r\n0\r\n\r\n")
        await host.receives(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert host.wire.written.endswith(b"\r\n\r\nok")

    watching(b"1.1", test)


def test_a_watch_over_http_1_0_has_no_chunks_and_ends_with_its_connection() -> None:
    async def test(world: World, host: RecordingHost) -> None:
        await world.create(builtin.CONFIG_MAPS, {"metadata": {"name": "m"}})
        await settle()
        head, _, body = bytes(host.wire.written).partition(b"\r\n\r\n")
        assert b"chunked" not in head
        events = [json.loads(line) for line in body.splitlines()]
        assert [(event["type"], event["object"]["metadata"]["namespace"]) for event in events] == [("ADDED", NAMESPACE)]
        assert not host.wire.is_closed
        await asyncio.sleep(11)
        assert host.wire.is_closed

    watching(b"1.0", test)


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        (b"", 30),
        (b"GET / HTTP/1.1\r\na: b\r\n", 30),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 65),
        (POST + b"1\r\nx\r\n", 65),
    ],
)
def test_a_stranger_has_so_long(sent: bytes, seconds: int) -> None:
    """As long as it has not shown who it is, it has no more than that for anything."""

    async def test() -> None:
        host = RecordingHost(ok)
        await asyncio.sleep(5)
        host.connection.data_received(sent)
        began = 5 if sent else 0
        assert host.connection.deadline == pytest.approx(began + seconds)
        await asyncio.sleep(5)
        host.connection.data_received(b"")
        assert host.connection.deadline == pytest.approx(began + seconds)

    check(test)


def test_who_is_known_has_its_time_to_think_but_not_for_half_a_head() -> None:
    async def on_authenticated(scope: Scope, receive: Receive, send: Send) -> None:
        scope[ON_AUTHENTICATED]()
        await asyncio.sleep(1000)
        await ok(scope, receive, send)

    async def test() -> None:
        host = RecordingHost(on_authenticated)
        host.connection.data_received(SHORTEST)
        await asyncio.sleep(1)
        assert host.connection.deadline == math.inf  # we work, however long it takes
        await asyncio.sleep(1000)
        assert host.answers == 1
        assert host.connection.deadline == pytest.approx(1000 + 300)
        host.connection.data_received(b"GET / HT")
        assert host.connection.deadline == pytest.approx(1001 + 30)

    check(test)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", b"/", b""),
        (b"/a/b?c=d?e", b"/a/b", b"c=d?e"),
        (b"//a", b"//a", b""),
        (b"http://localhost/a?b", b"/a", b"b"),
        (b"http://localhost", b"/", b""),
        (b"*", b"*", b""),
    ],
)
def test_a_target_is_a_path_and_a_query(target: bytes, path: bytes, query: bytes) -> None:
    async def test() -> None:
        seen = []

        async def see(scope: Scope, receive: Receive, send: Send) -> None:
            seen.append((scope["raw_path"], scope["query_string"]))
            await ok(scope, receive, send)

        host = RecordingHost(see)
        await host.receives(b"OPTIONS " + target + b" HTTP/1.1\r\n\r\n")
        assert seen == [(path, query)]

    check(test)


@pytest.mark.parametrize("descriptors", [64, 256, 1024, 1 << 20, resource.RLIM_INFINITY])
def test_strangers_have_some_of_the_connections_and_the_process_some_descriptors(
    monkeypatch: pytest.MonkeyPatch, descriptors: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    limits = Limits()
    assert 16 <= limits.strangers <= 128
    assert 2 * limits.strangers <= limits.connections
    assert limits.connections <= descriptors - 32 or descriptors == resource.RLIM_INFINITY
