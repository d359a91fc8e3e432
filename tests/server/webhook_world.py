"""Webhooks that listen with TLS, and a server over a registry in memory that asks them."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import pytest
from aiohttp import web
from cryptography import x509
from msgspec.structs import replace

from fairlead.api import builtin
from fairlead.api.encoded import Encoded
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.runtime.authority import Authority, key_pem, new_key
from fairlead.server.admission.configuration import UNCONFIGURED, AdmissionConfiguration
from fairlead.server.assembly import Server
from fairlead.server.audit.request_audit import RequestAudit
from fairlead.server.context import INTERNAL, Result
from fairlead.store.memory import MemoryStore

#: What a webhook does: the review becomes the body of its answer, or a whole response.
Handler = Callable[[Obj], Any]

MUTATING, VALIDATING = builtin.MUTATING_WEBHOOK_CONFIGURATIONS, builtin.VALIDATING_WEBHOOK_CONFIGURATIONS
CONFIGS: Obj = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE", "DELETE"],
    "resources": ["configmaps"],
}


def allowed(review: Obj, **response: Any) -> Obj:
    return review | {"response": {"uid": review["request"]["uid"], "allowed": True, **response}}


def denied(review: Obj, **status: Any) -> Obj:
    return allowed(review, allowed=False, **({"status": status} if status else {}))


def patched(review: Obj, *operations: Obj) -> Obj:
    patch = b64encode(json.dumps(operations).encode()).decode()
    return allowed(review, patch=patch, patchType="JSONPatch")


class Webhooks:
    """Webhooks by their paths, on one port of this machine."""

    def __init__(self) -> None:
        self.handlers: dict[str, Handler] = {}
        self.reviews: list[tuple[str, Obj]] = []
        self.requests: list[web.Request] = []
        #: The certificates that were shown with them.
        self.peers: list[Any] = []
        self.authority = Authority.make("webhooks")
        self.bundle = b64encode(self.authority.certificate_pem).decode()
        self.port = 0

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=64 << 20)
        application.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context())
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def _context(self) -> ssl.SSLContext:
        key, names = new_key(), [x509.DNSName("guard.default.svc"), x509.IPAddress(ip_address("127.0.0.1"))]
        certificate = self.authority.sign(x509.Name([]), key.public_key(), ["server auth"], 3600.0, names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_verify_locations(cadata=self.authority.certificate_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        with TemporaryDirectory() as folder:
            file = Path(folder, "tls.pem")
            file.write_bytes(certificate + key_pem(key))
            context.load_cert_chain(file)
        return context

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path, review = request.match_info["path"], await request.json()
        self.requests.append(request)
        assert request.transport is not None
        self.peers.append(request.transport.get_extra_info("peercert"))
        self.reviews.append((path, review))
        answer = self.handlers[path](review)
        if isinstance(answer, Awaitable):
            answer = await answer
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    def at(self, path: str, handler: Handler) -> Obj:
        """A webhook at that path, as a `clientConfig` names it."""
        self.handlers[path] = handler
        return {"url": f"https://127.0.0.1:{self.port}/{path}", "caBundle": self.bundle}

    def asked(self) -> list[str]:
        """The paths of the webhooks that were asked, in order."""
        return [path for path, _ in self.reviews]

    def request(self, index: int = -1) -> Obj:
        found: Obj = self.reviews[index][1]["request"]
        return found


class World:
    """A server, and what a test does with it."""

    def __init__(self, server: Server, webhooks: Webhooks) -> None:
        self.server, self.api, self.webhooks = server, server.api, webhooks

    async def validating(self, *handlers: Handler, **changes: Any) -> None:
        """Register validating webhooks `v0.example.com`, `v1.example.com`, …"""
        await self._register(VALIDATING, "v", handlers, changes)

    async def mutating(self, *handlers: Handler, **changes: Any) -> None:
        await self._register(MUTATING, "m", handlers, changes)

    async def _register(self, row: Resource, letter: str, handlers: tuple[Handler, ...], changes: Obj) -> None:
        webhooks = [
            {
                "name": f"{letter}{index}.example.com",
                "clientConfig": self.webhooks.at(f"{letter}{index}", handler),
                "rules": [CONFIGS],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            | changes
            for index, handler in enumerate(handlers)
        ]
        await self.api.create(row, {"metadata": {"name": letter}, "webhooks": webhooks})

    async def create(self, name: str = "x", resource: Resource = builtin.CONFIG_MAPS, **fields: Any) -> Obj:
        namespace = "default" if resource.namespaced else ""
        meta = {"name": name} | fields.pop("metadata", {})
        return (await self.api.create(resource, {"metadata": meta, **fields}, namespace)).obj()

    async def told(self, resource: Resource, obj: Obj, audit: RequestAudit | None = None) -> Result[Encoded]:
        """A create whose warnings can be seen, and what the audit log is told of it."""
        return await self.server.registry.create(replace(INTERNAL, audit=audit), resource, obj, "default")

    async def refusal(self, made: Awaitable[Any]) -> ApiError:
        with pytest.raises(ApiError) as caught:
            await made
        return caught.value

    async def define(self, crd: Obj) -> None:
        """Have a custom kind served."""
        await self.api.create(builtin.CUSTOM_RESOURCE_DEFINITIONS, crd)
        while self.server.registry.catalogue.stored(crd["metadata"]["name"]) is None:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0)


def within(
    steps: Callable[[World], Awaitable[None]],
    disabled: Iterable[str] = ("ServiceAccount",),
    configure: Callable[[Webhooks], AdmissionConfiguration] = lambda webhooks: UNCONFIGURED,
) -> None:
    """Run a test in real time, without these admission plugins."""

    async def run() -> None:
        server = Server(MemoryStore())
        async with Webhooks() as webhooks:
            await server.open(disabled, admission_configuration=configure(webhooks))
            running = asyncio.create_task(server.run())
            try:
                await steps(World(server, webhooks))
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
