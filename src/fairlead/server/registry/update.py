"""The steps of an update and of every kind of patch.

Read, change, write; again while other writers are faster and the client did not insist on a version. Source: apiserver
`registry/rest/update.go` and `registry/generic/registry/store.go`, `Update`.
"""

from __future__ import annotations

from http import HTTPStatus

from fairlead.api.encoded import Encoded, copied, encoded
from fairlead.api.errors import AlreadyExists, NotFound
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.verbs import PatchType
from fairlead.runtime.offload import offload
from fairlead.server.admission.base import Admission, Operation
from fairlead.server.admission.evaluation import RequestTime
from fairlead.server.apply.bodies import check_merged, judge_repeated
from fairlead.server.apply.ownership import apply, keep_unchanged_timestamps, track
from fairlead.server.context import Desired, Result, WriteRequest
from fairlead.server.registry.attempt import WriteAttempt
from fairlead.server.registry.create import create
from fairlead.server.registry.patching import desired_of
from fairlead.server.storage import metadata_rules
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.object_store import ObjectStore
from fairlead.server.subresources.endpoint import Endpoint
from fairlead.store.base import Record, RevisionMismatch

#: Patches that do not depend on fields that they do not change.
_MERGES = frozenset({PatchType.MERGE, PatchType.STRATEGIC})


