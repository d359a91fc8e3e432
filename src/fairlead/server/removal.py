"""Carries out a DELETE: admission, what `deletion.decide` makes of the object, and the answer.

Source: apiserver `registry/generic/registry/store.go`, `Delete`.
"""

from __future__ import annotations

from fairlead.api.encoded import Encoded, encoded
from fairlead.api.errors import NotFound
from fairlead.api.objects import Obj, metadata
from fairlead.api.verbs import DeleteOptions
from fairlead.runtime.clock import now
from fairlead.server import deletion
from fairlead.server.admission.base import Admission, Operation
from fairlead.server.deletion import Outcome
from fairlead.server.records import Records, is_same
from fairlead.server.request import Write, attributes_of
from fairlead.server.served import Served
from fairlead.store.base import Record, RevisionMismatch, stamp, unstamped


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
        key = served.key(namespace, name)
        while True:
            record = await self._records.get(key)
            if record is None:
                raise NotFound.of(row.plural, name, row.group)
            obj = Encoded(record.value).obj()
            if not is_one_of_many:
                served.strategy.check_deletion(obj, self._options)
            deletion.check_preconditions(obj, row, self._options)
            attributes = attributes_of(served, obj, obj, self._write, Operation.DELETE)
            await self._admission.admit(attributes)
            await self._admission.validate(attributes)
            try:
                return await self._carried_out(key, obj, record)
            except RevisionMismatch:
                continue

    async def _carried_out(self, key: str, obj: Obj, record: Record) -> Encoded:
        served, options, shown = self._served, self._options, self._write.version.shown
        outcome = deletion.decide(obj, served.strategy, options, now())
        self._write.caller.lingers = outcome in (Outcome.PENDING, Outcome.MARK)
        if outcome is Outcome.PENDING:
            return shown(Encoded(record.value))
        if options.dry_run:
            last = encoded(obj)
        else:
            if outcome is not Outcome.REMOVE:
                record = await self._marked(key, obj, record)
            last = Encoded(record.value)
        if outcome is Outcome.MARK:
            return shown(last)
        if not options.dry_run:
            revision = await self._records.remove(key, record.revision)
            last = Encoded(stamp(unstamped(record.value, record.revision), revision))  # as of its end
        return shown(last) if served.strategy.returns_deleted else encoded(_deleted(served, obj))

    async def _marked(self, key: str, obj: Obj, record: Record) -> Record:
        value = self._served.encode(obj)
        return record if is_same(value, record) else await self._records.put(key, value, record.revision)


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
