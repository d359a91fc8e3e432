"""The metadata of an object inside a custom object obeys the rules of metadata, whatever kind the object is of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fairlead.api import names
from fairlead.api.encoded import copied
from fairlead.api.fields import Errors
from fairlead.api.resources import Resource
from fairlead.kinds.meta import validate_meta
from fairlead.server.codec.normalise import DecodeReport, walker
from fairlead.server.codec.wire import OBJECT_META
from fairlead.server.crds.values import Problems

#: Stands for whatever is embedded: nobody asks which kind it is.
_ANY = Resource(group="", version="v1", plural="embedded", kind="")


def check_metadata(meta: dict[str, Any], path: str, found: Problems) -> None:
    """Add what is wrong with it; a name may be missing (`validateEmbeddedResource` in schema/objectmeta)."""
    report = DecodeReport()
    meta = copied(meta)
    walker(OBJECT_META)(meta, None, report)
    if report.mismatch:
        found.invalid(path, meta, report.mismatch)
        return
    errors = Errors()
    obj = {"metadata": meta | {"name": meta.get("name") or "fakename"}}
    row = replace(_ANY, namespaced=bool(meta.get("namespace")))
    validate_meta(obj, errors, resource=row, rule=names.path_segment_name)
    for error in errors:
        found.report(error.reason, path + error.field.removeprefix("metadata"), error.message)
