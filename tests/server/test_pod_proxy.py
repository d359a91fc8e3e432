"""The proxies of pods and services lead to what listens there, or say why they do not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from fairlead.api.builtin import ENDPOINTS, PODS, SERVICES
from fairlead.api.objects import Obj
from fairlead.api.verbs import PatchType
from tests.server.aggregation_world import World, within
from tests.server.http_world import Server, check_status, serving_in_a_thread

SPACE = "/api/v1/namespaces/default"


def own_address() -> str:
    """An address of this machine at which everybody may ask it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this machine has no network")
        return str(sock.getsockname()[0])


@asynccontextmanager
async def listening(address: str) -> AsyncIterator[int]:
    """A small web server, and its port."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/socket":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            async for message in socket:
                await socket.send_str(f"{request.path_qs} {message.data}")
            return socket
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "/there?a=b"})
        text = f"{request.method} {request.path_qs} {(await request.read()).decode()}".strip()
        return web.Response(text=text, headers={"X-Secret": request.headers.get("Authorization", "none")})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, address, 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def pod(world: World, address: str, port: int) -> None:
    spec = {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": port}]}]}
    await world.server.api.create(PODS, {"metadata": {"name": "web"}, "spec": spec}, "default")
    status: Obj = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    await world.server.api.patch(PODS, "web", "default", status, PatchType.MERGE, subresource="status")


def test_what_listens_at_the_address_of_a_pod_answers() -> None:
    address = own_address()

    async def steps(world: World) -> None:
        async with listening(address) as port:
            await pod(world, address, port)
            headers = {"Authorization": "Bearer secret"}
            async with world.client.get(f"{world.url}{SPACE}/pods/web/proxy/a/b/?c=d", headers=headers) as response:
                assert (response.status, await response.text()) == (200, "GET /a/b/?c=d")
                assert response.headers["X-Secret"] == "none"
            assert await world.ask(f"{SPACE}/pods/http:web:{port}/proxy/x", "PUT", data=b"body") == "PUT /x body"
            for path, location in (("proxy?q=1", "proxy/?q=1"), ("proxy/moved", "proxy/there?a=b")):
                async with world.client.get(f"{world.url}{SPACE}/pods/web/{path}", allow_redirects=False) as response:
                    assert response.headers["Location"] == f"{SPACE}/pods/web/{location}"

    within(steps)


def test_a_websocket_of_a_pod_goes_through() -> None:
    address = own_address()

    async def steps(world: World) -> None:
        async with listening(address) as port:
            await pod(world, address, port)
            url = f"{world.url}{SPACE}/pods/web/proxy/socket?a=b"
            async with world.client.ws_connect(url, headers={"Authorization": "Bearer secret"}) as socket:
                await socket.send_str("hello")
                assert await socket.receive_str() == "/socket?a=b hello"

    within(steps)


@asynccontextmanager
async def saying(address: str, *packets: bytes) -> AsyncIterator[int]:
    """A server that says that, whatever it is asked, and its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for packet in packets:
            writer.write(packet)
            await writer.drain()
            await asyncio.sleep(0.05)  # each arrives by itself
        writer.close()

    server = await asyncio.start_server(answer, address, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


WISH = {"Connection": "Upgrade", "Upgrade": "websocket"}


@pytest.mark.parametrize(
    ("packets", "headers", "code", "text"),
    [
        ([b"HTTP/1.1 299 Odd\r\nContent-Length: 2\r\n\r\nok"], {}, 299, "ok"),
        ([b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok"], WISH, 999, "ok"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello"], {}, 503, "malformed MIME header line"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n"], {}, 503, "malformed MIME header line"),
        ([b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"], {}, 503, r"tried to switch protocol \"x\" when"),
        ([b"HTTP/1.0 404 Not Found\r\n\r\n", b"no", b"pe"], WISH, 404, "nope"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"], WISH, 403, "no"),
        ([b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nno"], WISH, 500, "EOF"),
        (
            [b"HTTP/1.1 403 A\r\nContent-Length: 2\r\n\r\nnoHTTP/1.1 200 B\r\nContent-Length: 3\r\n\r\nyes"],
            WISH,
            403,
            "no",
        ),
    ],
)
def test_whatever_a_pod_says_is_one_whole_answer(
    packets: list[bytes], headers: dict[str, str], code: int, text: str
) -> None:
    address = own_address()

    async def steps(world: World) -> None:
        async with saying(address, *packets) as port:
            await pod(world, address, port)
            async with world.client.get(f"{world.url}{SPACE}/pods/web/proxy/x", headers=headers) as response:
                said = await response.text()
                assert response.status == code and (said == text if code != 503 and code != 500 else text in said)
            assert "gitVersion" in await world.ask("/version")

    within(steps)


def test_who_leaves_before_a_pod_agrees_leaves_nothing_open() -> None:
    address = own_address()

    async def steps(world: World) -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            began.set()
            await reader.read()
            ended.set()
            writer.close()

        async with await asyncio.start_server(silent, address, 0) as server:
            await pod(world, address, server.sockets[0].getsockname()[1])
            asking = asyncio.create_task(world.ask(f"{SPACE}/pods/web/proxy/x", headers=WISH))
            await began.wait()
            asking.cancel()
            async with asyncio.timeout(10):
                await ended.wait()

    within(steps)


@pytest.mark.parametrize(
    ("port", "why"),
    [
        ("80@127.0.0.1", "dial tcp: lookup tcp/80@127.0.0.1: unknown port"),
        ("eighty", "dial tcp: lookup tcp/eighty: unknown port"),
        ("65536", "dial tcp: address 65536: invalid port"),
        ("9" * 5000, f"dial tcp: address {'9' * 5000}: invalid port"),
    ],
)
def test_a_port_leads_nowhere_else(port: str, why: str) -> None:
    async def steps(world: World) -> None:
        await pod(world, "192.0.2.1", 80)
        wish = {"Connection": "Upgrade", "Upgrade": "websocket"}
        for headers in ({}, wish):
            refusal = await world.ask(f"{SPACE}/pods/web:{port}/proxy/", code=503, headers=headers)
            assert refusal["message"] == f"error trying to reach service: {why}"

    within(steps)


def test_a_service_leads_to_one_of_its_pods() -> None:
    address = own_address()

    async def steps(world: World) -> None:
        async with listening(address) as port:
            await pod(world, address, port)
            api = world.server.api
            ports = [{"name": "web", "port": 80}]
            await api.create(SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": ports}}, "default")
            path = f"{SPACE}/services/web:80/proxy/x"
            assert (await world.ask(path, code=404))["message"] == 'endpoints "web" not found'
            target = {"kind": "Pod", "namespace": "default", "name": "web"}
            subset: Obj = {"addresses": [{"ip": address}], "ports": [{"name": "web", "port": port}]}
            endpoints: Obj = {"metadata": {"name": "web"}, "subsets": [subset]}
            await api.create(ENDPOINTS, endpoints, "default")
            nobody = 'no endpoints available for service "web:80"'
            assert (await world.ask(path, code=503))["message"] == nobody
            subset["addresses"][0]["targetRef"] = target
            await api.patch(ENDPOINTS, "web", "default", {"subsets": [subset]}, PatchType.MERGE)
            assert await world.ask(path) == "GET /x"
            assert await world.ask(f"{SPACE}/services/web:web/proxy/") == "GET /"
            assert (await world.ask(f"{SPACE}/services/web:81/proxy/", code=503))["message"] == (
                'no service port 81 found for service "web"'
            )

    within(steps)


def test_where_nobody_listens_it_says_so() -> None:
    address = own_address()

    async def steps(world: World) -> None:
        async with listening(address) as port:
            pass
        await pod(world, address, port)
        refusal = await world.ask(f"{SPACE}/pods/web/proxy/", code=503)
        assert (refusal["reason"], refusal["message"]) == (
            "ServiceUnavailable",
            f"error trying to reach service: dial tcp {address}:{port}: connect: connection refused",
        )

    within(steps)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_in_a_thread() as running:
        made = running.ask("POST", f"{SPACE}/pods", {"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "image": "i"}]}})  # fmt: skip
        assert made.code == 201
        yield running


@pytest.mark.parametrize(
    ("path", "code", "reason", "message"),
    [
        ("pods/none/proxy/", 404, "NotFound", 'pods "none" not found'),
        ("pods/p/proxy/", 400, "BadRequest", "address not allowed"),
        ("pods/ftp:p:1/proxy/", 400, "BadRequest", 'invalid pod request "ftp:p:1"'),
        ("services/a:b:c:d/proxy/", 400, "BadRequest", 'invalid service request "a:b:c:d"'),
        ("services/none/proxy/", 404, "NotFound", 'endpoints "none" not found'),
        ("services/none:80/proxy/", 404, "NotFound", 'services "none" not found'),
    ],
)
def test_what_leads_nowhere(server: Server, path: str, code: int, reason: str, message: str) -> None:
    assert check_status(server.ask("GET", f"{SPACE}/{path}"), code, reason) == message