class UpdateRequest:
    """One request to change the object of that name, through one endpoint of its kind."""

    def __init__(
        self,
        admission: Admission,
        objects: ObjectStore,
        served: Served,
        endpoint: Endpoint,
        request: WriteRequest,
        namespace: str,
        name: str,
        body: Obj | None = None,
    ) -> None:
        """`body` is the object of an update; a patch comes with the request."""
        self._admission, self._objects, self._served, self._endpoint = admission, objects, served, endpoint
        self._request, self._namespace, self._name = request, namespace, name
        self._body = body
        self._time = RequestTime(request.context.user.name)

    async def carry_out(self) -> Result[Encoded]:
        """The object as this endpoint shows it; CREATED if there was none before."""
        return await self._objects.decided(self._served.key(self._namespace, self._name), self._attempted)

    async def _attempted(self, record: Record | None) -> Result[Encoded]:
        attempt = WriteAttempt(self._admission, self._served, self._request, self._endpoint, self._time)
        with attempt:
            desired = self._desired(attempt)
            if record is None:
                return await self._create(attempt, desired)
            return await self._replace(attempt, desired, record)

    def _desired(self, attempt: WriteAttempt) -> Desired:
        """The function from the present object to the desired one."""
        request, endpoint, body = self._request, self._endpoint, self._body
        if request.patch is None:
            assert body is not None
            return lambda _: copied(body)  # each attempt makes its own normal, and fills it in
        if not request.is_apply:
            return desired_of(endpoint.definition(request.version), request.patch.body, request.patch.type)
        return self._applied(attempt, request.patch.body)

    def _applied(self, attempt: WriteAttempt, config: Obj) -> Desired:
        """The function that applies a configuration to the present object (or to none), with field owners."""
        request, options = self._request, self._request.options
        kind, field_manager = self._endpoint.kind(request.version), self._endpoint.field_manager(self._served, request)

        def desired(live: Obj) -> Obj:
            merged = apply(live or None, config, kind, field_manager, force=options.force)
            judge_repeated(request.context.repeated_keys, options.field_validation, attempt.warnings)
            check_merged(merged, request.version.resource, self._name, self._namespace, is_new=not live)
            return merged

        return desired

    async def _create(self, attempt: WriteAttempt, desired: Desired) -> Result[Encoded]:
        """An update of an object that does not exist creates it for some kinds, an apply for every kind."""
        request, served, row = self._request, self._served, self._served.resource
        may_create = request.patch is None and served.strategy.allows_create_on_update
        if request.subresource or not (may_create or request.is_apply):
            raise NotFound.of(row.plural, self._name, row.group)
        await attempt.compute(lambda: attempt.receive_desired(desired({})))
        if not request.patch:
            metadata_rules.check_create_on_update(served, attempt.meta, self._namespace, self._name)
        try:
            return await create(attempt, self._objects, self._namespace)
        except AlreadyExists:  # another writer created it: update that
            raise RevisionMismatch(served.key(self._namespace, self._name), 0) from None

    async def _replace(self, attempt: WriteAttempt, desired: Desired, record: Record) -> Result[Encoded]:
        served, endpoint, request = self._served, self._endpoint, self._request
        attempt.is_long = attempt.takes_long(len(record.value))
        version = request.version
        is_apart = version.converter is not None or (version.from_stored is not None and not endpoint.is_whole)
        present = await version.converted(served.decoded(record.value)) if is_apart else None
        old = await offload(lambda: self._receive(attempt, desired, record, present), is_long=attempt.is_long)
        if not request.patch:
            metadata_rules.check_uid(served, attempt.meta, metadata(old))
        metadata_rules.check_revision(served, attempt.meta, record.revision, is_whole=endpoint.is_whole)
        await attempt.compute(lambda: self._merge(attempt, old))
        try:
            if await attempt.admit(Operation.UPDATE):
                self._merge_again(attempt, old)
            await attempt.compute(lambda: self._validate(attempt, old))
            await attempt.validate_admission()
            may_drop_managers = request.patch is not None and not request.is_apply
            desired_stored = await attempt.stored()
            with attempt.handing_over():
                stored = await self._objects.replace(
                    served,
                    served.key(self._namespace, self._name),
                    desired_stored,
                    record,
                    dry_run=request.options.dry_run,
                    may_drop_managers=may_drop_managers,
                )
        except BaseException:
            await attempt.undo()
            raise
        return Result(await self._shown(stored), HTTPStatus.OK, attempt.warnings)

    def _receive(self, attempt: WriteAttempt, desired: Desired, record: Record, present: Obj | None) -> Obj:
        """Set the desired object, in the stored version and normalised; returns the present one.

        `present` is that in the version of the request, if others convert it or it is not shown as a whole; then both
        are in that version.
        """
        attempt.old = old = present if present is not None else self._served.decoded(record.value)
        request, endpoint, version = self._request, self._endpoint, self._request.version
        shown = endpoint.edited(self._served, old)
        if endpoint.is_whole and version.from_stored:
            shown = version.from_stored(shown)
        elif request.patch and request.patch.type in _MERGES and not request.tracks_fields:
            shown = endpoint.narrowed(shown)
        attempt.receive_desired(desired(shown))
        old_meta = metadata(old)
        metadata_rules.check_identity(attempt.meta, version.resource, old_meta["name"], old_meta.get("namespace", ""))
        return old

    def _merge(self, attempt: WriteAttempt, old: Obj) -> None:
        """Merge what this endpoint may change into the present object, with defaults and field owners."""
        served, endpoint, request, sent = self._served, self._endpoint, self._request, attempt.obj
        attempt.merge_owners()
        endpoint.default(served, sent)
        if not request.tracks_fields:
            metadata_rules.keep_fields(attempt.meta, metadata(old), ("managedFields",))
        elif not request.is_apply:
            track(sent, endpoint.edited(served, old), endpoint.field_manager(served, request))
        attempt.obj = endpoint.merged(served, sent, old)
        keep_unchanged_timestamps(attempt.obj, old)

    def _merge_again(self, attempt: WriteAttempt, old: Obj) -> None:
        """Whoever changed the object on its way may not change more of it than the client."""
        old_meta = metadata(old)
        metadata_rules.check_identity(
            attempt.meta, self._served.resource, old_meta["name"], old_meta.get("namespace", "")
        )
        if self._endpoint.is_whole:
            attempt.obj = self._endpoint.merged(self._served, attempt.obj, old)

    def _validate(self, attempt: WriteAttempt, old: Obj) -> None:
        served, endpoint, errors = self._served, self._endpoint, Errors()
        endpoint.validate(served, attempt.obj, old, errors)
        attempt.refuse(errors)
        attempt.warnings.extend(endpoint.warnings(served, attempt.obj, old))

    async def _shown(self, stored: Record) -> Encoded:
        version, entry = self._request.version, Encoded(stored.value)
        if self._endpoint.is_whole:
            return await version.present(entry)
        return encoded(self._endpoint.shown(self._served, await version.converted(entry.obj())))
