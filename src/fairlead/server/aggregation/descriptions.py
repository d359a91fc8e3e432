"""What other API servers say that they serve, kept so that discovery waits for nobody.

Each is asked for all of discovery in one document, and if it knows no such document for that of its version. What was
said once stays, marked as stale, while the server says nothing.
Source: kube-aggregator, pkg/apiserver/handler_discovery.go; apiserver, pkg/endpoints/groupversion.go (1.36).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from hashlib import sha512
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from fairlead.api.meta import View, WrittenView
from fairlead.api.objects import Obj
from fairlead.client.calls import import_library
from fairlead.client.webhooks import ServiceError
from fairlead.golang.json import UNREADABLE
from fairlead.runtime.offload import offload
from fairlead.server.aggregation.backends import AGGREGATOR, Backends, identifying
from fairlead.server.aggregation.services import RemoteService
from fairlead.server.openapi import merging

#: How long a server may take for a document, and how large that may be.
_SECONDS: Final = 5.0
_MOST_BYTES: Final = 4 << 20
_MOST_SPECIFICATION_BYTES: Final = 8 << 20
#: Of one that has no tag for it, the tag is ours, and is not shown to it.
_OWN_TAG: Final = "ours-"
_LONGEST_TAG: Final = 1024
_MEDIA_TYPE: Final = "application/json"
_LIST: Final = "APIGroupDiscoveryList"
_AGGREGATED: Final = ",".join(
    f"{_MEDIA_TYPE};g=apidiscovery.k8s.io;v={version};as={_LIST}" for version in ("v2", "v2beta1")
)

_T = TypeVar("_T")

log = logging.getLogger(__name__)


class _Kind(View):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Subresource(WrittenView, kw_only=True):
    subresource: str
    response_kind: _Kind | None = None
    accepted_types: tuple[_Kind, ...] | None = None
    verbs: tuple[str, ...] | None


class _Resource(WrittenView, kw_only=True):
    resource: str
    response_kind: _Kind | None = None
    scope: str
    singular_resource: str
    verbs: tuple[str, ...] | None
    short_names: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None
    subresources: tuple[_Subresource, ...] | None = None


class _Version(View):
    version: str
    resources: tuple[_Resource, ...] | None = None


class _Meta(View):
    name: str = ""


class _Group(View):
    metadata: _Meta
    versions: tuple[_Version, ...] | None = None


class _Groups(View):
    items: tuple[_Group, ...] | None = None


class _Entry(View):
    """A resource as the older documents describe it."""

    name: str
    singular_name: str = ""
    namespaced: bool = False
    group: str = ""
    version: str = ""
    kind: str = ""
    verbs: tuple[str, ...] | None = None
    short_names: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None


class _Entries(View):
    resources: tuple[_Entry, ...] | None = None


class _Path(View):
    server_relative_url: str = msgspec.field(name="serverRelativeURL")


class _Paths(View):
    paths: dict[str, _Path] | None = None


class Description(msgspec.Struct, frozen=True):
    """What one says of its version."""

    #: As in the document of all groups.
    resources: tuple[Obj, ...] = ()
    is_stale: bool = True
    #: Where its OpenAPI v3 is, path and query; "": nowhere.
    schema_url: str = ""
    #: What is kept of its OpenAPI v2 (`openapi/merging.py`), and by which tag it knows what it said.
    specification: bytes = b""
    specification_tag: str = ""


class Descriptions:
    """What each says. A number counts the changes."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._kept: dict[str, tuple[RemoteService, Description]] = {}
        self.generation = 0

    def of(self, service: RemoteService) -> Description:
        found = self._kept.get(service.name)
        return found[1] if found is not None and _is_same(found[0], service) else Description()

    def forget(self, name: str) -> None:
        if self._kept.pop(name, None) is not None:
            self.generation += 1

    def suspect(self, service: RemoteService) -> None:
        """It says nothing for now."""
        self._keep(service, replace(self.of(service), is_stale=True))

    async def refresh(self, service: RemoteService) -> None:
        """Ask it."""
        try:
            resources = await self._resources(service)
            schema_url = await self._schema_url(service)
        except _Silent as error:
            log.info("discovery of %s: %s", service.name, error)
            self.suspect(service)
            return
        before = self.of(service)
        self._keep(service, replace(before, resources=resources, is_stale=False, schema_url=schema_url))
        try:
            kept, tag = await self._specification(service, before)
        except _Silent as error:
            log.info("OpenAPI v2 of %s: %s", service.name, error)
        else:
            self._keep(service, replace(self.of(service), specification=kept, specification_tag=tag))

    def _keep(self, service: RemoteService, description: Description) -> None:
        if self.of(service) != description:
            self.generation += 1
        self._kept[service.name] = service, description

    async def _resources(self, service: RemoteService) -> tuple[Obj, ...]:
        code, media_type, body = await self._get(service, "/apis", _AGGREGATED)
        if code == 200 and f"as={_LIST}" in media_type:
            groups = _decoded(body, _Groups).items or ()
            versions = (
                each for group in groups if group.metadata.name == service.group for each in group.versions or ()
            )
            found = next((each.resources for each in versions if each.version == service.version), None)
        else:
            code, _, body = await self._get(service, service.path, _MEDIA_TYPE)
            if code != 200:
                raise _Silent(f"{service.path} answers {code}")
            found = _converted(_decoded(body, _Entries).resources or ())
        return tuple(msgspec.to_builtins(resource) for resource in found or ())

    async def _schema_url(self, service: RemoteService) -> str:
        code, _, body = await self._get(service, "/openapi/v3", _MEDIA_TYPE)
        if code != 200:
            return ""
        own = (_decoded(body, _Paths).paths or {}).get(service.path.strip("/"))
        url = own.server_relative_url if own is not None else ""
        return url if url.startswith("/") and url.isascii() and url.isprintable() else ""

    async def _specification(self, service: RemoteService, before: Description) -> tuple[bytes, str]:
        """What is kept of its OpenAPI v2, and the tag; as before if it says nothing new."""
        known = before.specification_tag
        wish = () if known.startswith(_OWN_TAG) or not known else (("If-None-Match", known),)
        found = await self._opened(service, "/openapi/v2", _MEDIA_TYPE, wish, most=_MOST_SPECIFICATION_BYTES)
        if found.code == HTTPStatus.NOT_MODIFIED and wish:
            return before.specification, known
        if found.code == HTTPStatus.NOT_FOUND:
            return b"", ""
        if found.code != HTTPStatus.OK:
            raise _Silent(f"/openapi/v2 answers {found.code}")
        tag = found.tag or _OWN_TAG + await offload(lambda: sha512(found.body).hexdigest(), is_long=True)
        if tag == known:
            return before.specification, known
        try:
            kept = await offload(lambda: merging.kept_of(found.body, f"{service.path}/"), is_long=True)
        except ValueError as error:
            raise _Silent(str(error)) from None
        return kept, tag

    async def _get(self, service: RemoteService, path: str, accept: str) -> tuple[int, str, bytes]:
        """Code, media type and body of a document."""
        found = await self._opened(service, path, accept, most=_MOST_BYTES)
        return found.code, found.media_type, found.body

    async def _opened(
        self, service: RemoteService, path: str, accept: str, wishes: Iterable[tuple[str, str]] = (), *, most: int
    ) -> _Answer:
        await import_library()
        import aiohttp

        headers = [("Accept", accept), ("Accept-Encoding", "identity"), *wishes, *identifying(AGGREGATOR)]
        try:
            async with asyncio.timeout(_SECONDS):
                address = self._backends.address(service)
                async with self._backends.opened(service, address, "GET", path, headers) as response:
                    body = bytearray()
                    async for chunk in response.content.iter_any():
                        body += chunk
                        if len(body) > most:
                            raise _Silent(f"the answer has more than {most} bytes")
                    media_type, tag = (response.headers.get(name, "") for name in ("Content-Type", "ETag"))
                    return _Answer(response.status, media_type, tag[:_LONGEST_TAG], bytes(body))
        except (aiohttp.ClientError, ServiceError, TimeoutError, ValueError) as error:
            raise _Silent(str(error) or type(error).__name__) from None


