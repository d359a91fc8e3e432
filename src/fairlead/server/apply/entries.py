"""`metadata.managedFields`: who owns which fields, as entries that are decoded only as far as needed.

An entry belongs to an identity: the manager, what it does (apply or update), the subresource it does it through, and
for updates the version it speaks. Source: apimachinery `util/managedfields/internal/{managedfields,capmanagers}.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from fairlead.api.objects import Obj
from fairlead.server.apply.elements import MalformedFields
from fairlead.server.apply.fieldsets import LEAF, Fields, read, union_of

APPLY: Final = "Apply"
UPDATE: Final = "Update"
_FIELDS_TYPE: Final = "FieldsV1"
#: More entries from updates than this are merged, the oldest first.
MOST_UPDATERS: Final = 10
_BUCKET: Final = "ancient-changes"
_NOBODY: Final = "unknown"


class Identity(NamedTuple):
    """Whose entry it is. Identities sort as upstream sorts their JSON."""

    manager: str
    operation: str
    api_version: str  # of updates only: an applier keeps its entry when it moves to another version
    subresource: str


#: The entries of an object. They are replaced, never changed.
Managed = dict[Identity, Obj]


def identity(manager: str, operation: str, api_version: str, subresource: str) -> Identity:
    return Identity(manager or _NOBODY, operation, api_version if operation == UPDATE else "", subresource)


def decoded(entries: Iterable[Obj] | None) -> Managed:
    """The entries of a stored object."""
    return {_identity_of(entry): entry for entry in entries or ()}


def received(entries: Iterable[Obj]) -> Managed:
    """Entries that a client wrote; `MalformedFields` if they are none."""
    found: Managed = {}
    for index, entry in enumerate(entries):
        if entry.get("operation") not in (APPLY, UPDATE):
            raise MalformedFields("operation must be `Apply` or `Update`")
        if not entry.get("apiVersion"):
            raise MalformedFields("apiVersion must not be empty")
        if not (type_ := entry.get("fieldsType")):
            raise MalformedFields(f"missing fieldsType in managed fields entry {index}")
        if type_ != _FIELDS_TYPE:
            raise MalformedFields(f'invalid fieldsType "{type_}" in managed fields entry {index}')
        found[_identity_of(entry)] = with_fields(entry, read(entry.get("fieldsV1")))
    return found


def encoded(managed: Managed) -> list[Obj]:
    """The entries in upstream's order: appliers first, then by time."""
    if len(managed) == 1:
        return list(managed.values())
    return sorted(managed.values(), key=_position)


def fields_of(entry: Obj) -> Fields:
    found: Fields = entry.get("fieldsV1") or LEAF
    return found


def with_fields(entry: Obj, fields: Fields) -> Obj:
    """The entry with other fields."""
    return {**entry, "fieldsV1": fields}


def new_entry(owner: Identity, api_version: str, fields: Fields, time: str | None) -> Obj:
    entry: Obj = {"manager": owner.manager, "operation": owner.operation, "apiVersion": api_version}
    if time:
        entry["time"] = time
    entry["fieldsType"] = _FIELDS_TYPE
    entry["fieldsV1"] = fields
    if owner.subresource:
        entry["subresource"] = owner.subresource
    return entry


def capped(managed: Managed) -> Managed:
    """The entries with the oldest updates merged, one bucket a version, so that few enough are left."""
    updates = [owner for owner in managed if owner.operation == UPDATE]
    excess = len(updates) - MOST_UPDATERS
    if excess <= 0:
        return managed
    found = dict(managed)
    first_of: dict[str, Identity] = {}
    merged: dict[Identity, list[Fields]] = {}
    for owner in sorted(updates, key=lambda owner: (managed[owner].get("time") or "", owner)):
        if excess <= 0:
            break
        entry = managed[owner]
        version = entry["apiVersion"]
        first = first_of.setdefault(version, owner)
        if first is owner:
            continue
        bucket = Identity(_BUCKET, UPDATE, version, "")
        if bucket not in merged:
            merged[bucket] = [fields_of(found[bucket] if bucket in found else found.pop(first))]
        merged[bucket].append(fields_of(entry))
        found.pop(owner, None)
        found[bucket] = new_entry(bucket, version, LEAF, entry.get("time"))
        excess -= 1
    for bucket, sets in merged.items():
        found[bucket] = with_fields(found[bucket], union_of(sets))
    return found


def _identity_of(entry: Mapping[str, Any]) -> Identity:
    operation = entry.get("operation", "")
    version = entry["apiVersion"] if operation == UPDATE else ""
    return Identity(entry.get("manager", ""), operation, version, entry.get("subresource", ""))


def _position(entry: Obj) -> tuple[str, ...]:
    values = (entry.get(key) or "" for key in ("operation", "time", "manager", "apiVersion", "subresource"))
    return tuple(values)
