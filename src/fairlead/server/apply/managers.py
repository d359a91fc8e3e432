"""The owners after a write: `managedFields` computed on plain sets, for updates and for applies.

    update   the writer owns what it changed; everybody else loses it
    apply    the writer owns exactly what it named; what it no longer names and nobody else owns is removed;
             changing what others own is a conflict, unless forced

Source: structured-merge-diff `merge/update.go`, with the wrappers of apimachinery `util/managedfields/internal`
(stripmeta, managedfieldsupdater, skipnonapplied). KEP-555.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead.api.encoded import encode
from fairlead.api.objects import Obj, metadata
from fairlead.server.apply.conflicts import ApplyConflict
from fairlead.server.apply.entries import (
    APPLY,
    UPDATE,
    Identity,
    Managed,
    capped,
    fields_of,
    identity,
    new_entry,
    with_fields,
)
from fairlead.server.apply.fieldsets import Fields, difference, intersection, of_paths, union
from fairlead.server.apply.forms import Forms, VersionForm
from fairlead.server.apply.merge import merge, remove, with_named
from fairlead.server.apply.reconcile import reconciled
from fairlead.server.apply.resets import Reset
from fairlead.server.apply.typed import Changes, compare, field_set

#: Fields that nobody owns: they identify the object, or are the server's.
STRIPPED: Final = of_paths(
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
            "resourceVersion",
        )
    ),
)  # fmt: skip
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
#: The largest new object whose fields its form remembers.
_LARGEST_BYTES: Final = 8192


class FieldManager(msgspec.Struct, frozen=True):
    """The manager of a write: its name, and the endpoint, version and time of the write."""

    manager: str
    form: VersionForm
    forms: Forms
    now: str
    subresource: str = ""
    reset: Reset | None = None

    def identity(self, operation: str) -> Identity:
        return identity(self.manager, operation, self.form.api_version, self.subresource)

    def counted(self, fields: Fields) -> Fields:
        """The part of a set that this endpoint does not reset."""
        return self.reset(fields) if self.reset and fields else fields


def updated(old: Obj | None, new: Obj, managed: Managed, writer: FieldManager) -> Managed:
    """The owners after a write that creates `new` or replaces `old` by it, both in their stored form."""
    if old is None and not managed and not writer.form.is_custom:
        fields = _born(new, writer)
    else:
        changes = _Comparisons(old, new, None, writer)
        managed = _taken(_reconciled(managed, writer), changes, None, is_forced=True)
        fields = _changed(changes, writer)
    if fields:
        me = writer.identity(UPDATE)
        if me in managed:
            fields = union(fields_of(managed[me]), fields)
        managed[me] = new_entry(me, writer.form.api_version, fields, writer.now)
    return capped(managed)


def _changed(changes: _Comparisons, writer: FieldManager) -> Fields:
    """The ownable fields that a write changed."""
    own = changes.of(writer.form.api_version) or Changes()
    return difference(writer.counted(union(own.modified, own.added)), STRIPPED)


def _born(new: Obj, writer: FieldManager) -> Fields:
    """The fields that a create owns; cached, for they are the same for objects that differ in their names alone."""
    meta = {key: _named(value) for key, value in metadata(new).items()}
    key = encode((writer.subresource, {**new, "metadata": meta}))
    known = writer.form.births
    found = known.get(key)
    if found is None:
        found = _changed(_Comparisons(None, new, None, writer), writer)
        if len(key) <= _LARGEST_BYTES:
            known.put(key, found)
    return found


def _named(value: Any) -> Any:
    """A value of metadata without what does not decide about ownership: texts are emptied, the keys of maps stay."""
    return "" if type(value) is str else list(value) if type(value) is dict else value


def applied(
    live: Obj, config: Obj, managed: Managed, writer: FieldManager, *, force: bool, is_tracked: bool = False
) -> tuple[Obj, Managed]:
    """The merged object and its owners, all in the version of the writer. `ApplyConflict` if others own changed fields.

    `live` is the zero object where there is none; `is_tracked`: it has owners beside those given. The merged object is
    `live` itself if nothing changed, and may share values with both arguments.
    """
    if not managed and not is_tracked:
        managed = _before_first_apply(live, writer)
    managed = _reconciled(managed, writer)
    me, version = writer.identity(APPLY), writer.form.api_version
    last = managed.get(me)
    time = last.get("time") if last else None
    managed[me] = new_entry(me, version, writer.counted(field_set(config, writer.form.atom)), time)
    merged = merge(live, config, writer.form.atom)
    if last is not None and not _is_named_again(last, managed, me):
        merged = _pruned(merged, managed, last, writer)
    managed = _taken(managed, _Comparisons(live, merged, writer.form, writer), me, is_forced=force)
    has_changed = encode(live) != encode(merged)
    own_entry = managed.pop(me, None)
    if own_entry is not None and (fields := difference(fields_of(own_entry), STRIPPED)):
        managed[me] = new_entry(me, version, fields, writer.now if has_changed else time)
    return merged if has_changed else live, managed


def _before_first_apply(live: Obj, writer: FieldManager) -> Managed:
    """Fields that exist before the first apply get an owner, so that overwriting them is a conflict."""
    first = FieldManager(_BEFORE_FIRST_APPLY, writer.form, writer.forms, writer.now, writer.subresource, writer.reset)
    changes = compare(writer.form.zero(), live, writer.form.atom)
    fields = difference(first.counted(union(changes.modified, changes.added)), STRIPPED)
    owner = first.identity(UPDATE)
    return {owner: new_entry(owner, writer.form.api_version, fields, writer.now)} if fields else {}


class _Comparisons:
    """The changes, in each version that an owner uses; computed when first needed."""

    def __init__(self, old: Obj | None, new: Obj, form: VersionForm | None, writer: FieldManager) -> None:
        self._old, self._new, self._form, self._writer = old, new, form, writer
        self._made: dict[str, Changes | None] = {}

    def of(self, api_version: str) -> Changes | None:
        """The changes in one version; None if that version is gone."""
        if api_version not in self._made:
            self._made[api_version] = self._compared(api_version)
        return self._made[api_version]

    def _compared(self, api_version: str) -> Changes | None:
        form = self._writer.forms(api_version)
        if form is None:
            return None
        old = form.zero() if self._old is None else form.of(self._old, self._form)
        changes = compare(old, form.of(self._new, self._form), form.atom)
        counted = self._writer.counted
        return Changes(counted(changes.removed), counted(changes.modified), counted(changes.added))


def _taken(managed: Managed, changes: _Comparisons, me: Identity | None, *, is_forced: bool) -> Managed:
    """The owners without what was changed or removed under them. `me` is whoever did it, if it has an entry."""
    remaining: Managed = {}
    conflicts: dict[Identity, Fields] = {}
    for owner, entry in managed.items():
        if owner == me:
            remaining[owner] = entry
            continue
        change = changes.of(entry["apiVersion"])
        if change is None:
            continue
        owned = fields_of(entry)
        lost = intersection(owned, union(change.modified, change.added))
        if lost:
            conflicts[owner] = lost
        fields = difference(difference(owned, lost), change.removed)
        if fields is owned:
            remaining[owner] = entry
        elif fields:
            remaining[owner] = with_fields(entry, fields)
    if conflicts and not is_forced:
        raise ApplyConflict(conflicts)
    return {owner: entry for owner, entry in remaining.items() if fields_of(entry)}


def _reconciled(managed: Managed, writer: FieldManager) -> Managed:
    """The owners, with sets that fit the schemas of today; only those of custom kinds ever change."""
    if not writer.form.is_custom:
        return dict(managed)
    found: Managed = {}
    for owner, entry in managed.items():
        version_form = writer.forms(entry["apiVersion"])
        if version_form is not None:
            fields = reconciled(fields_of(entry), version_form.atom)
            found[owner] = entry if fields is fields_of(entry) else with_fields(entry, fields)
    return found


# --- what an applier no longer names --------------------------------------------------------------------------------


def _is_named_again(last: Obj, managed: Managed, me: Identity) -> bool:
    """Whether this manager still names all that it applied last time, so that nothing can be left without an owner.

    Only where everybody speaks the same version: what is lost in a conversion may be an owned field.
    """
    versions = {entry["apiVersion"] for entry in (last, *managed.values())}
    return len(versions) == 1 and not difference(fields_of(last), fields_of(managed[me]))


def _pruned(merged: Obj, managed: Managed, last: Obj, writer: FieldManager) -> Obj:
    """The merged object without the fields that this manager applied last time and that nobody owns now."""
    form = writer.forms(last["apiVersion"])
    if form is None:
        return merged
    converted = form.of(merged, writer.form)
    named = with_named(fields_of(last), form.atom)
    remaining = remove(converted, named, form.atom)
    remaining = _with_owned(converted, remaining, form, managed, writer.forms)
    return writer.form.of(_with_dangling(converted, remaining, named, form), form)


def _with_owned(merged: Obj, remaining: Obj, form: VersionForm, managed: Managed, forms: Forms) -> Obj:
    """Put back the fields that any manager owns, in any version; the present version first."""
    owned: dict[str, Fields] = {form.api_version: {}}
    for entry in managed.values():
        version = entry["apiVersion"]
        owned[version] = union(owned.get(version, {}), fields_of(entry))
    at = form
    for version, fields in owned.items():
        version_form = forms(version)
        if version_form is None:
            continue
        merged, remaining, at = version_form.of(merged, at), version_form.of(remaining, at), version_form
        every = with_named(field_set(merged, version_form.atom), version_form.atom)
        kept = union(
            with_named(field_set(remaining, version_form.atom), version_form.atom),
            with_named(fields, version_form.atom),
        )
        remaining = remove(merged, difference(every, kept), version_form.atom)
    return form.of(remaining, at)


def _with_dangling(merged: Obj, remaining: Obj, named: Fields, form: VersionForm) -> Obj:
    """Put back fields that were never applied and were removed only because they lie below an applied one."""
    before = with_named(field_set(merged, form.atom), form.atom)
    after = with_named(field_set(remaining, form.atom), form.atom)
    return remove(merged, intersection(difference(before, after), named), form.atom)