class _Answer(msgspec.Struct, frozen=True):
    code: int
    media_type: str
    tag: str
    body: bytes


class _Silent(Exception):
    """It says nothing that makes sense."""


def _is_same(left: RemoteService, right: RemoteService) -> bool:
    """Whether both lead to the same server."""
    return (left.namespace, left.service, left.port) == (right.namespace, right.service, right.port)


def _decoded(body: bytes, type_: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=type_)
    except UNREADABLE as error:
        raise _Silent(str(error)) from None


def _converted(entries: tuple[_Entry, ...]) -> tuple[_Resource, ...]:
    """The older form in the newer one."""
    subresources: dict[str, list[_Subresource]] = {}
    for entry in entries:
        name, _, subresource = entry.name.partition("/")
        if subresource:
            made = _Subresource(subresource=subresource, response_kind=_kind_of(entry), verbs=entry.verbs)
            subresources.setdefault(name, []).append(made)
    return tuple(
        _Resource(
            resource=entry.name,
            response_kind=_kind_of(entry),
            scope="Namespaced" if entry.namespaced else "Cluster",
            singular_resource=entry.singular_name,
            verbs=entry.verbs,
            short_names=entry.short_names,
            categories=entry.categories,
            subresources=tuple(subresources.get(entry.name, ())) or None,
        )
        for entry in entries
        if "/" not in entry.name
    )


def _kind_of(entry: _Entry) -> _Kind:
    return _Kind(group=entry.group, version=entry.version, kind=entry.kind)
