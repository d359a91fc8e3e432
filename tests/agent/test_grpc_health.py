"""gRPC probes: what a server answers, and what one that is none of the kind does to whoever asks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream

from fairlead.agent.pods import grpc_health
from fairlead.agent.pods.grpc_health import check
from tests.agent.machine import in_loop, real_containers
from tests.agent.oci_node import manifest, real_node, state

SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


class _Raw(CodecBase):
    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> Any:
        return message

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return data


class _Health:
    """Answers with these bytes, by service; of others it knows nothing."""

    def __init__(self, answers: dict[bytes, bytes]) -> None:
        self.answers = answers
        self.error = Status.NOT_FOUND, "unknown service"

    async def check(self, stream: Stream[bytes, bytes]) -> None:
        asked = await stream.recv_message()
        if (answer := self.answers.get(asked[2:] if asked else b"")) is None:
            raise GRPCError(*self.error)
        await stream.send_message(answer)

    def __mapping__(self) -> dict[str, Handler]:
        return {"/grpc.health.v1.Health/Check": Handler(self.check, Cardinality.UNARY_UNARY, bytes, bytes)}


@asynccontextmanager
async def _server(answers: dict[bytes, bytes]) -> AsyncIterator[tuple[int, _Health]]:
    health = _Health(answers)
    server = Server([health], codec=_Raw())
    sock = socket.create_server(("127.0.0.1", 0))
    await server.start(sock=sock)
    try:
        yield sock.getsockname()[1], health
    finally:
        server.close()
        await server.wait_closed()


def _to(port: int) -> Callable[[], Awaitable[socket.socket]]:
    async def connect() -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except OSError:
            sock.close()
            raise
        return sock

    return connect


async def _ask(port: int, service: str = "", seconds: float = 5.0) -> str:
    return await check(_to(port), f"127.0.0.1:{port}", service, seconds)


@in_loop
async def test_a_service_is_well_if_it_serves() -> None:
    async with _server({b"": SERVING, b"db": NOT_SERVING, b"x": b""}) as (port, health):
        assert await _ask(port) == ""
        assert await _ask(port, "db") == 'service unhealthy (responded with "NOT_SERVING")'
        assert await _ask(port, "x") == 'service unhealthy (responded with "UNKNOWN")'
        unknown = "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service"
        assert await _ask(port, "other") == unknown
        health.error = Status.UNIMPLEMENTED, "unknown method Check"
        said = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): "
        assert await _ask(port, "other") == f"{said}unknown method Check"


@in_loop
async def test_nobody_listens_until_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    expected = f'timeout: failed to connect service "127.0.0.1:{port}" within 1s: context deadline exceeded'
    assert await _ask(port, seconds=1.0) == expected


@in_loop
async def test_answers_that_are_none_fail_and_cost_nothing() -> None:
    for answer in (b"\x08", b"\x10\x01", b"\x08\x80", b"\x08" + b"\xff" * 30, b"a" * 60_000, b"a" * 1_000_000):
        async with _server({b"": answer}) as (port, _):
            assert (await _ask(port)).startswith("error: health rpc probe failed: "), answer[:10]


@in_loop
async def test_a_probe_that_is_ended_as_its_connection_ends_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the container goes with its pod: else it would be probed for ever."""
    made: list[grpc_health._Channel] = []

    class Known(grpc_health._Channel):
        def __init__(self, sock: socket.socket) -> None:
            super().__init__(sock)
            made.append(self)

    monkeypatch.setattr(grpc_health, "_Channel", Known)
    near, far = socket.socketpair()
    near.setblocking(False)

    async def connect() -> socket.socket:
        return near

    with far:
        probing = asyncio.create_task(check(connect, "a", "", 60.0))
        await asyncio.to_thread(far.recv, 1)
        await asyncio.sleep(0.05)
        probing.cancel()
        made[0].close()
        await asyncio.gather(probing, return_exceptions=True)
        assert probing.cancelled()


@in_loop
async def test_who_speaks_another_protocol_or_none_fails() -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" * 1000)  # settings, for ever
                await writer.drain()
        except ConnectionError:
            writer.close()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def http1(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    said = {}
    for handler in (garbage, silence, http1):
        async with await asyncio.start_server(handler, "127.0.0.1", 0) as server:
            said[handler] = await _ask(server.sockets[0].getsockname()[1], seconds=2.0)
    assert said[silence] == "timeout: health rpc did not complete within 2s"
    assert said[garbage].startswith("error: health rpc probe failed: ")
    assert said[http1].startswith("error: health rpc probe failed: ")


@real_containers
@in_loop
async def test_readiness_follows_what_a_pod_says_of_itself(tmp_path: Path) -> None:
    async with _server({b"": NOT_SERVING}) as (port, health), real_node(tmp_path) as node:
        probe = {"grpc": {"port": port}, "periodSeconds": 1, "failureThreshold": 1}
        await node.create(manifest("web", "sleep", "1000", spec={"hostNetwork": True}, readinessProbe=probe))
        await node.told("web", "Unhealthy", 'Readiness probe failed: service unhealthy (responded with "NOT_SERVING")')
        health.answers[b""] = SERVING
        await node.until("web", lambda pod: bool(state(pod).get("ready")))
