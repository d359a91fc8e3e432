"""What the server says about itself: discovery, OpenAPI, its version, its health."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from fairlead.api.encoded import encode
from fairlead.api.errors import MethodNotSupported
from fairlead.api.objects import Obj
from fairlead.server import openapi
from fairlead.server.http import discovery
from fairlead.server.http.answers import Answer, indented
from fairlead.server.http.negotiate import wanted_types, wants_aggregated_discovery
from fairlead.server.http.request import Request
from fairlead.server.openapi.documents import Kinds
from fairlead.server.registry.registry import Registry


class Documents:
    """Answers requests for everything that is not a resource. Documents are made when first asked for."""

    def __init__(self, registry: Registry, address: str) -> None:
        self._catalogue = registry.catalogue
        self._accounts = registry.account_tokens
        self._address = address
        self._made: dict[tuple[str, ...], bytes] = {}
        self._generation = -1

    async def answer(self, request: Request) -> Answer:
        """The document of a path, which can only be read."""
        parts = tuple(part for part in request.path.split("/") if part)
        if parts[:1] == ("openapi",):  # some take a tenth of a second to be made, and longer with many custom kinds
            found = await asyncio.to_thread(_openapi, Kinds.of(self._catalogue), request, parts[1:])
        else:
            found = self._document(request, parts)
        if parts and found.code == HTTPStatus.OK and request.method not in ("GET", "HEAD"):
            raise MethodNotSupported(
                "the server does not allow this method on the requested resource", shows_details=True
            )
        return found

    def _document(self, request: Request, parts: tuple[str, ...]) -> Answer:
        match parts:
            case ():  # upstream, too, writes this one and the version for people
                return Answer(200, indented(encode({"paths": self._paths()})))
            case ("version",):
                return Answer(200, indented(encode(discovery.version())))
            case ("api" | "apis",):
                return self._roots(request, is_core=parts[0] == "api")
            case ("api", version):
                return self._of(request, lambda: discovery.resource_list(self._catalogue.rows(), "", version))
            case ("apis", group):
                return self._of(request, lambda: discovery.group(self._catalogue.rows(), group))
            case ("apis", group, version):
                return self._of(request, lambda: discovery.resource_list(self._catalogue.rows(), group, version))
            case (".well-known", "openid-configuration"):
                return Answer(200, encode(self._accounts.discovery()))
            case ("openid", "v1", "jwks"):
                return Answer(200, encode(self._accounts.key_set()), "application/jwk-set+json")
            case ("metrics",):
                from fairlead.runtime import metrics  # only here: its library is slow to import

                return Answer(200, metrics.exposition(), metrics.MEDIA_TYPE)
        return Answer.not_found()

    def _roots(self, request: Request, *, is_core: bool) -> Answer:
        version = wants_aggregated_discovery(request.accept)
        rows = self._catalogue.rows()
        if not version:
            make = discovery.core_versions if is_core else None
            return self._of(request, lambda: make(self._address) if make else discovery.group_list(rows))
        body = self._cached(
            ("aggregated", version, str(is_core)), lambda: discovery.aggregated(rows, core=is_core, version=version)
        )
        assert body is not None
        body = indented(body) if request.is_pretty else body + b"\n"
        return Answer(200, body, f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList")

    def _of(self, request: Request, make: Callable[[], Obj | None]) -> Answer:
        body = self._cached((request.path,), make)
        if body is None:
            return Answer.not_found()
        return Answer.of_raw(body, request.form())

    def _cached(self, key: tuple[str, ...], make: Callable[[], Obj | None]) -> bytes | None:
        if self._generation != self._catalogue.generation:
            self._made.clear()
            self._generation = self._catalogue.generation
        if key not in self._made:
            document = make()
            if document is None:
                return None
            self._made[key] = encode(document)
        return self._made[key]

    def _paths(self) -> list[str]:
        roots = {row.root for row in self._catalogue.rows()}
        groups = {f"/apis/{row.group}" for row in self._catalogue.rows() if row.group}
        fixed = {"/api", "/apis", "/healthz", "/livez", "/readyz", "/metrics", "/version", "/openapi/v2", "/openapi/v3"}
        fixed |= {"/.well-known/openid-configuration", "/openid/v1/jwks"}
        return sorted(roots | groups | fixed)


def _openapi(kinds: Kinds, request: Request, parts: tuple[str, ...]) -> Answer:
    found = openapi.document(kinds, parts, wanted_types(request.accept))
    if found is None:
        return Answer.not_found()
    body, media_type = found
    return Answer(200, body, media_type)
