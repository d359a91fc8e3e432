"""A registry on the loopback, with the logins that registries ask for and the faults that they have."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.agent.images.archives import Blobs

USER, PASSWORD, TOKEN = "me", "secret", "a.token-of_it"


@dataclass
class LocalRegistry(Blobs):
    """What it serves, how it is entered, and what it was asked."""

    login: str = ""  # "", basic or bearer
    is_token_free: bool = False  # whether anybody gets a token
    breaks: int = 0  # so many answers with blobs end too early
    knows_ranges: bool = True
    manifests: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)
    address: str = ""
    large_blob_asked: asyncio.Event = field(default_factory=asyncio.Event)

    def tag(self, name: str, entry: dict[str, object]) -> None:
        self.manifests[name] = str(entry["digest"])

    @asynccontextmanager
    async def served(self) -> AsyncIterator[LocalRegistry]:
        app = web.Application()
        app.router.add_get("/v2/", self._ping)
        app.router.add_get("/v2/{name:.+}/{kind:manifests|blobs}/{object}", self._serve)
        app.router.add_get("/token", self._token)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def _knows(self, request: web.Request) -> bool:
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        return request.headers.get("Authorization") == f"Basic {basic}"

    async def _token(self, request: web.Request) -> web.Response:
        self.scopes.append(request.query.get("scope", ""))
        if not (self.is_token_free or self._knows(request)):
            return web.Response(status=401)
        return web.json_response({"token": TOKEN})

    async def _ping(self, request: web.Request) -> web.StreamResponse:
        return self._refusal(request, "") or web.Response()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        name, kind, wanted = (request.match_info[key] for key in ("name", "kind", "object"))
        self.asked.append(f"{kind}/{wanted}")
        if (refusal := self._refusal(request, name)) is not None:
            return refusal
        digest = self.manifests.get(wanted, wanted) if kind == "manifests" else wanted
        data = self.blobs.get(digest)
        if data is None:
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN"}]}, status=404)
        return await self._answer(request, kind, digest, data)

    def _refusal(self, request: web.Request, name: str) -> web.Response | None:
        if self.login == "basic" and not self._knows(request):
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="here"'})
        if self.login == "bearer" and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            place = f'realm="http://{self.address}/token",service="here",scope="repository:{name}:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": f"Bearer {place}"})
        return None

    async def _answer(self, request: web.Request, kind: str, digest: str, data: bytes) -> web.StreamResponse:
        start, status = 0, 200
        if (given := request.headers.get("Range")) is not None:
            self.ranges.append(given)
            if self.knows_ranges:
                start, status = int(given.removeprefix("bytes=").rstrip("-")), 206
        if kind == "blobs" and len(data) >= 1000:
            self.large_blob_asked.set()
        headers = {}
        if kind == "manifests":
            headers = {"Docker-Content-Digest": digest, "Content-Type": _media_type(data)}
        if kind == "manifests" or not self.breaks or len(data) < 1000:
            return web.Response(body=data[start:], status=status, headers=headers)
        self.breaks -= 1
        response = web.StreamResponse(status=status, headers={"Content-Length": str(len(data) - start)})
        await response.prepare(request)
        await response.write(data[start : start + len(data) // 2])
        assert request.transport is not None
        request.transport.close()
        return response


def _media_type(manifest: bytes) -> str:
    """As it says itself, if it is one at all."""
    try:
        return str(json.loads(manifest)["mediaType"])
    except (ValueError, KeyError, TypeError):
        return "application/json"
