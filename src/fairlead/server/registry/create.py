"""How an object is born: the steps of a create, also of one that an update or an apply turns into.

Source: apiserver `registry/rest/create.go` and `registry/generic/registry/store.go`, `Create`.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from fairlead.api.encoded import Encoded, without_marker
from fairlead.api.errors import AlreadyExists
from fairlead.api.fields import Errors
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.kinds.meta import validate_meta
from fairlead.server.admission.base import Operation
from fairlead.server.admission.unenforced import unenforced
from fairlead.server.apply.ownership import track
from fairlead.server.apply.writers import writer_of
from fairlead.server.context import Result
from fairlead.server.registry.attempt import WriteAttempt
from fairlead.server.storage import metadata_rules
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.object_store import ObjectStore, to_fit
from fairlead.store.base import Record

#: How often a create with a generated name tries another name (KEP-4420).
NAME_ATTEMPTS = 8


async def create(attempt: WriteAttempt, objects: ObjectStore, namespace: str, revision: str = "") -> Result[Encoded]:
    """Store what the attempt has received; `revision` is the resourceVersion that the client gave it, which it may not.

    Raises `AlreadyExists`, and whatever refuses the object.
    """
    served, strategy, request = attempt.served, attempt.served.strategy, attempt.request
    await attempt.think(lambda: _prepare(attempt, namespace))
    try:
        await attempt.admit(Operation.CREATE)
        is_generated = not metadata(attempt.obj).get("name")
        metadata_rules.begin(served, attempt.obj)
        strategy.note_requester(attempt.obj, request.context.user)
        await attempt.think(lambda: _check_new(attempt))
        await attempt.admit_finally()
        if not request.options.dry_run:
            metadata_rules.check_no_revision(revision)
        strategy.finish_create(attempt.obj)
        stored = await _insert(attempt, objects, NAME_ATTEMPTS if is_generated else 1)
        return Result(stored, HTTPStatus.CREATED, attempt.warnings)
    except BaseException:
        await attempt.undo()
        raise


def _prepare(attempt: WriteAttempt, namespace: str) -> None:
    """Where it will be, its defaults, and whose its fields are."""
    served, request = attempt.served, attempt.request
    attempt.merge_owners()
    metadata_rules.place(served, attempt.obj, namespace)
    metadata_rules.check_birth(served, attempt.obj)
    served.strategy.default(attempt.obj)
    if request.tracks_fields and not request.is_apply:
        track(attempt.obj, None, writer_of(served, request))


def _check_new(attempt: WriteAttempt) -> None:
    """Of kinds whose own rules never look at metadata, it is looked at when nothing else is wrong."""
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
    attempt.warnings.extend(unenforced(served.resource, obj))
    assert attempt.attributes is not None
    attempt.attributes.name = metadata(obj)["name"]


async def _insert(attempt: WriteAttempt, objects: ObjectStore, attempts: int) -> Encoded:
    """Store it under its name, or under another if the name was made up and is taken."""
    meta = metadata(attempt.obj)
    while True:
        key = attempt.served.key(meta.get("namespace", ""), meta["name"])
        try:
            return await objects.decided(key, partial(_insert_at, key, attempt, objects))
        except AlreadyExists:
            attempts -= 1
            if not attempts:
                raise
        metadata_rules.rename(meta)


async def _insert_at(key: str, attempt: WriteAttempt, objects: ObjectStore, there: Record | None) -> Encoded:
    served, obj, request = attempt.served, attempt.obj, attempt.request
    if there is not None:
        raise _taken(served.resource, metadata(obj), Encoded(there.value).obj())
    if request.options.dry_run:
        return request.version.shown(_unstored(served, obj))
    value = to_fit(served, obj, served.encode(obj), may_drop_managers=not request.is_apply)
    record = await objects.put(key, value, 0)
    return request.version.shown(Encoded(record.value))


def _taken(row: Resource, meta: Obj, there: Obj) -> AlreadyExists:
    is_going = bool(metadata(there).get("deletionTimestamp"))
    is_generated = bool(meta.get("generateName"))
    return AlreadyExists.of(row.plural, meta["name"], row.group, is_generated=is_generated, is_going=is_going)


def _unstored(served: Served, obj: Obj) -> Encoded:
    """The answer to a dry run: no version, for there is none."""
    return Encoded(without_marker(served.encode(obj)))
