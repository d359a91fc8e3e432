"""The generic registry: every verb on every kind, in one process.

Every write comes with its user (`RequestContext`); `as_user` gives a component an `Api` in its own name. A write goes
through one sequence, whatever the kind:

    normalise ▸ default ▸ admit ▸ prepare ▸ validate ▸ validating admission ▸ encode ▸ store

which `create.py`, `update.py` and `delete.py` spell out; what a kind adds to it is its `Strategy`. Reads come from the
watch cache. Optimistic concurrency is the store's: a write names the revision that it replaces, and is tried again if
the client did not insist on one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec.structs import replace

from fairlead.api.encoded import Encoded, copied, encoded
from fairlead.api.errors import MethodNotSupported, NotFound
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.api.selectors import Selector
from fairlead.api.users import User
from fairlead.api.verbs import (
    DELETE,
    LIST,
    WATCH,
    WRITE,
    DeleteOptions,
    Listing,
    ListQuery,
    PatchType,
    WatchEvent,
    WatchQuery,
    WriteOptions,
)
from fairlead.client.webhooks import WebhookClient
from fairlead.runtime.clock import monotonic
from fairlead.runtime.turns import in_turns
from fairlead.server.access import AccessRequest, Authorizer, check, selected_name
from fairlead.server.account_tokens import AccountTokens, TokenVerifier
from fairlead.server.admission.base import Admission
from fairlead.server.apply.bodies import check_options
from fairlead.server.codec.versions import ServedVersion
from fairlead.server.context import PatchBody, RequestContext, Result, WriteRequest
from fairlead.server.metrics import ServerMetrics
from fairlead.server.nodes.agents import ClusterAgents
from fairlead.server.registry.attempt import WriteAttempt
from fairlead.server.registry.create import create
from fairlead.server.registry.delete import DeleteRequest
from fairlead.server.registry.update import UpdateRequest
from fairlead.server.service_routes import routes
from fairlead.server.storage.cache import PastObject
from fairlead.server.storage.catalogue import Catalogue, Served
from fairlead.server.storage.entries import Entry
from fairlead.server.storage.keys import parts_of
from fairlead.server.storage.listing import check_list, filtered, list_page, list_revision, wait_for
from fairlead.server.storage.object_store import ObjectStore
from fairlead.server.storage.selection import select
from fairlead.server.storage.watching import events
from fairlead.server.subresources.action import Action, ActionCall
from fairlead.server.subresources.endpoint import EndpointTable, endpoint_of
from fairlead.store.base import Record, Store, StoreChange

_NOT_ALLOWED: Final = "the server does not allow this method on the requested resource"

#: Called for every committed change of one kind: (namespace, name, the new bytes or None).
ChangeObserver = Callable[[str, str, bytes | None], None]


class UnstoredKind(Protocol):
    """A kind whose objects are made when somebody asks for them."""

    async def get(self, name: str, namespace: str) -> Encoded: ...

    async def list(self, namespace: str, query: ListQuery, revision: int) -> Listing: ...


class Registry:
    """All kinds, over one store."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        endpoints: EndpointTable,
        actions: Mapping[tuple[str, str], Action],
        authorizer: Authorizer,
        metrics: ServerMetrics,
    ) -> None:
        self.store = store
        self.catalogue = catalogue
        self.metrics = metrics
        #: Who may do what. The verbs below do not ask it: HTTP does before it calls them, and so does `UserApi`.
        self.authorizer = authorizer
        #: What components of this process may do: another, where clients are judged by what components are not.
        self.component_authorizer = authorizer
        self.admission: Admission
        self.observers: dict[str, ChangeObserver] = {}
        #: The ways to the kubelets.
        self.agents = ClusterAgents(lambda node: self.find("nodes", node))
        #: How webhooks are called.
        self.webhooks = WebhookClient(routes(self, self.agents.is_simulated))
        #: Kinds of which nothing is stored, by their qualified names.
        self.unstored: dict[str, UnstoredKind] = {}
        self.account_tokens = AccountTokens(self)
        #: Whose any token is; where clients come in, there are others than those of service accounts.
        self.verify_token: TokenVerifier = self.account_tokens
        self._endpoints, self._actions = endpoints, actions
        self._objects = ObjectStore(store, metrics.storage)

    async def open(self, admission: Admission) -> None:
        """Load what the store holds."""
        self.admission = admission
        await self.store.open(self._apply)

    def observe(self, qualified: str, observer: ChangeObserver) -> None:
        """Tell this one, too, of every committed change of a kind."""
        first = self.observers.get(qualified)

        def both(namespace: str, name: str, raw: bytes | None) -> None:
            if first is not None:
                first(namespace, name, raw)
            observer(namespace, name, raw)

        self.observers[qualified] = observer if first is None else both

    def recall(self) -> None:
        """Take up the history that the store has kept, once every stored kind is served."""
        history = self.store.take_history()
        changes: dict[str, list[PastObject]] = {}
        for change in history.changes:
            qualified, namespace, name = parts_of(change.key)
            replaced, served = change.replaced, self.catalogue.stored(qualified)
            if replaced is not None and served is not None and served.crd is not None:
                replaced = Record(served.refreshed(replaced.value), replaced.revision)
            changes.setdefault(qualified, []).append(PastObject(change.revision, namespace, name, replaced))
        for served in self.catalogue:
            served.cache.recall(changes.get(served.cache.qualified, ()), history.compacted)

    def compact(self, revision: int) -> None:
        """Forget the history up to that revision: who asks for it has to list again."""
        self.store.compact(revision)
        for served in self.catalogue:
            served.cache.forget_before(revision)

    @property
    def revision(self) -> int:
        return self.store.revision

    def _apply(self, changes: Iterable[StoreChange]) -> None:
        """Committed changes become cache entries; a kind that is not served (yet) stays in the store."""
        for change in changes:
            qualified, namespace, name = parts_of(change.key)
            raw = change.record.value if change.record else None
            served = self.catalogue.stored(qualified)
            if served is not None:
                if raw is not None and served.older_writes_until > monotonic():
                    raw = served.refreshed(raw)
                served.cache.apply(change.revision, namespace, name, raw)
            observer = self.observers.get(qualified)
            if observer is not None:
                observer(namespace, name, raw)

    def as_user(self, user: User, *, tracks_fields: bool = False) -> UserApi:
        """The `Api` of this user. By default the fields that it writes are not tracked."""
        return UserApi(self, RequestContext(user, tracks_fields=tracks_fields))

    def _served(self, resource: Resource, verb: str, subresource: str = "") -> tuple[Served, ServedVersion]:
        """The kind of a row; a refusal if it is not served, or does not have that verb there."""
        served, version = self.catalogue.of(resource)
        row = version.resource
        if subresource and subresource not in row.subresources:
            raise NotFound("the server could not find the requested resource")
        if verb not in (row.subresources[subresource].verbs if subresource else row.verbs):
            raise MethodNotSupported(_NOT_ALLOWED)
        return served, version

    # -- reading

    def find(self, resource: str, name: str, namespace: str = "") -> Encoded | None:
        served = self.catalogue.stored(resource)
        return served.cache.get(namespace, name) if served else None

    def each(self, resource: str, namespace: str = "") -> Iterable[Entry]:
        served = self.catalogue.stored(resource)
        return served.cache.entries(namespace) if served else ()

    async def selected(self, resource: str, namespace: str, selector: Selector) -> Sequence[Entry]:
        found, _ = await filtered(list(self.each(resource, namespace)), lambda entry: selector.matches(entry.labels))
        return found

    def resource_of(self, group: str, version: str, kind: str) -> Resource | None:
        found = self.catalogue.of_kind(group, version, kind)
        return found[1].resource if found else None

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Encoded:
        served, version = self._served(resource, "get", subresource)
        if unstored := self.unstored.get(version.resource.qualified):
            return await unstored.get(name, namespace)
        endpoint = endpoint_of(self._endpoints, version.resource, subresource)
        entry = served.cache.get(namespace, name)
        if entry is None:
            raise NotFound.of(resource.plural, name, resource.group)
        if endpoint.is_whole:
            return await version.present(entry)
        return encoded(endpoint.shown(served, await version.converted(entry.obj())))

    async def list(self, resource: Resource, namespace: str = "", query: ListQuery = LIST) -> Listing:
        served, version = self._served(resource, "list")
        check_list(query)
        if not query.continue_token:
            await wait_for(self.store, list_revision(query))
        if unstored := self.unstored.get(version.resource.qualified):
            return await unstored.list(namespace, query, self.revision)
        selection = select(served, version, namespace, query.labels, query.fields)
        convert = version.present_all
        page = await list_page(served.cache, query, selection, self.revision, version.shown, convert=convert)
        return replace(page, items=await version.present_all(page.items)) if version.converter else page

    def watch(self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH) -> AsyncIterator[WatchEvent]:
        served, version = self._served(resource, "watch")
        return events(served, version, namespace, query, self.store)

    # -- writing

    async def create(
        self,
        context: RequestContext,
        resource: Resource,
        obj: Obj,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Result[Encoded]:
        served, version = self._served(resource, "create", subresource)
        request = WriteRequest(context, version, options, subresource)
        action = self._actions.get((served.resource.qualified, subresource))
        if action is not None:
            return await action(ActionCall(self, served, namespace, name, obj, request))
        if subresource:  # one that upstream has
            raise MethodNotSupported(_NOT_ALLOWED)
        attempt = WriteAttempt(self.admission, served, request)
        with attempt:
            await attempt.compute(lambda: attempt.receive(obj))
            return await create(attempt, self._objects, namespace, attempt.meta.get("resourceVersion", ""))

    async def update(
        self,
        context: RequestContext,
        resource: Resource,
        obj: Obj,
        *,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Result[Encoded]:
        served, version = self._served(resource, "update", subresource)
        meta = metadata(obj)
        namespace = meta.get("namespace", "") if resource.namespaced else ""
        request = WriteRequest(context, version, options, subresource)
        return await self._change(served, request, namespace, meta.get("name", ""), obj)

    async def patch(
        self,
        context: RequestContext,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        type_: PatchType = PatchType.MERGE,
        *,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Result[Encoded]:
        served, version = self._served(resource, "patch", subresource)
        request = WriteRequest(context, version, options, subresource, PatchBody(patch, type_))
        if request.is_apply or options.force:
            errors = Errors()
            check_options(errors, options.field_manager, is_apply=request.is_apply, has_force=options.force)
            errors.raise_invalid("PatchOptions", "", "meta.k8s.io")
        return await self._change(served, request, namespace, name)

    async def _change(
        self, served: Served, request: WriteRequest, namespace: str, name: str, body: Obj | None = None
    ) -> Result[Encoded]:
        endpoint = endpoint_of(self._endpoints, request.version.resource, request.subresource)
        change = UpdateRequest(self.admission, self._objects, served, endpoint, request, namespace, name, body)
        return await change.carry_out()

    async def delete(
        self,
        context: RequestContext,
        resource: Resource,
        name: str,
        namespace: str = "",
        options: DeleteOptions = DELETE,
    ) -> Result[Encoded]:
        return await self._deletion("delete", context, resource, options).carry_out(namespace, name)

    async def delete_collection(
        self,
        context: RequestContext,
        resource: Resource,
        namespace: str = "",
        query: ListQuery = LIST,
        options: DeleteOptions = DELETE,
    ) -> Result[Listing]:
        deletion = self._deletion("deletecollection", context, resource, options)
        listing = await self.list(resource, namespace, query)
        async for item in in_turns(listing.items):  # a dry run waits for no disk
            meta = item.metadata()
            try:
                await deletion.carry_out(meta.get("namespace", ""), meta["name"], is_one_of_many=True)
            except NotFound:
                continue
        return Result(listing, warnings=deletion.warnings)

    def _deletion(
        self, verb: str, context: RequestContext, resource: Resource, options: DeleteOptions
    ) -> DeleteRequest:
        served, version = self._served(resource, verb)
        request = WriteRequest(context, version, WriteOptions(dry_run=options.dry_run))
        return DeleteRequest(self.admission, self._objects, served, options, request)

    async def guaranteed_update(
        self,
        resource: str,
        name: str,
        namespace: str,
        change: Callable[[Obj], Obj | None],
        *,
        dry_run: bool = False,
    ) -> Obj | None:
        """The server's own read-modify-write, past admission and validation (admission.base.Writer)."""
        served = self.catalogue.stored(resource)
        if served is None:
            return None
        return await self._objects.guaranteed_update(served, name, namespace, change, dry_run=dry_run)


class UserApi:
    """The `Api` of one user: the registry, asked in that user's name, for what the user may do.

    Warnings are for clients and stay unsaid.
    """

    def __init__(self, registry: Registry, context: RequestContext) -> None:
        self.registry, self._context = registry, context

    def _authorize(
        self,
        verb: str,
        resource: Resource,
        name: str,
        namespace: str,
        subresource: str = "",
        *,
        fields: str = "",
        labels: str = "",
    ) -> None:
        """`Forbidden` unless the user may do that."""
        request = self._request(verb, resource, name, namespace, subresource, fields, labels)
        check(self.registry.component_authorizer.decide(request), request)

    def _authorize_patch(self, resource: Resource, name: str, namespace: str, subresource: str) -> None:
        """Who may update may also patch: Kubernetes' components replace objects where ours change fields of them, and
        it is for them that the default roles are made."""
        update = self._request("update", resource, name, namespace, subresource)
        if not self.registry.component_authorizer.decide(update).is_allowed:
            self._authorize("patch", resource, name, namespace, subresource)

    def _request(
        self,
        verb: str,
        resource: Resource,
        name: str,
        namespace: str,
        subresource: str,
        fields: str = "",
        labels: str = "",
    ) -> AccessRequest:
        if not namespace and resource.qualified == "namespaces":
            namespace = name
        user, group, version, plural = self._context.user, resource.group, resource.version, resource.plural
        return AccessRequest(user, verb, group, version, plural, subresource, namespace, name, "", fields, labels)

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Encoded:
        self._authorize("get", resource, name, namespace, subresource)
        return await self.registry.get(resource, name, namespace, subresource)

    async def list(self, resource: Resource, namespace: str = "", query: ListQuery = LIST) -> Listing:
        self._authorize_selection("list", resource, namespace, query)
        return await self.registry.list(resource, namespace, query)

    def watch(self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH) -> AsyncIterator[WatchEvent]:
        self._authorize_selection("watch", resource, namespace, query)
        return self.registry.watch(resource, namespace, query)

    def _authorize_selection(
        self, verb: str, resource: Resource, namespace: str, query: ListQuery | WatchQuery
    ) -> None:
        name = selected_name(query.fields)
        self._authorize(verb, resource, name, namespace, fields=query.fields, labels=query.labels)

    async def create(
        self,
        resource: Resource,
        obj: Obj,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Encoded:
        self._authorize("create", resource, name, namespace, subresource)
        context, create = self._context, self.registry.create
        own = copied(obj)  # the steps of a write change what they write
        result = await create(context, resource, own, namespace, name=name, subresource=subresource, options=options)
        return result.object

    async def update(
        self, resource: Resource, obj: Obj, *, subresource: str = "", options: WriteOptions = WRITE
    ) -> Encoded:
        meta = metadata(obj)
        namespace = meta.get("namespace", "") if resource.namespaced else ""
        self._authorize("update", resource, meta.get("name", ""), namespace, subresource)
        update = self.registry.update
        return (await update(self._context, resource, obj, subresource=subresource, options=options)).object

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        type_: PatchType = PatchType.MERGE,
        *,
        subresource: str = "",
        options: WriteOptions = WRITE,
    ) -> Encoded:
        self._authorize_patch(resource, name, namespace, subresource)
        change = self.registry.patch
        result = await change(
            self._context, resource, name, namespace, patch, type_, subresource=subresource, options=options
        )
        return result.object

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DELETE
    ) -> Encoded:
        self._authorize("delete", resource, name, namespace)
        return (await self.registry.delete(self._context, resource, name, namespace, options)).object

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        query: ListQuery = LIST,
        options: DeleteOptions = DELETE,
    ) -> Listing:
        self._authorize_selection("deletecollection", resource, namespace, query)
        return (await self.registry.delete_collection(self._context, resource, namespace, query, options)).object
