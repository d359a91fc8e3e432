"""Carries out a DELETE: admission, what `deletion.decide` makes of the object, and the answer.

Source: apiserver `registry/generic/registry/store.go`, `Delete`.
"""

from __future__ import annotations

from fairlead.api.encoded import Encoded, encoded, restamped
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj, metadata
from fairlead.api.verbs import DeleteOptions
from fairlead.runtime.clock import now
from fairlead.server.admission.base import Admission, Operation
from fairlead.server.context import Write
from fairlead.server.registry.attempt import attributes_of
from fairlead.server.storage import deletion
from fairlead.server.storage.catalogue import Served
from fairlead.server.storage.deletion import Outcome
from fairlead.server.storage.object_store import Records, is_stored
from fairlead.store.base import Record


class Removal:
    """One request to delete objects of one kind."""

    def __init__(
        self, records: Records, admission: Admission, served: Served, options: DeleteOptions, write: Write
    ) -> None:
        self._records, self._admission = records, admission
        self._served, self._options, self._write = served, options, write

    async def of(self, namespace: str, name: str, *, is_one_of_many: bool = False) -> Encoded:
        """Delete that object, and again while somebody else is faster. What guards one guards no collection."""
        served, row = self._served, self._served.resource
        key, said = served.key(namespace, name), len(self._write.caller.warnings)

        async def decide(record: Record | None) -> Encoded:
            del self._write.caller.warnings[said:]
            if record is None:
                raise NotFound.of(row.plural, name, row.group)
            obj = served.decoded(record.value)
            if not is_one_of_many:
                served.strategy.check_deletion(obj, self._options)
            deletion.check_preconditions(obj, row, self._options)
            attributes = attributes_of(served, obj, obj, self._write, Operation.DELETE)
            await self._admission.admit(attributes)
            await self._admission.validate(attributes)
            return await self._carried_out(key, obj, record)

        return await self._records.decided(key, decide)

    async def _carried_out(self, key: str, obj: Obj, record: Record) -> Encoded:
        served, options, shown = self._served, self._options, self._write.version.shown
        outcome = deletion.decide(obj, served.strategy, options, now())
        self._write.caller.lingers = outcome in (Outcome.PENDING, Outcome.MARK)
        if outcome is Outcome.PENDING:
            return shown(Encoded(record.value))
        if options.dry_run:
            last = encoded(obj)
        elif outcome is Outcome.REMOVE:
            last = await self._removed(key, record)
        else:
            record = await self._marked(key, obj, record)
            last = Encoded(record.value) if outcome is Outcome.MARK else await self._finished(key, obj, record)
        if outcome is Outcome.MARK or served.strategy.returns_deleted:
            return shown(last)
        return encoded(_deleted(served, obj))

    async def _removed(self, key: str, record: Record) -> Encoded:
        """Take the object out; as of its end."""
        revision = await self._records.remove(key, record.revision)
        return Encoded(restamped(record.value, record.revision, revision))

    async def _finished(self, key: str, obj: Obj, marked: Record) -> Encoded:
        """Take out what is marked to go at once. Whoever saw the mark may be faster (the pod's node): so be it."""

        async def decide(record: Record | None) -> Encoded:
            if record is None or metadata(Encoded(record.value).obj())["uid"] != metadata(obj)["uid"]:
                return Encoded(marked.value)
            return await self._removed(key, record)

        return await self._records.decided(key, decide)

    async def _marked(self, key: str, obj: Obj, record: Record) -> Record:
        value = self._served.encode(obj)
        return record if is_stored(value, record) else await self._records.put(key, value, record.revision)


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
