"""What the server says about itself: discovery, OpenAPI, its version, its health."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from hashlib import sha512
from http import HTTPStatus
from typing import Any, TypeVar

from fairlead.api.encoded import encode
from fairlead.api.errors import MethodNotSupported
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.runtime.exposition import MEDIA_TYPE, exposition
from fairlead.runtime.offload import offload
from fairlead.server import openapi
from fairlead.server.aggregation.aggregator import Aggregator
from fairlead.server.http import discovery
from fairlead.server.http.answers import Answer, indented
from fairlead.server.http.discovery import RemoteVersion
from fairlead.server.http.negotiate import JSON, MediaTypeOptions, wanted_types
from fairlead.server.http.request import Request
from fairlead.server.openapi.documents import Kinds
from fairlead.server.registry.registry import Registry

T = TypeVar("T")


class Documents:
    """Answers requests for everything that is not a resource. Documents are made when first asked for."""

    def __init__(self, registry: Registry, address: str, aggregator: Aggregator | None = None) -> None:
        self._aggregator = aggregator
        self._catalogue = registry.catalogue
        self._accounts = registry.account_tokens
        self._address = address
        self._metrics = registry.metrics
        self._made: dict[tuple[str, ...], bytes] = {}
        self._generation: Any = None
        self._making = asyncio.Lock()

    async def answer(self, request: Request) -> Answer:
        """The document of a path, which can only be read."""
        parts = tuple(part for part in request.path.split("/") if part)
        if parts[:1] == ("openapi",):  # some take a tenth of a second to be made, and longer with many custom kinds
            async with self._making if parts[1:] == ("v2",) else nullcontext():  # once, however many ask for it
                found = await asyncio.to_thread(_openapi, self._kinds(), request, parts[1:])
        else:
            found = await self._document(request, parts)
        if parts and found.code == HTTPStatus.OK and request.method not in ("GET", "HEAD"):
            raise MethodNotSupported(
                "the server does not allow this method on the requested resource", shows_details=True
            )
        return found

    async def _document(self, request: Request, parts: tuple[str, ...]) -> Answer:
        match parts:
            case ():  # upstream, too, writes this one and the version for people
                return Answer(200, indented(encode({"paths": self._paths()})))
            case ("version",):
                return Answer(200, indented(encode(discovery.version())))
            case ("api" | "apis",):
                return await self._roots(request, is_core=parts[0] == "api")
            case ("api", version):
                return self._of(request, lambda: discovery.resource_list(self._rows(), "", version))
            case ("apis", group):
                return self._of(request, lambda: discovery.group(self._rows(), group, self._remote()))
            case ("apis", group, version):
                return self._of(request, lambda: discovery.resource_list(self._rows(), group, version))
            case (".well-known", "openid-configuration"):
                return Answer(200, encode(self._accounts.discovery(self._address)))
            case ("openid", "v1", "jwks"):
                return Answer(200, encode(self._accounts.key_set()), "application/jwk-set+json")
            case ("metrics",):
                return Answer(200, await exposition(self._metrics.served), MEDIA_TYPE)
            case ("metrics", "slis"):
                return Answer(200, await exposition(self._metrics.health.served), MEDIA_TYPE)
        return Answer.not_found()

    async def _roots(self, request: Request, *, is_core: bool) -> Answer:
        if (form := request.aggregated_form()) is not None:
            return await self._aggregated(request, form, is_core=is_core)
        make = partial(discovery.core_versions, self._address) if is_core else self._of_rows(discovery.group_list)
        return self._of(request, make)

    async def _aggregated(self, request: Request, form: MediaTypeOptions, *, is_core: bool) -> Answer:
        """All of discovery in one document. Clients keep it, and ask whether theirs is still the present one."""
        key = ("aggregated", str(is_core))
        document = self._cached(key, self._of_rows(partial(discovery.aggregated, core=is_core)))
        assert document is not None
        tag = self._kept((*key, "tag"), lambda: b'"%b"' % sha512(document).hexdigest().upper().encode())
        making = partial(self._kept, (tag.decode(), repr(form)), lambda: Answer.of_raw(document, form).body)
        body = await offload(making, is_long=form.media_type != JSON)
        headers = [(b"etag", tag), (b"vary", b"Accept"), (b"cache-control", b"public")]
        media_type = f"{form.media_type};g=apidiscovery.k8s.io;v={form.version};as={form.transform}"
        return _tagged(request, Answer(HTTPStatus.OK, body, media_type, headers), tag)

    def _of_rows(self, make: Callable[[list[Resource], list[RemoteVersion]], T]) -> Callable[[], T]:
        return lambda: make(self._rows(), self._remote())

    def _rows(self) -> list[Resource]:
        """What this server answers for itself."""
        others = {(other.group, other.version) for other in self._remote()}
        return [row for row in self._catalogue.rows() if (row.group, row.version) not in others]

    def _remote(self) -> list[RemoteVersion]:
        """What others answer for."""
        return [
            RemoteVersion(
                service.group,
                service.version,
                (service.group_priority, service.version_priority),
                description.resources,
                description.is_stale,
            )
            for service, description in (self._aggregator.remote_versions() if self._aggregator else ())
        ]

    def _kinds(self) -> Kinds:
        """What OpenAPI describes, and where it is described by others."""
        described = self._aggregator.remote_versions() if self._aggregator else []
        elsewhere = {service.path.strip("/"): found.schema_url for service, found in described if found.schema_url}
        described.sort(key=lambda each: (-each[0].group_priority, -each[0].version_priority, each[0].name))
        others = tuple(found.specification for _, found in described if found.specification)
        return Kinds.of(self._catalogue, self._rows(), elsewhere, others)

    def _of(self, request: Request, make: Callable[[], Obj | None]) -> Answer:
        body = self._cached((request.path,), make)
        if body is None:
            return Answer.not_found()
        return Answer.of_raw(body, request.plain_form())

    def _cached(self, key: tuple[str, ...], make: Callable[[], Obj | None]) -> bytes | None:
        generation = self._catalogue.generation, self._aggregator and self._aggregator.generation
        if self._generation != generation:
            self._made.clear()
            self._generation = generation
        if key not in self._made:
            document = make()
            if document is None:
                return None
            self._made[key] = encode(document)
        return self._made[key]

    def _kept(self, key: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
        """What is made of such a document, as long as that is kept."""
        if (found := self._made.get(key)) is None:
            found = self._made[key] = make()
        return found

    def _paths(self) -> list[str]:
        rows, remote = self._rows(), self._remote()
        roots = {row.root for row in rows} | {f"/apis/{other.group}/{other.version}" for other in remote}
        groups = {f"/apis/{name}" for name in {row.group for row in rows} | {other.group for other in remote} if name}
        fixed = {"/api", "/apis", "/healthz", "/livez", "/readyz", "/version", "/openapi/v2", "/openapi/v3"}
        fixed |= {"/metrics", "/metrics/slis", "/.well-known/openid-configuration", "/openid/v1/jwks"}
        return sorted(roots | groups | fixed)


def _openapi(kinds: Kinds, request: Request, parts: tuple[str, ...]) -> Answer:
    found = openapi.document(kinds, parts, wanted_types(request.accept))
    if found is None:
        return Answer.not_found()
    body, media_type = found
    if parts != ("v2",):
        return Answer(200, body, media_type)
    tag = openapi.v2_tag(kinds)
    return _tagged(request, Answer(200, body, media_type, [(b"etag", tag), (b"vary", b"Accept")]), tag)


def _tagged(request: Request, answer: Answer, tag: bytes) -> Answer:
    """The answer, unless the client has it already: then with the length of what need not be sent."""
    known = request.headers.get(b"if-none-match", b"")
    if tag not in [each.strip().removeprefix(b"W/") for each in known.split(b",")]:
        return answer
    return Answer(HTTPStatus.NOT_MODIFIED, b"", answer.media_type, answer.headers, rest_length=len(answer.body))
