"""The verbs on resources, as HTTP: which verb a request means, and how its answer is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.errors import ApiError, BadRequest, MethodNotSupported, NotFound, UnsupportedMediaType
from fairlead.api.objects import Obj
from fairlead.api.resources import Resource
from fairlead.api.verbs import DeleteOptions, ListQuery, PatchType
from fairlead.server.codec.body_types import target_of
from fairlead.server.codec.decode import decode, decode_options
from fairlead.server.codec.versions import Version
from fairlead.server.http import containers
from fairlead.server.http.answers import Answer
from fairlead.server.http.paths import Target
from fairlead.server.http.request import Request
from fairlead.server.http.streams import Streams
from fairlead.server.http.transforms import Presenter
from fairlead.server.registry.patching import decode_patch
from fairlead.server.registry.registry import Registry
from fairlead.server.storage import metadata_rules as writing
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.deletion import options_of, orphan_of
from fairlead.server.storage.listing import check_list, list_revision, parse_revision, wait_for

Send = Callable[[Any], Awaitable[None]]
_UNSUPPORTED_PATCH = UnsupportedMediaType("415: Unsupported Media Type", shows_details=True)
_CUSTOM_PATCHES = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
)
#: What a POST to a subresource answers without keeping it.
_NEVER_STORED = frozenset({"binding", "eviction", "token"})
_NOT_ALLOWED = "the server does not allow this method on the requested resource"

#: HTTP method -> (verb on an object or subresource, verb on a collection).
_VERBS = {
    "GET": ("get", "list"),
    "POST": ("", "create"),
    "PUT": ("update", ""),
    "PATCH": ("patch", ""),
    "DELETE": ("delete", "deletecollection"),
}


class Resources:
    """Answers requests for resource paths."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.streams = Streams()

    async def answer(self, request: Request, target: Target, send: Send) -> Answer | None:
        """The answer, or None where a watch has been streamed already."""
        found = self._registry.catalogue.find(target.group, target.version, target.plural)
        if found is None or not _is_place(request, target, found[1].resource):
            return self._no_such_path(target)
        served, version = found
        if containers.is_simulated(target):
            return await containers.answer(self._registry, request, target)
        if version.deprecation:
            request.caller.warnings.append(version.deprecation)
        verb = _verb(request, target, version.resource)
        if verb in ("list", "watch") and (request.is_watch or target.is_watch):
            await self.streams.run(self._registry, served, version, target, request, send)
            return None
        handler: Callable[[Request, Target, Served, Version], Awaitable[Answer]] = getattr(self, f"_{verb}")
        return await handler(request, target, served, version)

    def _no_such_path(self, target: Target) -> Answer:
        """Upstream has a router for each built-in group; custom groups fall through to the end of the chain."""
        rows = self._registry.catalogue.rows()
        if any(row.definition and (row.group, row.version) == (target.group, target.version) for row in rows):
            raise NotFound("the server could not find the requested resource", shows_details=True)
        return Answer.not_found()

    async def _get(self, request: Request, target: Target, served: Served, version: Version) -> Answer:
        show = Presenter(served, version, request)
        if not target.subresource and request.flag("export"):
            raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
        await wait_for(self._registry.store, parse_revision(request.query.get("resourceVersion", "")))
        row = version.resource
        found = await self._registry.get(row, target.name, target.namespace, target.subresource)
        return show.one(found)

    async def _list(self, request: Request, target: Target, served: Served, version: Version) -> Answer:
        show, query = Presenter(served, version, request), _list_query(request)
        if not query.continue_token:
            await wait_for(self._registry.store, list_revision(query))
        listing = await self._registry.list(version.resource, target.namespace, query)
        return show.page(listing)

    async def _create(self, request: Request, target: Target, served: Served, version: Version) -> Answer:
        row = version.resource
        has_rows = "list" in row.verbs and target.subresource not in _NEVER_STORED
        show = Presenter(served, version, request, has_rows=has_rows)
        options = request.write_options("CreateOptions")
        obj = self._decoded(request, version, target.subresource)
        made = await self._registry.create(
            row,
            obj,
            target.namespace,
            name=target.name,
            subresource=target.subresource,
            options=options,
            caller=request.caller,
        )
        return show.one(made, 201)

    async def _update(self, request: Request, target: Target, served: Served, version: Version) -> Answer:
        _check_named(target)
        show, row = Presenter(served, version, request), version.resource
        options = request.write_options("UpdateOptions")
        obj = self._decoded(request, version, target.subresource)
        writing.check_identity(obj, row, target.name, target.namespace)
        stored = await self._registry.update(
            row, obj, subresource=target.subresource, options=options, caller=request.caller
        )
        return show.one(stored, 201 if request.caller.created else 200)

    async def _patch(self, request: Request, target: Target, served: Served, version: Version) -> Answer:
        try:
            type_ = PatchType(request.content_type)
        except ValueError:
            raise _UNSUPPORTED_PATCH if served.crd is None else UnsupportedMediaType(_CUSTOM_PATCHES) from None
        if type_ is PatchType.STRATEGIC and served.crd is not None:
            raise UnsupportedMediaType(_CUSTOM_PATCHES)
        _check_named(target)
        show = Presenter(served, version, request)
        options = request.write_options("PatchOptions")
        try:
            patch = decode_patch(request.body, type_, request.caller, options.field_validation)
        except ApiError:
            # Upstream decodes the patch when it has the object; only an apply needs none.
            if type_ is not PatchType.APPLY or target.subresource:
                await self._registry.get(version.resource, target.name, target.namespace)
            raise
        patched = await self._registry.patch(
            version.resource,
            target.name,
            target.namespace,
            patch,
            type_,
            subresource=target.subresource,
            options=options,
            caller=request.caller,
        )
        return show.one(patched, 201 if request.caller.created else 200)

    async def _delete(self, request: Request, target: Target, served: Served, version: Version) -> Answer:
        options, orphan = _delete_options(request)
        show = Presenter(served, version, request)
        gone = await self._registry.delete(
            version.resource, target.name, target.namespace, options, caller=request.caller
        )
        return show.one(gone, 202 if orphan is False and request.caller.lingers else 200)

    async def _deletecollection(self, request: Request, target: Target, served: Served, version: Version) -> Answer:
        show, query = Presenter(served, version, request), _list_query(request)
        options, _ = _delete_options(request)
        listing = await self._registry.delete_collection(
            version.resource, target.namespace, query, options, caller=request.caller
        )
        return show.page(listing)

    @staticmethod
    def _decoded(request: Request, version: Version, subresource: str) -> Obj:
        obj, strict = decode(request.body, request.full_content_type, target_of(version.resource, subresource))
        request.caller.strict_errors.extend(strict)
        return obj


