"""The verbs on resources, as HTTP: which verb a request means, and how its answer is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus

from fairlead.api.encoded import copied
from fairlead.api.errors import ApiError, BadRequest, MethodNotSupported, NotFound, UnsupportedMediaType
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.verbs import DeleteOptions, ListQuery, PatchType
from fairlead.golang.json import parse
from fairlead.runtime.offload import offload
from fairlead.server.aggregation.backends import Backends
from fairlead.server.codec.body_types import BodyType, body_type_of
from fairlead.server.codec.decode import decode, decode_options
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.context import RequestContext, takes_long
from fairlead.server.http import connecting, containers, measuring, node_proxy, pod_proxy
from fairlead.server.http.answers import Answer
from fairlead.server.http.forwarding import Forwarder
from fairlead.server.http.request import Request
from fairlead.server.http.request_info import RequestInfo
from fairlead.server.http.streams import Streams
from fairlead.server.http.transforms import Presenter
from fairlead.server.http.tunnel import Tunnels
from fairlead.server.registry.patching import CUSTOM_PATCHES, decode_patch
from fairlead.server.registry.registry import Registry
from fairlead.server.storage import metadata_rules
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.deletion import options_of, orphan_of
from fairlead.server.storage.listing import check_list, parse_revision, wait_for

_UNSUPPORTED_PATCH = UnsupportedMediaType("415: Unsupported Media Type", shows_details=True)
#: What a POST to a subresource answers without keeping it.
_NEVER_STORED = frozenset({"binding", "eviction", "token"})
_NOT_ALLOWED = "the server does not allow this method on the requested resource"

#: Verbs that may take long where there are many objects.
_LISTING = ("list", "watch", "deletecollection")
#: Methods that mean one object, and the one that never does.
_ON_OBJECTS = frozenset({"PUT", "PATCH"})
_ON_COLLECTIONS = frozenset({"POST"})


class ResourceHandlers:
    """Answers requests for resource paths."""

    def __init__(
        self, registry: Registry, forwarder: Forwarder, tunnels: Tunnels, backends: Backends | None = None
    ) -> None:
        self._registry, self._tunnels = registry, tunnels
        self._forwarder, self._backends = forwarder, backends
        self.streams = Streams(registry.metrics.watches)

    def count(self, request: Request) -> int:
        """About how many objects the request will list."""
        asked, info = request.asked, request.info
        if asked is None or asked.verb not in _LISTING or asked.name:
            return 0
        found = self._registry.catalogue.find(info.group, info.version, info.resource)
        if found is None or (asked.verb == "watch" and not request.watch_query().send_initial_events):
            return 0
        count = found[0].cache.count
        limit = request.number("limit") or 0
        return min(count, limit) if limit > 0 else count

    def count_refused(self, request: Request, code: int) -> None:
        """The request is not carried out."""
        info = request.info
        if (found := self._registry.catalogue.find(info.group, info.version, info.resource)) is not None:
            measuring.count_refused(self._registry.metrics.requests, request, found[1].resource, code)

    async def answer(self, request: Request) -> Answer | None:
        """The answer, or None where a watch has been streamed already."""
        info = request.info
        found = self._registry.catalogue.find(info.group, info.version, info.resource)
        if found is None or not _is_place(request, found[1].resource):
            return self._no_such_path(info)
        served, version = found
        measuring.count_resource(self._registry.metrics.requests, request, version.resource)
        await connecting.admit(self._registry, request, version.resource)
        if node_proxy.is_proxied(info):
            return await node_proxy.answer(self._registry, self._forwarder, self._tunnels, request)
        if pod_proxy.is_proxied(info):
            return await pod_proxy.answer(self._registry, self._backends, self._forwarder, self._tunnels, request)
        if containers.is_of_container(info):
            return await containers.answer(self._registry, self._forwarder, self._tunnels, request)
        if version.deprecation:
            request.warnings.append(version.deprecation)
            if request.audit is not None:
                request.audit.annotate("k8s.io/deprecated", "true")
        verb = _verb(request, version.resource)
        if verb == "watch" or (verb == "list" and request.is_watch):
            _check_watched(version.resource)
            await self.streams.run(self._registry, served, version, request)
            return None
        handler: Callable[[Request, Served, ServedVersion], Awaitable[Answer]] = getattr(self, f"_{verb}")
        return await handler(request, served, version)

    def _no_such_path(self, info: RequestInfo) -> Answer:
        """Upstream has a router for each built-in group; custom groups fall through to the end of the chain."""
        rows = self._registry.catalogue.rows()
        if any(row.definition and (row.group, row.version) == (info.group, info.version) for row in rows):
            raise NotFound("the server could not find the requested resource", shows_details=True)
        return Answer.not_found()

    async def _get(self, request: Request, served: Served, version: ServedVersion) -> Answer:
        info = request.info
        show = Presenter(served, version, request)
        if not info.subresource and request.flag("export"):
            raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
        await wait_for(self._registry.store, parse_revision(request.query.get("resourceVersion", "")))
        row = version.resource
        found = await self._registry.get(row, info.name, info.namespace, info.subresource)
        return await show.single(found)

    async def _list(self, request: Request, served: Served, version: ServedVersion) -> Answer:
        info = request.info
        show, query = Presenter(served, version, request), _list_query(request)
        listing = await self._registry.list(version.resource, info.namespace, query)
        return await show.page(listing)

    async def _create(self, request: Request, served: Served, version: ServedVersion) -> Answer:
        info, row = request.info, version.resource
        has_rows = "list" in row.verbs and info.subresource not in _NEVER_STORED
        show = Presenter(served, version, request, has_rows=has_rows)
        options = request.write_options("CreateOptions")
        obj, context = await _decoded(request, served, version)
        made = await self._registry.create(
            context, row, obj, info.namespace, name=info.name, subresource=info.subresource, options=options
        )
        request.warnings.extend(made.warnings)
        return await show.single(made.object, made.code)

    async def _update(self, request: Request, served: Served, version: ServedVersion) -> Answer:
        info = request.info
        _check_named(info)
        show, row = Presenter(served, version, request), version.resource
        options = request.write_options("UpdateOptions")
        obj, context = await _decoded(request, served, version)
        metadata_rules.check_identity(metadata(obj), row, info.name, info.namespace)
        stored = await self._registry.update(context, row, obj, subresource=info.subresource, options=options)
        request.warnings.extend(stored.warnings)
        return await show.single(stored.object, stored.code)

    async def _patch(self, request: Request, served: Served, version: ServedVersion) -> Answer:
        info, type_ = request.info, _patch_type(request, served)
        _check_named(info)
        show = Presenter(served, version, request)
        options = request.write_options("PatchOptions")
        is_long = _is_long_to_read(request, version)
        try:
            read = partial(decode_patch, request.body, type_, options.field_validation)
            patch = await offload(read, is_long=is_long)
        except ApiError:
            # Upstream decodes the patch when it has the object; only an apply needs none.
            if type_ is not PatchType.APPLY or info.subresource:
                await self._registry.get(version.resource, info.name, info.namespace)
            raise
        if request.audit is not None and request.audit.tells_request:
            sent = (
                await offload(partial(parse, request.body), is_long=is_long) if type_ is PatchType.JSON else patch.body
            )
            request.audit.receives(sent)
        patched = await self._registry.patch(
            request.context(patch.strict_errors, patch.repeated_keys),
            version.resource,
            info.name,
            info.namespace,
            patch.body,
            type_,
            subresource=info.subresource,
            options=options,
        )
        request.warnings.extend(patched.warnings)
        return await show.single(patched.object, patched.code)

    async def _delete(self, request: Request, served: Served, version: ServedVersion) -> Answer:
        info = request.info
        options, orphan = await _delete_options(request, version)
        show = Presenter(served, version, request)
        gone = await self._registry.delete(request.context(), version.resource, info.name, info.namespace, options)
        request.warnings.extend(gone.warnings)
        return await show.single(gone.object, gone.code if orphan is False else HTTPStatus.OK)

    async def _deletecollection(self, request: Request, served: Served, version: ServedVersion) -> Answer:
        show, query = Presenter(served, version, request), _list_query(request)
        options, _ = await _delete_options(request, version)
        row, namespace = version.resource, request.info.namespace
        gone = await self._registry.delete_collection(request.context(), row, namespace, query, options)
        request.warnings.extend(gone.warnings)
        return await show.page(gone.object)


async def _decoded(request: Request, served: Served, version: ServedVersion) -> tuple[Obj, RequestContext]:
    """The object in the body, and who sends it in what state."""
    body_type = body_type_of(version.resource, request.info.subresource)
    read = partial(decode, request.body, request.full_content_type, body_type)
    is_long = _is_long_to_read(request, version)
    obj, strict_errors = await offload(read, is_long=is_long)
    if (audit := request.audit) is not None:
        audit.name_object(metadata(obj))
        if audit.tells_request:
            as_read = partial(_as_read, obj, served, version, body_type)
            audit.receives(await offload(as_read, is_long=is_long))
    return obj, request.context(strict_errors)


def _as_read(obj: Obj, served: Served, version: ServedVersion, body_type: BodyType) -> Obj | None:
    """The object as the audit log tells it: as Go has read it, with defaults. None: it cannot be read."""
    is_whole = body_type.kind == version.resource.kind
    read = {"kind": body_type.kind, "apiVersion": body_type.api_version} | copied(obj)
    try:
        (version.normalise if is_whole else body_type.normalise)(read)
    except ApiError:  # whoever writes it says so
        return None
    if is_whole and version.to_stored is None:
        served.strategy.default(read)
    return read


def _is_long_to_read(request: Request, version: ServedVersion) -> bool:
    """YAML takes ten times as long as JSON, and by its anchors it says more than it has bytes; most of it is JSON."""
    body = request.body
    is_yaml = "yaml" in request.full_content_type.lower() and (not body.startswith(b"{") or b"&" in body)
    return takes_long(version.resource, 10 * len(body) if is_yaml else len(body))


def _patch_type(request: Request, served: Served) -> PatchType:
    try:
        type_ = PatchType(request.content_type)
    except ValueError:
        raise _UNSUPPORTED_PATCH if served.crd is None else UnsupportedMediaType(CUSTOM_PATCHES) from None
    if type_ is PatchType.STRATEGIC and served.crd is not None:
        raise UnsupportedMediaType(CUSTOM_PATCHES)
    return type_


def _is_place(request: Request, row: Resource) -> bool:
    """Whether there is such a path: a namespaced kind can be listed across namespaces, and nothing else."""
    info = request.info
    if not row.namespaced:
        return not info.namespace
    return bool(info.namespace) or (not info.name and (bool(row.definition) or request.method == "GET"))


def _check_watched(row: Resource) -> None:
    if "watch" not in row.verbs:
        text = f'watch is not supported on resources of kind "{row.qualified}"'
        raise MethodNotSupported(text, group=row.group, kind=row.plural)


def _check_named(info: RequestInfo) -> None:
    """Custom resources have no router that would know that one object is meant (see `_verb`)."""
    if not info.name:
        raise BadRequest("name must be provided")


def _verb(request: Request, row: Resource) -> str:
    """The verb that a request means; `MethodNotSupported` if the kind does not know it."""
    info = request.info
    is_watch, verbs = info.verb == "watch", row.verbs
    verb = info.verb if not is_watch else "get" if info.name else "list"
    if info.subresource:
        sub = row.subresources.get(info.subresource)
        if sub is None and not row.definition:
            raise NotFound.of(row.plural, info.name, row.group)
        if sub is None:
            raise NotFound("the server could not find the requested resource", shows_details=True)
        verbs = sub.verbs
    elif row.definition and request.method in (_ON_COLLECTIONS if info.name else _ON_OBJECTS):
        verb = ""  # built-in kinds have a router, which knows no such path
    is_everywhere = row.namespaced and not info.namespace
    if verb not in verbs or (is_everywhere and verb != "list"):
        if info.subresource and not row.definition:
            text = f'{verb} is not supported on resources of kind "{row.qualified}"'
            raise MethodNotSupported(text, group=row.group, kind=row.plural)
        raise MethodNotSupported(_NOT_ALLOWED, shows_details=True)
    return "watch" if is_watch else verb


async def _delete_options(request: Request, version: ServedVersion) -> tuple[DeleteOptions, bool | None]:
    """The options, and `orphanDependents` as it was given. The query counts only where there is no body."""
    read = partial(decode_options, request.body, request.full_content_type)
    body = await offload(read, is_long=_is_long_to_read(request, version))
    query = {} if request.body else request.query
    if request.body and request.audit is not None and request.audit.tells_request:
        request.audit.receives({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"} | body)
    return options_of(body, query), orphan_of(body, query)


def _list_query(request: Request) -> ListQuery:
    """What is to be listed; contradictory options are refused before anything else is looked at."""
    query = request.list_query()
    check_list(query, has_initial_events="sendInitialEvents" in request.query)
    return query
