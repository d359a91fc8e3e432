"""What the steps of a write share."""

from __future__ import annotations

from fairlead.api.objects import Obj, metadata
from fairlead.server.admission.base import Attributes, Operation
from fairlead.server.context import Write
from fairlead.server.storage.catalogue import Served


def attributes_of(served: Served, obj: Obj, old: Obj | None, write: Write, operation: Operation) -> Attributes:
    """What admission sees of a write."""
    meta = metadata(obj)
    return Attributes(
        operation,
        served.resource,
        meta.get("namespace", ""),
        meta.get("name", ""),
        obj,
        old,
        write.subresource,
        write.options.dry_run,
        write.caller.user,
        write.caller.warnings,
    )