def _is_place(request: Request, target: Target, row: Resource) -> bool:
    """Whether there is such a path: a namespaced kind can be listed across namespaces, and nothing else."""
    if not row.namespaced:
        return not target.namespace
    return bool(target.namespace) or (not target.name and (bool(row.definition) or request.method == "GET"))


def _check_named(target: Target) -> None:
    """Custom resources have no router that would know that one object is meant (see `_verb`)."""
    if not target.name:
        raise BadRequest("name must be provided")


def _verb(request: Request, target: Target, row: Resource) -> str:
    """The verb that a request means; `MethodNotSupported` if the kind does not know it."""
    on_object, on_collection = _VERBS.get(request.method, ("", ""))
    verb = on_object if target.name else on_collection
    verbs = row.verbs
    if not (verb or row.definition):
        verb = on_object or on_collection  # of an object without a name; or a creation, where a name means nothing
    if target.subresource:
        sub = row.subresources.get(target.subresource)
        if sub is None and not row.definition:
            raise NotFound.of(row.plural, target.name, row.group)
        if sub is None:
            raise NotFound("the server could not find the requested resource", shows_details=True)
        verbs = sub.verbs
        verb = "create" if request.method == "POST" else verb
    is_everywhere = row.namespaced and not target.namespace
    if verb not in verbs or (is_everywhere and verb != "list"):
        if target.subresource and not row.definition:
            text = f'{verb} is not supported on resources of kind "{row.qualified}"'
            raise MethodNotSupported(text, group=row.group, kind=row.plural)
        raise MethodNotSupported(_NOT_ALLOWED, shows_details=True)
    if target.is_watch and verb == "get":
        return "watch"
    return verb


def _delete_options(request: Request) -> tuple[DeleteOptions, bool | None]:
    """The options, and `orphanDependents` as it was given. The query counts only where there is no body."""
    body = decode_options(request.body, request.full_content_type)
    query = {} if request.body else request.query
    return options_of(body, query), orphan_of(body, query)


def _list_query(request: Request) -> ListQuery:
    """What is to be listed; contradictory options are refused before anything else is looked at."""
    query = request.list_query()
    check_list(query, has_initial_events="sendInitialEvents" in request.query)
    return query
