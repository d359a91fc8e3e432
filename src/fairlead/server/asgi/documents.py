"""What the server says about itself: discovery, OpenAPI, its version, its health."""

from __future__ import annotations

from collections.abc import Callable

from fairlead.api.encoded import encode
from fairlead.api.errors import MethodNotSupported
from fairlead.api.objects import Obj
from fairlead.server import discovery, openapi
from fairlead.server.asgi.answers import Answer
from fairlead.server.asgi.negotiate import wants_aggregated_discovery
from fairlead.server.asgi.request import Request
from fairlead.server.served import Catalogue

_HEALTH = ("healthz", "livez", "readyz")


class Documents:
    """Answers requests for everything that is not a resource. Documents are made when first asked for."""

    def __init__(self, catalogue: Catalogue, address: str) -> None:
        self._catalogue = catalogue
        self._address = address
        self._made: dict[tuple[str, ...], bytes] = {}
        self._generation = -1

    def answer(self, request: Request) -> Answer:
        parts = tuple(part for part in request.path.split("/") if part)
        if not parts:
            return self._of(request, lambda: {"paths": self._paths()})
        if request.method not in ("GET", "HEAD"):
            raise MethodNotSupported(
                "the server does not allow this method on the requested resource", shows_details=True
            )
        match parts:
            case ("api" | "apis",):
                return self._roots(request, is_core=parts[0] == "api")
            case ("api", version):
                return self._of(request, lambda: discovery.resource_list(self._catalogue.rows(), "", version))
            case ("apis", group):
                return self._of(request, lambda: discovery.group(self._catalogue.rows(), group))
            case ("apis", group, version):
                return self._of(request, lambda: discovery.resource_list(self._catalogue.rows(), group, version))
            case ("version",):
                return self._of(request, discovery.version)
            case ("openapi", *_):
                return self._openapi(request, parts[1:])
            case (check, *_) if check in _HEALTH:
                return Answer.of_text("ok")
        return Answer.of_text("404 page not found", 404)

    def _roots(self, request: Request, *, is_core: bool) -> Answer:
        wanted = wants_aggregated_discovery(request.accept)
        rows = self._catalogue.rows()
        if not wanted:
            make = discovery.core_versions if is_core else None
            return self._of(request, lambda: make(self._address) if make else discovery.group_list(rows))
        body = self._cached(
            ("aggregated", wanted, str(is_core)), lambda: discovery.aggregated(rows, core=is_core, version=wanted)
        )
        assert body is not None
        return Answer(200, body, f"application/json;g=apidiscovery.k8s.io;v={wanted};as=APIGroupDiscoveryList")

    def _openapi(self, request: Request, parts: tuple[str, ...]) -> Answer:
        found = openapi.document(self._catalogue, parts, request.accept)
        if found is None:
            return Answer.of_text("404 page not found", 404)
        body, media_type = found
        return Answer(200, body, media_type)

    def _of(self, request: Request, make: Callable[[], Obj | None]) -> Answer:
        body = self._cached((request.path,), make)
        if body is None:
            return Answer.of_text("404 page not found", 404)
        return Answer.of_raw(body, request.form)

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
        fixed = {"/api", "/apis", "/healthz", "/livez", "/readyz", "/version", "/openapi/v2", "/openapi/v3"}
        return sorted(roots | groups | fixed)
