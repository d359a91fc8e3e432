"""The metadata fields that the server owns: what it sets on create, keeps on update, and refuses to be sent.

Clients may send anything in these fields. Most functions take the metadata of the written object (`meta`), and may
change it. Source: apiserver `registry/rest/{create,meta,update}.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairlead.api.errors import MODIFIED, BadRequest, Conflict, Forbidden, Unknown
from fairlead.api.fields import Errors, invalid
from fairlead.api.objects import Obj, metadata
from fairlead.api.resources import Resource
from fairlead.golang.numbers import parse_uint
from fairlead.runtime import rng
from fairlead.runtime.clock import timestamp
from fairlead.server.storage.catalogue import Served

#: A generated name is cut so that the random suffix fits into 63 characters.
GENERATED_PREFIX_LENGTH = 58


def ensure_namespace(served: Served, meta: Obj, namespace: str) -> None:
    """Set the namespace of the request, or refuse if the object names another."""
    if not served.resource.namespaced:
        meta.pop("namespace", None)
        return
    if meta.setdefault("namespace", namespace) != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def check_not_terminating(served: Served, meta: Obj) -> None:
    """Refuse a new object of a custom kind whose definition is being deleted."""
    if served.is_terminating:
        why = "create not allowed while custom resource definition is terminating"
        raise Forbidden.of(served.resource.plural, meta.get("name", ""), why, served.resource.group)


def fill_system_fields(served: Served, meta: Obj) -> None:
    """Set the metadata that only the server may give a new object (`FillObjectMetaSystemFields`)."""
    for key in ("resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
        meta.pop(key, None)
    if not meta.get("name") and meta.get("generateName"):
        generate_name(meta)
    meta["uid"] = rng.uid()
    meta["creationTimestamp"] = timestamp()
    if served.strategy.has_generation:
        meta["generation"] = 1


def reset_status(served: Served, obj: Obj) -> None:
    """A new object has the empty status of its kind, whatever the client sent."""
    if not served.strategy.has_status:
        return
    if served.zero_status is None:
        obj.pop("status", None)
    else:
        obj["status"] = dict(served.zero_status)


def check_new_has_no_revision(text: str) -> None:
    """Refuse to create an object that has a resourceVersion; one that cannot be read counts as none."""
    try:
        revision = parse_uint(text) if text else 0
    except ValueError:
        return
    if revision:
        raise Unknown("resourceVersion should not be set on objects to be created")


def generate_name(meta: Obj) -> None:
    """Set a random name that begins with `generateName`."""
    meta["name"] = meta["generateName"][:GENERATED_PREFIX_LENGTH] + rng.name_suffix()


def check_revision(served: Served, meta: Obj, current: int, *, is_whole: bool) -> None:
    """Refuse an update whose resourceVersion is not the current one.

    Some kinds require one, but not of a body that is not the object itself (`is_whole` false: a Scale).
    """
    row, name, text = served.resource, meta.get("name", ""), meta.get("resourceVersion") or ""
    if not text or text == "0":
        if served.strategy.allows_unconditional_update or not is_whole:
            return
        errors = Errors()
        errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(row.plural, name, errors, row.group)  # of the resource: upstream's error has no place for it
    if _revision_in(text) != current:
        raise Conflict.of(row.plural, name, MODIFIED, row.group)


def _revision_in(text: str) -> int:
    try:
        return parse_uint(text)
    except ValueError as error:
        raise Unknown(str(error)) from None


def merge_owner_references(meta: Obj) -> list[str]:
    """Keep each owner reference once; returns the UIDs of the repeated ones."""
    owners = meta.get("ownerReferences")
    if not owners or len(owners) < 2:
        return []
    kept: dict[frozenset[Any], Obj] = {}
    repeated = []
    for owner in owners:
        if (fields := frozenset(owner.items())) in kept:
            repeated.append(owner.get("uid", ""))
        kept.setdefault(fields, owner)
    meta["ownerReferences"] = list(kept.values())
    return repeated


def keep_system_fields(served: Served, meta: Obj, old_meta: Obj) -> None:
    """Metadata of an update: from the old object where the client may not set it, or left it out.

    A deletionTimestamp on a live object is left in place: validation refuses it.
    """
    if served.strategy.allows_unconditional_update:
        meta["resourceVersion"] = old_meta["resourceVersion"]
    for key in ("name", "namespace", "uid", "deletionGracePeriodSeconds"):
        if key in old_meta and not meta.get(key):
            meta[key] = old_meta[key]
    for key in ("creationTimestamp", "deletionTimestamp"):
        if key in old_meta:
            meta[key] = old_meta[key]
    for key in ("generation", "selfLink"):
        if key in old_meta:
            meta[key] = old_meta[key]
        else:
            meta.pop(key, None)


def check_uid(served: Served, meta: Obj, old_meta: Obj) -> None:
    """Refuse an update that means another object of the same name."""
    _check_precondition(served, "UID", meta.get("uid"), old_meta["uid"], old_meta)


def check_create_on_update(served: Served, meta: Obj, namespace: str, name: str) -> None:
    """Refuse an update that would create an object, but has a uid or a malformed resourceVersion."""
    check_uid(served, meta, {"name": name, "namespace": namespace, "uid": ""})
    _revision_in(meta.get("resourceVersion") or "0")


def check_binding_target(served: Served, binding_meta: Obj, pod_meta: Obj) -> None:
    """Refuse a binding that means another pod of the same name, or another version of it."""
    check_uid(served, binding_meta, pod_meta)
    required, found = binding_meta.get("resourceVersion"), pod_meta["resourceVersion"]
    _check_precondition(served, "ResourceVersion", required, found, pod_meta)


def _check_precondition(served: Served, field: str, required: str | None, found: str, old_meta: Obj) -> None:
    """`Preconditions.Check` of apiserver's pkg/storage."""
    if not required or required == found:
        return
    row, name = served.resource, old_meta["name"]
    why = (
        f"StorageError: invalid object, Code: 4, Key: {served.path(old_meta.get('namespace', ''), name)}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {field} in precondition: {required}, "
        f"{field} in object meta: {found}"
    )
    raise Conflict.of(row.plural, name, why, row.group)


