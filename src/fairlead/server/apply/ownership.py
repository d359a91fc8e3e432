"""Field ownership as the registry sees it: one call for every ordinary write, one for an apply.

`metadata.managedFields` is worked out before admission, from what the client sent with its defaults filled in: what
admission adds belongs to nobody. Writes of a kind that nobody tracks (objects that lost all their entries) stay
untracked until the next apply. KEP-555; apimachinery `util/managedfields/internal/fieldmanager.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.api.encoded import copied
from fairlead.api.errors import Unknown
from fairlead.api.objects import Obj, metadata
from fairlead.server.apply import last_applied
from fairlead.server.apply.bodies import called, check_config
from fairlead.server.apply.conflicts import ApplyConflict
from fairlead.server.apply.elements import MalformedFields
from fairlead.server.apply.entries import Managed, decoded, encoded, received
from fairlead.server.apply.forms import VersionForm
from fairlead.server.apply.managers import FieldManager, applied, updated
from fairlead.server.apply.merge import merge
from fairlead.server.apply.shapes import Atom, ListShape, MapShape, SchemaMismatch
from fairlead.server.apply.typed import field_set, kind_of

_KEY = "managedFields"


def track(new: Obj, old: Obj | None, writer: FieldManager) -> None:
    """Set the owners of an object that is about to be created, or to replace `old`; both in their stored form.

    Without `old` the object is new. An object that cannot be understood (it will be refused) keeps the owners it had.
    """
    before = metadata(old).get(_KEY) if old else None
    managed, others = _apart(_given(metadata(new).pop(_KEY, None), before, writer), writer)
    if managed or others or not old:
        try:
            managed = updated(old, new, managed, writer)
        except SchemaMismatch:
            managed, others = decoded(before), {}
    _put(new, others | managed)


def apply(live: Obj | None, config: Obj, kind: str, writer: FieldManager, *, force: bool) -> Obj:
    """The object with a configuration merged into it, and its owners; both in the version of the writer.

    The result is the caller's to change. What cannot be applied is an `ApiError`: conflicts, and what makes no sense.
    """
    check_config(config, kind, writer.form)
    live = writer.form.zero() if live is None else live
    managed, others = _apart(decoded(metadata(live).get(_KEY)), writer)
    bare = live | {"metadata": {key: value for key, value in metadata(live).items() if key != _KEY}}
    try:
        merged, managed = _resolved(bare, config, managed, writer, force=force, is_tracked=bool(others))
    except SchemaMismatch as error:
        raise Unknown(f"failed to create typed live object ({called(config)}): {error}") from None
    if writer.manager == last_applied.MANAGER:
        merged = last_applied.keep_annotation(merged, config)
    merged = copied(merged)
    _put(merged, others | managed)
    return merged


def merged(obj: Obj, config: Obj, form: VersionForm) -> Obj:
    """The object with a configuration merged into it, of which nobody becomes the owner; the caller's to change.

    ValueError, in the words of apiserver's admission/plugin/policy/mutating/patch, for one that cannot be merged.
    """
    try:
        field_set(config, form.atom)
    except SchemaMismatch as error:
        raise ValueError(f"failed to convert patch object to typed object: {error}") from None
    if atomics := list(_atomics(config, form.atom, "")):
        raise ValueError(
            f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        )
    try:
        return copied(merge(obj, config, form.atom))
    except SchemaMismatch as error:
        raise ValueError(f"failed to merge patch: {error}") from None


def _atomics(value: Any, atom: Atom | None, path: str) -> Iterator[str]:
    """The paths of what can be set as a whole alone: who names some of it would lose the rest."""
    kind = kind_of(value, atom)
    if isinstance(kind, MapShape) and isinstance(value, dict):
        if kind.is_atomic:
            yield path
        for key, item in value.items():
            if key in kind.children.declared:
                yield from _atomics(item, kind.children[key], f"{path}.{key}")
    elif isinstance(kind, ListShape) and isinstance(value, list):
        if kind.is_atomic:
            yield path
        for index, item in enumerate(value):
            yield from _atomics(item, kind.items, f"{path}[{index}]")


def _apart(managed: Managed, writer: FieldManager) -> tuple[Managed, Managed]:
    """The owners whose fields can be compared, and those in versions into which only a webhook converts."""
    if not writer.form.is_apart:
        return managed, {}
    version = writer.form.api_version
    others = {owner: entry for owner, entry in managed.items() if entry["apiVersion"] != version}
    return {owner: entry for owner, entry in managed.items() if owner not in others}, others


def _resolved(
    live: Obj, config: Obj, managed: Managed, writer: FieldManager, *, force: bool, is_tracked: bool
) -> tuple[Obj, Managed]:
    try:
        return applied(live, config, managed, writer, force=force, is_tracked=is_tracked)
    except ApplyConflict as conflict:
        if writer.manager != last_applied.MANAGER:
            raise conflict.refusal() from None
        unresolved = last_applied.unresolved(conflict, live, writer.form)
        if unresolved is not None:
            raise unresolved.refusal() from None
    return applied(live, config, managed, writer, force=True, is_tracked=is_tracked)


def mark_reset(sent: Obj) -> None:
    """Keep an empty managedFields list, which resets the owners, through normalisation, which drops empty lists."""
    meta = sent.get("metadata")
    if isinstance(meta, dict) and meta.get(_KEY) == []:
        meta[_KEY] = [{}]


def keep_unchanged_timestamps(new: Obj, old: Obj) -> None:
    """Keep the old times of entries if nothing but times differs, so that such an update writes nothing."""
    new_entries, old_entries = metadata(new).get(_KEY), metadata(old).get(_KEY)
    if not new_entries or not old_entries or len(new_entries) != len(old_entries) or new_entries == old_entries:
        return
    timeless = [
        {**entry, "time": old_entry.get("time")} for entry, old_entry in zip(new_entries, old_entries, strict=True)
    ]
    if timeless == [{"time": None, **old_entry} for old_entry in old_entries] and _bare(new) == _bare(old):
        metadata(new)[_KEY] = old_entries


def _bare(obj: Obj) -> tuple[Obj, Obj]:
    meta = {key: value for key, value in metadata(obj).items() if key not in (_KEY, "resourceVersion")}
    return meta, {key: value for key, value in obj.items() if key not in ("metadata", "apiVersion", "kind")}


def _given(sent: list[Obj] | None, before: list[Obj] | None, writer: FieldManager) -> Managed:
    """The owners before a write: those that the client sent if it may set them and they are valid, else the stored."""
    if writer.subresource or sent is None or sent == before:
        return decoded(before)
    if not sent or (len(sent) == 1 and not any(sent[0].values())):
        return {}  # the client resets the owners
    try:
        return received(sent) or decoded(before)
    except MalformedFields:
        return decoded(before)


def _put(obj: Obj, managed: Managed) -> None:
    if managed:
        metadata(obj)[_KEY] = encoded(managed)
