"""The way from client-side apply to server-side apply.

`kubectl apply` writes what it applied into an annotation. Whoever goes on with `kubectl apply --server-side` owns those
fields only as an update; so that this is no conflict, what the annotation still says of the object counts as theirs,
and the annotation is kept up to date. Both hold for the manager `kubectl` alone.

Source: apimachinery `util/managedfields/internal/lastappliedmanager.go`, `lastappliedupdater.go`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.encoded import copied
from fairlead.api.objects import Obj
from fairlead.golang.json import MalformedJson, parse
from fairlead.server.apply.conflicts import ApplyConflict
from fairlead.server.apply.elements import html_safe
from fairlead.server.apply.entries import APPLY, identity, new_entry
from fairlead.server.apply.fieldsets import LEAF, Fields, difference
from fairlead.server.apply.forms import VersionForm
from fairlead.server.apply.managers import STRIPPED
from fairlead.server.apply.shapes import SchemaMismatch
from fairlead.server.apply.typed import compare, field_set
from fairlead.server.apply.validate import problems_of

MANAGER: Final = "kubectl"
_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
#: All annotations of an object together (apimachinery api/validation/objectmeta.go).
_MOST_ANNOTATED_BYTES: Final = 256 * 1024
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode


def unresolved(conflict: ApplyConflict, live: Obj, form: VersionForm) -> ApplyConflict | None:
    """The conflict without the fields that the annotation shows to be of client-side apply; None if none are left."""
    fields = _still_applied(live, form)
    remaining = {manager: difference(lost, fields) for manager, lost in conflict.conflicts.items()}
    remaining = {manager: lost for manager, lost in remaining.items() if lost}
    return ApplyConflict(remaining) if remaining else None


def _still_applied(live: Obj, form: VersionForm) -> Fields:
    """The fields that client-side apply wrote and nobody has changed since."""
    last = _last(live, form)
    if last is None:
        return LEAF
    fields = field_set(last, form.atom)
    try:
        changes = compare(last, live, form.atom)
    except SchemaMismatch:
        return LEAF
    for changed in (changes.modified, changes.added, changes.removed):
        fields = difference(fields, changed)
    return fields


def _last(live: Obj, form: VersionForm) -> Obj | None:
    """What client-side apply wrote last; None if that is not known, or makes no sense in this version."""
    try:
        last = parse((_annotations(live).get(_ANNOTATION) or "null").encode())
        is_sound = isinstance(last, dict) and last.get("apiVersion") == form.api_version
        return last if is_sound and not problems_of(last, form.atom) else None
    except (MalformedJson, SchemaMismatch):
        return None


def as_applied_by(manager: str, live: Obj, form: VersionForm) -> Obj | None:
    """The entry among the owners of the fields with which `manager` takes the place of client-side apply: what its next
    configuration leaves out goes. None where nobody applied the object so.
    """
    last = _last(live, form)
    if last is None:
        return None
    fields = difference(field_set(last, form.atom), STRIPPED)
    return new_entry(identity(manager, APPLY, form.api_version, ""), form.api_version, fields, None)


def keep_annotation(merged: Obj, config: Obj) -> Obj:
    """The merged object with its annotation, if it has one, updated to this configuration."""
    annotations = _annotations(merged)
    if not annotations.get(_ANNOTATION):
        return merged
    configuration = copied(config)
    _annotations(configuration).pop(_ANNOTATION, None)
    annotations = annotations | {_ANNOTATION: html_safe(_encode_sorted(configuration).decode()) + "\n"}
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MOST_ANNOTATED_BYTES:
        del annotations[_ANNOTATION]
    return merged | {"metadata": merged["metadata"] | {"annotations": annotations}}


def _annotations(obj: Obj) -> dict[str, str]:
    found: dict[str, str] = (obj.get("metadata") or {}).get("annotations") or {}
    return found