def check_identity(meta: Obj, resource: Resource, name: str, namespace: str) -> None:
    """Refuse an update whose body names another object than its URL; it may leave out the namespace, not the name."""
    if not resource.namespaced:
        meta.pop("namespace", None)
    elif (meta.get("namespace") or namespace) != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    else:
        meta["namespace"] = namespace
    sent_name = meta.get("name")
    if not sent_name:
        raise BadRequest(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if sent_name != name:
        raise BadRequest(f"the name of the object ({sent_name}) does not match the name on the URL ({name})")


def keep_fields(meta: Obj, old_meta: Obj, fields: Iterable[str]) -> None:
    """Leave these fields of the metadata as they were."""
    for field in fields:
        if field in old_meta:
            meta[field] = old_meta[field]
        else:
            meta.pop(field, None)


def keep_status(obj: Obj, old: Obj) -> None:
    """The main endpoint does not write the status."""
    if "status" in old:
        obj["status"] = old["status"]
    else:
        obj.pop("status", None)


def with_status(obj: Obj, old: Obj) -> Obj:
    """The old object with the status and metadata of the new one: what the status subresource writes."""
    new = {key: value for key, value in old.items() if key != "status"}
    new["metadata"] = metadata(obj)
    if "status" in obj:
        new["status"] = obj["status"]
    return new


def count_generation(obj: Obj, old: Obj) -> None:
    """`metadata.generation` counts the changes of everything but metadata and status."""
    if _spec_fields(obj) != _spec_fields(old):
        meta = metadata(obj)
        meta["generation"] = metadata(old).get("generation", 0) + 1


def _spec_fields(obj: Obj) -> Obj:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}
