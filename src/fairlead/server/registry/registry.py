"""The generic registry: every verb on every kind, in one process.

It is the `Api` of our own server. A write goes through one pipeline, whatever the kind:

    normalise ▸ default ▸ admit ▸ prepare ▸ validate ▸ admission's last word ▸ encode ▸ store

and what a kind adds to it is its `Strategy`. Reads come from the watch cache. Optimistic concurrency is the store's: a
write names the revision that it replaces, and whoever did not insist on one tries again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

from fairlead.api.encoded import Encoded, encoded, without_marker
from fairlead.api.errors import AlreadyExists, BadRequest, MethodNotSupported, NotFound
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
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
from fairlead.kinds.meta import validate_meta
from fairlead.server.admission.base import Admission, Attributes, Operation
from fairlead.server.admission.unenforced import unenforced
from fairlead.server.apply.bodies import check_merged, judge_repeated
from fairlead.server.apply.ownership import apply, mark_reset, settle, track
from fairlead.server.apply.writers import writer_of
from fairlead.server.codec.body_types import target_of
from fairlead.server.context import Caller, Patch, Wish, Write
from fairlead.server.registry.attempt import attributes_of
from fairlead.server.registry.delete import Removal
from fairlead.server.registry.patching import check_kind, unreadable, wish_of
from fairlead.server.storage import metadata_rules as writing
from fairlead.server.storage.catalogue import Catalogue, Served
from fairlead.server.storage.entries import Entry
from fairlead.server.storage.keys import parts_of
from fairlead.server.storage.listing import check_list, list_page
from fairlead.server.storage.object_store import Records, to_fit
from fairlead.server.storage.selection import select
from fairlead.server.storage.watching import events
from fairlead.server.subresources.endpoint import View, Views, view_of
from fairlead.store.base import Change, Record, RevisionMismatch, Store

#: How often a create with a generated name tries another name (KEP-4420).
NAME_ATTEMPTS = 8
#: Patches that ask nothing of what they do not change.
_MERGES = frozenset({PatchType.MERGE, PatchType.STRATEGIC})
#: Patches of the document, which says of what kind it is.
_DOCUMENTS = frozenset({PatchType.MERGE, PatchType.JSON})
_REPEATED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)

#: A POST to a subresource: binding, eviction. Gets (registry, served, namespace, name, body, write).
Action = Callable[["Registry", Served, str, str, Obj, Write], Awaitable[Encoded]]
#: Told of every committed change of one kind: (namespace, name, the new bytes or None).
Observer = Callable[[str, str, bytes | None], None]


class Registry:
    """All kinds, over one store."""

    def __init__(
        self, store: Store, catalogue: Catalogue, views: Views, actions: Mapping[tuple[str, str], Action]
    ) -> None:
        self.store = store
        self.catalogue = catalogue
        self.admission: Admission
        self.observers: dict[str, Observer] = {}
        self._views, self._actions = views, actions
        self._records = Records(store)

    async def open(self, admission: Admission) -> None:
        """Load what the store holds. Nothing older than this moment can be watched."""
        self.admission = admission
        await self.store.open(self._apply)
        for served in self.catalogue:
            served.cache.forget_before(self.store.revision)

    @property
    def revision(self) -> int:
        return self.store.revision

    def _apply(self, changes: Iterable[Change]) -> None:
        """Committed changes become cache entries; a kind that is not served (yet) stays in the store."""
        for change in changes:
            qualified, namespace, name = parts_of(change.key)
            raw = change.record.value if change.record else None
            served = self.catalogue.stored(qualified)
            if served is not None:
                served.cache.apply(change.revision, namespace, name, raw)
            observer = self.observers.get(qualified)
            if observer is not None:
                observer(namespace, name, raw)

    # -- reading

    def find(self, resource: str, name: str, namespace: str = "") -> Encoded | None:
        served = self.catalogue.stored(resource)
        return served.cache.get(namespace, name) if served else None

    def each(self, resource: str, namespace: str = "") -> Iterable[Entry]:
        served = self.catalogue.stored(resource)
        return served.cache.entries(namespace) if served else ()

    async def get(self, resource: Resource, name: str, namespace: str = "", subresource: str = "") -> Encoded:
        served, version = self.catalogue.of(resource)
        view = view_of(self._views, resource, subresource)
        entry = served.cache.get(namespace, name)
        if entry is None:
            raise NotFound.of(resource.plural, name, resource.group)
        if view.is_whole:
            return version.shown(entry)
        return encoded(view.shown(served, entry.obj()))

    async def list(self, resource: Resource, namespace: str = "", query: ListQuery = LIST) -> Listing:
        served, version = self.catalogue.of(resource)
        check_list(query)
        selection = select(served, version, namespace, query.labels, query.fields)
        return await list_page(served.cache, query, selection, self.revision, version.shown)

    def watch(self, resource: Resource, namespace: str = "", query: WatchQuery = WATCH) -> AsyncIterator[WatchEvent]:
        served, version = self.catalogue.of(resource)
        return events(served, version, namespace, query)

    # -- creating

    async def create(
        self,
        resource: Resource,
        obj: Obj,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        options: WriteOptions = WRITE,
        caller: Caller | None = None,
    ) -> Encoded:
        served, version = self.catalogue.of(resource)
        write = Write(options, caller or Caller(), version, subresource)
        action = self._actions.get((served.resource.qualified, subresource))
        if action is not None:
            return await action(self, served, namespace, name, obj, write)
        if subresource or "create" not in resource.verbs:
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        obj = self._normal(served, obj, write)
        return await self._create(served, namespace, obj, write, metadata(obj).get("resourceVersion", ""))

    async def _create(self, served: Served, namespace: str, obj: Obj, write: Write, revision: str = "") -> Encoded:
        strategy = served.strategy
        _merge_owners(obj, write)
        writing.place(served, obj, namespace)
        writing.check_birth(served, obj)
        strategy.default(obj)
        if write.is_tracked and not write.is_apply:
            track(obj, None, writer_of(served, write))
        attributes = attributes_of(served, obj, None, write, Operation.CREATE)
        try:
            await self.admission.admit(attributes)
            is_generated = not metadata(obj).get("name")
            writing.begin(served, obj)
            strategy.note_requester(obj, write.caller.user)
            write.caller.warnings.extend(strategy.prepare_create(obj) or ())
            self._check_new(served, obj)
            write.caller.warnings.extend(strategy.warnings(obj, None))
            write.caller.warnings.extend(unenforced(served.resource, obj))
            attributes.name = metadata(obj)["name"]
            await self.admission.validate(attributes)
            if not write.options.dry_run:
                writing.check_no_revision(revision)
            strategy.finish_create(obj)
            return await self._insert(served, obj, write, NAME_ATTEMPTS if is_generated else 1)
        except BaseException:
            await self._undo(attributes)
            raise

    async def _insert(self, served: Served, obj: Obj, write: Write, attempts: int) -> Encoded:
        meta = metadata(obj)
        while True:
            key = served.key(meta.get("namespace", ""), meta["name"])
            try:
                return await self._records.decided(key, partial(self._insert_at, key, served, obj, write))
            except AlreadyExists:
                attempts -= 1
                if not attempts:
                    raise
            writing.rename(meta)

    async def _insert_at(self, key: str, served: Served, obj: Obj, write: Write, there: Record | None) -> Encoded:
        if there is not None:
            raise _taken(served.resource, metadata(obj), Encoded(there.value).obj())
        if write.options.dry_run:
            return write.version.shown(_unstored(served, obj))
        value = to_fit(served, obj, served.encode(obj), may_drop_managers=not write.is_apply)
        record = await self._records.put(key, value, 0)
        return write.version.shown(Encoded(record.value))

    # -- changing

    async def update(
        self,
        resource: Resource,
        obj: Obj,
        *,
        subresource: str = "",
        options: WriteOptions = WRITE,
        caller: Caller | None = None,
    ) -> Encoded:
        served, version = self.catalogue.of(resource)
        meta = metadata(obj)
        write = Write(options, caller or Caller(), version, subresource)
        namespace = meta.get("namespace", "") if resource.namespaced else ""

        def wish(old: Obj) -> Obj:
            return obj | {"metadata": dict(meta)}  # each attempt fills in its own

        return await self.change(served, namespace, meta.get("name", ""), wish, write)

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
        caller: Caller | None = None,
    ) -> Encoded:
        served, version = self.catalogue.of(resource)
        write = Write(options, caller or Caller(), version, subresource, Patch(patch, type_))
        view = view_of(self._views, resource, subresource)
        if write.is_apply:
            wish = _apply_of(served, view, patch, name, namespace, write)
        else:
            wish = wish_of(view.definition(version), patch, type_)
        return await self.change(served, namespace, name, wish, write)

    async def change(self, served: Served, namespace: str, name: str, wish: Wish, write: Write) -> Encoded:
        """Read, change, write; again while somebody else is faster and the client did not insist on a version."""
        view = view_of(self._views, write.version.resource, write.subresource)
        key, said = served.key(namespace, name), len(write.caller.warnings)

        async def decide(record: Record | None) -> Encoded:
            del write.caller.warnings[said:]
            write.caller.created = record is None
            if record is None:
                return await self._born(served, view, namespace, name, wish, write)
            old = served.decoded(record.value)
            sent = self._sent(served, view, old, wish, write)
            if not write.patch:
                writing.check_uid(served, sent, old)
            writing.check_revision(served, sent, record.revision, is_whole=view.is_whole)
            return await self._replace(served, view, key, old, sent, record, write)

        return await self._records.decided(key, decide)

    async def _born(self, served: Served, view: View, namespace: str, name: str, wish: Wish, write: Write) -> Encoded:
        """A change of what does not exist: some kinds are created by that, and every kind by an apply."""
        row = served.resource
        may_create = write.patch is None and served.strategy.allows_create_on_update
        if write.subresource or not (may_create or write.is_apply):
            raise NotFound.of(row.plural, name, row.group)
        sent = self._understood(served, view, wish({}), write)
        if not write.patch:
            writing.check_nobody_is_meant(served, sent, namespace, name)
        try:
            return await self._create(served, namespace, sent, write)
        except AlreadyExists:
            raise RevisionMismatch(served.key(namespace, name), 0) from None  # somebody was faster: change theirs

    def _sent(self, served: Served, view: View, old: Obj, wish: Wish, write: Write) -> Obj:
        """What the client wants, in the stored version and in normal form."""
        version = write.version
        shown = view.edited(served, old)
        if write.patch and write.patch.type in _MERGES and not write.is_tracked:
            shown = view.narrowed(shown)
        if view.is_whole and version.from_stored:
            shown = version.from_stored(shown)
        sent = self._understood(served, view, wish(shown), write)
        was = metadata(old)
        writing.check_identity(sent, version.resource, was["name"], was.get("namespace", ""))
        return sent

    def _understood(self, served: Served, view: View, sent: Obj, write: Write) -> Obj:
        """The object in normal form; if that fails, a patch is to blame in its own words."""
        try:
            if write.patch is not None and write.patch.type in _DOCUMENTS:
                check_kind(sent, target_of(write.version.resource, write.subresource))
            return self._normal(served, sent, write, view)
        except BadRequest as error:
            if write.patch is None:
                raise
            raise unreadable(write.patch.body, write.patch.type, sent, _reason_within(error.message)) from None

    async def _replace(
        self, served: Served, view: View, key: str, old: Obj, sent: Obj, record: Record, write: Write
    ) -> Encoded:
        _merge_owners(sent, write)
        view.default(served, sent)
        if not write.is_tracked:
            writing.keep_managers(sent, old)
        elif not write.is_apply:
            track(sent, view.edited(served, old), view.writer(served, write))
        new = view.merged(served, sent, old)
        settle(new, old)
        attributes = attributes_of(served, new, old, write, Operation.UPDATE)
        try:
            await self.admission.admit(attributes)
            errors = Errors()
            view.validate(served, new, old, errors)
            self._refuse(served, new, errors)
            write.caller.warnings.extend(view.warnings(served, new, old))
            if view.is_whole:
                write.caller.warnings.extend(unenforced(served.resource, new))
            await self.admission.validate(attributes)
            may_drop_managers = write.patch is not None and not write.is_apply
            stored = await self._records.replace(
                served, key, new, record, dry_run=write.options.dry_run, may_drop_managers=may_drop_managers
            )
        except BaseException:
            await self._undo(attributes)
            raise
        if view.is_whole:
            return write.version.shown(Encoded(stored.value))
        return encoded(view.shown(served, Encoded(stored.value).obj()))

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
        return await self._records.guaranteed_update(served, name, namespace, change, dry_run=dry_run)

    # -- deleting

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        options: DeleteOptions = DELETE,
        caller: Caller | None = None,
    ) -> Encoded:
        return await self._removal(resource, options, caller).of(namespace, name)

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        query: ListQuery = LIST,
        options: DeleteOptions = DELETE,
        caller: Caller | None = None,
    ) -> Listing:
        listing = await self.list(resource, namespace, query)
        removal = self._removal(resource, options, caller)
        for item in listing.items:
            meta = metadata(item.obj())
            try:
                await removal.of(meta.get("namespace", ""), meta["name"], is_one_of_many=True)
            except NotFound:
                continue
        return listing

    def _removal(self, resource: Resource, options: DeleteOptions, caller: Caller | None) -> Removal:
        served, version = self.catalogue.of(resource)
        write = Write(WriteOptions(dry_run=options.dry_run), caller or Caller(), version)
        if served.strategy.deletion_warning and options.propagation_policy is None:
            write.caller.warnings.append(served.strategy.deletion_warning)
        return Removal(self._records, self.admission, served, options, write)

    # -- the steps that all writes share

    def _normal(self, served: Served, obj: Obj, write: Write, view: View | None = None) -> Obj:
        version = write.version
        normalise = view.normalise(version) if view else version.normalise
        if view is not None and not write.is_tracked:
            obj = view.narrowed(obj)
        mark_reset(obj)
        unknown = normalise(obj)
        row = version.resource
        write.judge(unknown, row.kind, row.version)
        if version.to_stored and (view is None or view.is_whole):
            return version.to_stored(obj)
        return obj

    @staticmethod
    async def _undo(attributes: Attributes) -> None:
        for undo in attributes.on_failure:
            await undo()

    def _check_new(self, served: Served, obj: Obj) -> None:
        """Of kinds whose own rules never look at metadata, it is looked at when nothing else is wrong."""
        errors = Errors()
        if served.strategy.meta_checks:
            validate_meta(obj, errors, resource=served.resource)
        served.strategy.validate(obj, errors)
        self._refuse(served, obj, errors)
        if not served.strategy.meta_checks:
            validate_meta(obj, errors, resource=served.resource)
            self._refuse(served, obj, errors)

    @staticmethod
    def _refuse(served: Served, obj: Obj, errors: Errors) -> None:
        row = served.resource
        errors.raise_invalid(row.kind, metadata(obj).get("name", ""), row.group)


def _taken(row: Resource, meta: Obj, there: Obj) -> AlreadyExists:
    is_going = bool(metadata(there).get("deletionTimestamp"))
    is_generated = bool(meta.get("generateName"))
    return AlreadyExists.of(row.plural, meta["name"], row.group, is_generated=is_generated, is_going=is_going)


def _merge_owners(obj: Obj, write: Write) -> None:
    """Say each owner once, and tell the client that it did not."""
    if repeated := writing.without_repeated_owners(obj):
        when = " after mutating admission happens" if write.patch else ""
        write.caller.warnings.append(_REPEATED_OWNERS.format(when, ", ".join(repeated)))


def _apply_of(served: Served, view: View, config: Obj, name: str, namespace: str, write: Write) -> Wish:
    """What merges a configuration into the present object (or into none), with the owners of its fields."""
    kind, writer, options = view.kind(write.version), view.writer(served, write), write.options

    def wish(live: Obj) -> Obj:
        merged = apply(live or None, config, kind, writer, force=options.force)
        judge_repeated(write.caller.repeated_keys, options.field_validation, write.caller.warnings)
        check_merged(merged, write.version.resource, name, namespace, is_new=not live)
        return merged

    return wish


def _reason_within(message: str) -> str:
    """`Pod in version "v1" cannot be handled as a Pod: WHY`."""
    return message.partition(": ")[2] if " cannot be handled as a " in message else message


def _unstored(served: Served, obj: Obj) -> Encoded:
    """The answer to a dry run: no version, for there is none."""
    return Encoded(without_marker(served.encode(obj)))
