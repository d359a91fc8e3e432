"""An extension API server over HTTPS, and our server which hands requests on to it."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
from aiohttp import web
from cryptography import x509

from fairlead.api.builtin import API_SERVICES, SERVICES
from fairlead.api.objects import Obj
from fairlead.runtime.authority import Authority, key_pem, new_key
from fairlead.runtime.http.listener import bind, serving
from fairlead.server.assembly import Server
from fairlead.server.auth import certificates
from fairlead.server.auth.authenticator import Authenticator
from fairlead.server.auth.tokens import anybody
from fairlead.server.http.app import Application
from fairlead.server.http.documents import Documents
from fairlead.store.memory import MemoryStore

GROUP, VERSION = "extras.example.com", "v1"
ROOT = f"/apis/{GROUP}/{VERSION}"
GADGETS = f"{ROOT}/namespaces/default/gadgets"
NAME = f"{VERSION}.{GROUP}"
RESOURCE: Obj = {
    "name": "gadgets",
    "singularName": "gadget",
    "namespaced": True,
    "kind": "Gadget",
    "verbs": ["create", "get", "list", "watch"],
    "shortNames": ["gd"],
}


def gadget(name: str) -> Obj:
    meta = {"name": name, "namespace": "default", "resourceVersion": "7"}
    return {"kind": "Gadget", "apiVersion": f"{GROUP}/{VERSION}", "metadata": meta}


class Extension:
    """The other server: it has gadgets, and believes whoever shows a certificate of the front proxy."""

    def __init__(self, front_proxy_ca: Path, host: str = "extras.default.svc") -> None:
        self.requests: list[web.Request] = []
        self.peers: list[Any] = []
        #: What watchers are told.
        self.events: asyncio.Queue[Obj | None] = asyncio.Queue()
        self.watchers = 0
        #: Of a body that is sent, and how many are.
        self.received = self.uploads = 0
        self.is_broken = False
        #: Its OpenAPI v2, None if it has none, and the tag of that; how often it was sent.
        self.specification: bytes | None = None
        self.tag, self.specifications = "", 0
        self.port = 0
        self._authority = Authority.make("extras")
        self.bundle = b64encode(self._authority.certificate_pem).decode()
        self._front_proxy_ca, self._host = front_proxy_ca, host

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        application = web.Application(client_max_size=8 << 20)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._context())
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()

    def asked(self) -> list[web.Request]:
        """What was asked in the names of users."""
        return [each for each in self.requests if each.headers.get("X-Remote-User") != "system:kube-aggregator"]

    def _context(self) -> ssl.SSLContext:
        key = new_key()
        names = [x509.DNSName(self._host)]
        certificate = self._authority.sign(x509.Name([]), key.public_key(), ["server auth"], 3600.0, names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_verify_locations(self._front_proxy_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        with TemporaryDirectory() as folder:
            file = Path(folder, "tls.pem")
            file.write_bytes(certificate + key_pem(key))
            context.load_cert_chain(file)
        return context

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        assert request.transport is not None
        self.peers.append(request.transport.get_extra_info("peercert"))
        if self.is_broken:
            return web.Response(status=500)
        if request.path == f"{GADGETS}/a/stream":
            return await self._echo(request)
        if request.path == f"{GADGETS}/a/upload":
            return await self._upload(request)
        match request.path, request.method:
            case path, "GET" if path == ROOT:
                found = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}"}
                return web.json_response(found | {"resources": [RESOURCE, RESOURCE | {"name": "gadgets/status"}]})
            case "/openapi/v3", "GET":
                url = f"/openapi/v3{ROOT}?hash=ABC"
                return web.json_response({"paths": {ROOT.strip("/"): {"serverRelativeURL": url}}})
            case "/openapi/v2", "GET" if self.specification is not None:
                if self.tag and request.headers.get("If-None-Match") == self.tag:
                    return web.Response(status=304)
                self.specifications += 1
                headers = {"ETag": self.tag} if self.tag else {}
                return web.Response(body=self.specification, content_type="application/json", headers=headers)
            case path, "GET" if path == f"/openapi/v3{ROOT}":
                return web.json_response({"openapi": "3.0.0", "info": {"title": "extras", "version": "1"}, "paths": {}})
            case path, "GET" if path == GADGETS and "watch" in request.query:
                return await self._watch(request)
            case path, "GET" if path == GADGETS:
                return web.json_response({"kind": "GadgetList", "items": [gadget("a")]}, headers={"X-Own": "yes"})
            case path, "POST" if path == GADGETS:
                return web.json_response(await request.json(), status=201)
        return web.json_response({"kind": "Status", "status": "Failure", "message": "no such gadget"}, status=404)

    async def _upload(self, request: web.Request) -> web.Response:
        """Tells how much came, and how its length was told."""
        self.received, self.uploads = 0, self.uploads + 1
        try:
            async for piece in request.content.iter_any():
                self.received += len(piece)
        finally:
            self.uploads -= 1
        return web.Response(text=f"{self.received} {request.headers.get('Content-Length', 'chunked')}")

    async def _echo(self, request: web.Request) -> web.StreamResponse:
        """A WebSocket that says everything twice."""
        socket = web.WebSocketResponse(protocols=("twice",))
        if not socket.can_prepare(request):
            return web.Response(status=400, text="no WebSocket")
        await socket.prepare(request)
        self.watchers += 1
        try:
            async for message in socket:
                await socket.send_bytes(message.data * 2)
        finally:
            self.watchers -= 1
        return socket

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.watchers += 1
        try:
            while (event := await self.events.get()) is not None:
                await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self.watchers -= 1
        return response


@dataclass(slots=True)
class World:
    """Our server, and a client that may do everything."""

    server: Server
    extension: Extension
    client: aiohttp.ClientSession
    url: str
    folder: Path
    authority: bytes
    headers: dict[str, str] = field(default_factory=dict)

    async def ask(self, path: str, method: str = "GET", code: int = 200, **more: Any) -> Any:
        """The body of the answer, which must have that code; decoded, if it is JSON."""
        async with self.client.request(method, self.url + path, **more) as response:
            body = await response.read()
            assert response.status == code, body
            return json.loads(body) if response.content_type == "application/json" else body.decode()

    async def serve_extras(self, **spec: Any) -> None:
        """A service that leads to the extension, and its APIService."""
        space = "default"
        service = {"type": "ExternalName", "externalName": "localhost"}
        await self.server.api.create(SERVICES, {"metadata": {"name": "extras"}, "spec": service}, space)
        await self.register(**spec)

    async def register(self, **spec: Any) -> None:
        reference = {"namespace": "default", "name": "extras", "port": self.extension.port}
        spec = {
            "group": GROUP,
            "version": VERSION,
            "service": reference,
            "caBundle": self.extension.bundle,
            "groupPriorityMinimum": 2000,
            "versionPriority": 10,
        } | spec
        await self.server.api.create(API_SERVICES, {"metadata": {"name": NAME}, "spec": spec})

    def condition(self, name: str = NAME) -> Obj:
        found = self.server.registry.find(API_SERVICES.qualified, name)
        conditions = (found.obj()["status"].get("conditions") if found else None) or [{}]
        return {key: conditions[0].get(key) for key in ("status", "reason", "message")}

    async def comes_to(self, reason: str) -> Obj:
        """Wait until the condition has that reason."""
        await soon(lambda: self.condition()["reason"] == reason)
        return self.condition()

    async def available(self) -> None:
        await self.comes_to("Passed")
        found = self.server.aggregator.services.find(GROUP, VERSION)
        assert found is not None
        await soon(lambda: not self.server.aggregator.descriptions.of(found).is_stale)


async def soon(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0.005)


def within(
    steps: Callable[[World], Awaitable[None]], host: str = "extras.default.svc", authenticate: Authenticator = anybody
) -> None:
    """Run a test in real time."""

    async def run() -> None:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            pki = certificates.ensure(folder)
            server = Server(MemoryStore())
            await server.open(["ServiceAccount"])
            authority = pki.front_proxy_ca.read_bytes()
            name, client_ca = certificates.FRONT_PROXY, pki.ca_certificate.read_bytes()
            await server.aggregator.identify(pki.front_proxy, name, authority, client_ca)
            extension = Extension(pki.front_proxy_ca, host)
            await stack.enter_async_context(extension.running())
            running = asyncio.create_task(server.run())
            sock = bind(0)
            url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            documents = Documents(server.registry, url, server.aggregator)
            application = Application(server.registry, documents, authenticate, aggregator=server.aggregator)
            client = await stack.enter_async_context(aiohttp.ClientSession())
            async with serving(application, sock):
                try:
                    await steps(World(server, extension, client, url, folder, authority))
                finally:
                    running.cancel()
                    await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
