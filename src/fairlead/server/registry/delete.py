"""Carries out a DELETE: admission, what `deletion.decide` makes of the object, and the answer.

Source: apiserver `registry/generic/registry/store.go`, `Delete`.
"""

from __future__ import annotations

from http import HTTPStatus

from fairlead.api.encoded import Encoded, encoded, restamped
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj, metadata
from fairlead.api.verbs import DeleteOptions
from fairlead.runtime.clock import now
from fairlead.server.admission.base import Admission, Operation
from fairlead.server.admission.evaluation import RequestTime
from fairlead.server.context import Result, WriteRequest
from fairlead.server.registry.attempt import WriteAttempt
from fairlead.server.storage import deletion
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.deletion import Outcome
from fairlead.server.storage.object_store import ObjectStore, is_stored
from fairlead.store.base import Record


class DeleteRequest:
    """One request to delete objects of one kind."""

    def __init__(
        self, admission: Admission, objects: ObjectStore, served: Served, options: DeleteOptions, request: WriteRequest
    ) -> None:
        deletion.check_options(options)
        self._admission, self._objects = admission, objects
        self._served, self._options, self._request = served, options, request
        is_warned = served.strategy.deletion_warning and options.propagation_policy is None
        #: The warning that every deletion of this kind gets.
        self.warnings = [served.strategy.deletion_warning] if is_warned else []

    async def carry_out(self, namespace: str, name: str, *, is_one_of_many: bool = False) -> Result[Encoded]:
        """Delete that object; tries again while other writers are faster. `is_one_of_many`: part of a deletecollection.

        ACCEPTED if it is still there: finalizers or a grace period keep it.
        """
        served, row = self._served, self._served.resource
        key, time = served.key(namespace, name), RequestTime(self._request.context.user.name)

        async def decide(record: Record | None) -> Result[Encoded]:
            attempt = WriteAttempt(self._admission, served, self._request, time=time)
            attempt.delete_options = self._options
            attempt.warnings += self.warnings
            with attempt:
                if record is None:
                    raise NotFound.of(row.plural, name, row.group)
                attempt.obj = attempt.old = obj = served.decoded(record.value)
                if not is_one_of_many:
                    served.strategy.check_deletion(obj, self._options)
                deletion.check_preconditions(obj, row, self._options)
                await attempt.admit(Operation.DELETE)
                await attempt.validate_admission()
                return await self._carried_out(key, attempt, record)

        return await self._objects.decided(key, decide)

    async def _carried_out(self, key: str, attempt: WriteAttempt, record: Record) -> Result[Encoded]:
        served, options, obj, present = self._served, self._options, attempt.obj, self._request.version.present
        outcome = deletion.decide(obj, served.strategy, options, now())
        if outcome is Outcome.PENDING:
            return Result(await present(Encoded(record.value)), HTTPStatus.ACCEPTED, attempt.warnings)
        if options.dry_run:
            last = encoded(obj)
        elif outcome is Outcome.REMOVE:
            last = await self._removed(key, record)
        else:
            record = await self._marked(key, obj, record)
            last = Encoded(record.value) if outcome is Outcome.MARK else await self._finished(key, obj, record)
        if outcome is Outcome.MARK:
            return Result(await present(last), HTTPStatus.ACCEPTED, attempt.warnings)
        answer = await present(last) if served.strategy.returns_deleted else encoded(_deleted(served, obj))
        return Result(answer, HTTPStatus.OK, attempt.warnings)

    async def _removed(self, key: str, record: Record) -> Encoded:
        """Remove the object; returns its last state, at the revision of its deletion."""
        revision = await self._objects.remove(key, record.revision)
        return Encoded(restamped(record.value, record.revision, revision))

    async def _finished(self, key: str, obj: Obj, marked: Record) -> Encoded:
        """Remove an object that was marked with grace 0, unless another (the pod's node) did so first."""

        async def decide(record: Record | None) -> Encoded:
            if record is None or metadata(Encoded(record.value).obj())["uid"] != metadata(obj)["uid"]:
                return Encoded(marked.value)
            return await self._removed(key, record)

        return await self._objects.decided(key, decide)

    async def _marked(self, key: str, obj: Obj, record: Record) -> Record:
        value = self._served.encode(obj)
        return record if is_stored(value, record) else await self._objects.put(key, value, record.revision)


def _deleted(served: Served, obj: Obj) -> Obj:
    """The `Status` of a deletion that is complete."""
    meta, row = metadata(obj), served.resource
    details = {"name": meta["name"], "group": row.group, "kind": row.plural, "uid": meta.get("uid", "")}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
