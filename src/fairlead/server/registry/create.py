"""The steps of a create, also of one that an update or an apply turns into.

Source: apiserver `registry/rest/create.go` and `registry/generic/registry/store.go`, `Create`.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from fairlead.api.encoded import Encoded, encode, without_marker
from fairlead.api.errors import AlreadyExists
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.kinds.meta import validate_meta
from fairlead.server.admission.base import Operation
from fairlead.server.apply.field_managers import field_manager_of
from fairlead.server.apply.ownership import track
from fairlead.server.context import Result
from fairlead.server.registry.attempt import WriteAttempt
from fairlead.server.storage import metadata_rules
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.object_store import ObjectStore, to_fit
from fairlead.store.base import Record

#: How often a create with a generated name tries another name (KEP-4420).
NAME_ATTEMPTS = 8


async def create(attempt: WriteAttempt, objects: ObjectStore, namespace: str, revision: str = "") -> Result[Encoded]:
    """Store what the attempt has received. `revision` is the resourceVersion that the client sent: it must be none.

    A generated name that is taken is replaced by another, and the steps are taken again: labels and selectors follow
    from the name. Raises `AlreadyExists`, and whatever refuses the object.
    """
    is_generated = not attempt.meta.get("name") and bool(attempt.meta.get("generateName"))
    attempts = NAME_ATTEMPTS if is_generated else 1
    received, warnings = encode(attempt.obj) if is_generated else b"", list(attempt.warnings)
    while True:
        try:
            return await _create_named(attempt, objects, namespace, revision)
        except AlreadyExists:
            attempts -= 1
            if not attempts:
                raise
        attempt.obj, attempt.warnings = Encoded(received).obj(), list(warnings)


async def _create_named(attempt: WriteAttempt, objects: ObjectStore, namespace: str, revision: str) -> Result[Encoded]:
    served, strategy, request = attempt.served, attempt.served.strategy, attempt.request
    await attempt.compute(lambda: _prepare(attempt, namespace))
    try:
        if await attempt.admit(Operation.CREATE):
            metadata_rules.ensure_namespace(served, attempt.meta, namespace)
        metadata_rules.fill_system_fields(served, attempt.meta)
        metadata_rules.reset_status(served, attempt.obj)
        strategy.note_requester(attempt.obj, request.context.user)
        await attempt.compute(lambda: _check_new(attempt))
        await attempt.validate_admission()
        if not request.options.dry_run:
            metadata_rules.check_new_has_no_revision(revision)
        strategy.finish_create(attempt.obj)
        key = served.key(attempt.meta.get("namespace", ""), attempt.meta["name"])
        obj = await attempt.stored()
        stored = await objects.decided(key, partial(_insert_at, key, attempt, obj, objects))
        return Result(stored, HTTPStatus.CREATED, attempt.warnings)
    except BaseException:
        await attempt.undo()
        raise


def _prepare(attempt: WriteAttempt, namespace: str) -> None:
    """Set the namespace, the defaults, and the owners of the fields."""
    served, request = attempt.served, attempt.request
    attempt.merge_owners()
    metadata_rules.ensure_namespace(served, attempt.meta, namespace)
    metadata_rules.check_not_terminating(served, attempt.meta)
    served.strategy.default(attempt.obj)
    if request.tracks_fields and not request.is_apply:
        track(attempt.obj, None, field_manager_of(served, request))


def _check_new(attempt: WriteAttempt) -> None:
    """Validate the object. Kinds without `meta_checks` report problems of metadata only if there are no others."""
    served, obj, errors = attempt.served, attempt.obj, Errors()
    attempt.warnings.extend(served.strategy.prepare_create(obj) or ())
    if served.strategy.meta_checks:
        validate_meta(obj, errors, resource=served.resource)
    warnings = served.strategy.check_new(obj, errors)
    attempt.refuse(errors)
    if not served.strategy.meta_checks:
        validate_meta(obj, errors, resource=served.resource)
        attempt.refuse(errors)
    attempt.warnings.extend(warnings)
    assert attempt.attributes is not None
    attempt.attributes.name = attempt.meta["name"]


async def _insert_at(
    key: str, attempt: WriteAttempt, obj: Obj, objects: ObjectStore, existing: Record | None
) -> Encoded:
    served, request = attempt.served, attempt.request
    metadata_rules.check_not_terminating(served, attempt.meta)  # the definition may have gone meanwhile
    if existing is not None:
        raise _already_exists(served.resource, attempt.meta, Encoded(existing.value).obj())
    if request.options.dry_run:
        return await request.version.present(_unstored(served, obj))
    value = to_fit(served, obj, served.encode(obj), may_drop_managers=not request.is_apply)
    with attempt.handing_over():
        record = await objects.put(key, value, 0)
    return await request.version.present(Encoded(record.value))


def _already_exists(row: Resource, meta: Obj, existing: Obj) -> AlreadyExists:
    is_going = bool(metadata(existing).get("deletionTimestamp"))
    is_generated = bool(meta.get("generateName"))
    return AlreadyExists.of(row.plural, meta["name"], row.group, is_generated=is_generated, is_going=is_going)


def _unstored(served: Served, obj: Obj) -> Encoded:
    """The answer to a dry run: without a resourceVersion."""
    return Encoded(without_marker(served.encode(obj)))
