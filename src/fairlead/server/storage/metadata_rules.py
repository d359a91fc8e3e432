"""What the server itself writes into metadata, before an object is born and before it changes.

Clients may send anything in these fields; here they get the values that only the server may give. Source:
apiserver `registry/rest/{create,update}.go`.
"""

from __future__ import annotations

from typing import Any

from fairlead.api.errors import MODIFIED, BadRequest, Conflict, Forbidden, Unknown
from fairlead.api.fields import Errors, invalid
from fairlead.api.objects import Obj, metadata, name_of
from fairlead.api.resources import Resource
from fairlead.golang.numbers import parse_uint
from fairlead.runtime import rng
from fairlead.runtime.clock import timestamp
from fairlead.server.storage.catalogue import Served

#: A generated name is cut so that the random suffix fits into 63 characters.
GENERATED_PREFIX_LENGTH = 58


def place(served: Served, obj: Obj, namespace: str) -> None:
    """Put the object where the request says, or refuse if it says something else itself."""
    meta = metadata(obj)
    if not served.resource.namespaced:
        meta.pop("namespace", None)
        return
    if meta.setdefault("namespace", namespace) != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def check_birth(served: Served, obj: Obj) -> None:
    """Refuse a new object of a custom kind that is going away."""
    if served.is_terminating:
        why = "create not allowed while custom resource definition is terminating"
        raise Forbidden.of(served.resource.plural, name_of(obj), why, served.resource.group)


def begin(served: Served, obj: Obj) -> None:
    """Metadata of an object about to be born."""
    meta = metadata(obj)
    for key in ("resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
        meta.pop(key, None)
    if not meta.get("name") and meta.get("generateName"):
        rename(meta)
    meta["uid"] = rng.uid()
    meta["creationTimestamp"] = timestamp()
    strategy = served.strategy
    if strategy.has_generation:
        meta["generation"] = 1
    if strategy.has_status:
        if served.zero_status is None:
            obj.pop("status", None)
        else:
            obj["status"] = dict(served.zero_status)


def check_no_revision(text: str) -> None:
    """Refuse to create what claims to be a version already; what cannot be read claims nothing."""
    try:
        revision = parse_uint(text) if text else 0
    except ValueError:
        return
    if revision:
        raise Unknown("resourceVersion should not be set on objects to be created")


def rename(meta: Obj) -> None:
    """Make up a name from `generateName`."""
    meta["name"] = meta["generateName"][:GENERATED_PREFIX_LENGTH] + rng.name_suffix()


def check_revision(served: Served, obj: Obj, current: int, *, is_whole: bool) -> None:
    """Refuse an update that came with another resourceVersion than the object's.

    Some kinds are never updated without, but what is not the object itself (`is_whole` false) need not carry one.
    """
    row, name = served.resource, metadata(obj).get("name", "")
    text = metadata(obj).get("resourceVersion") or ""
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


def without_repeated_owners(obj: Obj) -> list[str]:
    """Leave each owner reference in the object once; the UIDs of those that came again."""
    meta = metadata(obj)
    owners = meta.get("ownerReferences")
    if not owners or len(owners) < 2:
        return []
    kept: dict[frozenset[Any], Obj] = {}
    repeated = []
    for owner in owners:
        if (form := frozenset(owner.items())) in kept:
            repeated.append(owner.get("uid", ""))
        kept.setdefault(form, owner)
    meta["ownerReferences"] = list(kept.values())
    return repeated


def carry_over(served: Served, obj: Obj, old: Obj) -> None:
    """Server-owned metadata of an update: taken from the old object where the client may not or need not say.

    What a client may not say, and cannot have read, is left for the rules to refuse: that a live object is going.
    """
    meta, was = metadata(obj), metadata(old)
    if served.strategy.allows_unconditional_update:
        meta["resourceVersion"] = was["resourceVersion"]
    for key in ("name", "namespace", "uid", "deletionGracePeriodSeconds"):
        if key in was and not meta.get(key):
            meta[key] = was[key]
    for key in ("creationTimestamp", "deletionTimestamp"):
        if key in was:
            meta[key] = was[key]
    for key in ("generation", "selfLink"):
        if key in was:
            meta[key] = was[key]
        else:
            meta.pop(key, None)


def check_uid(served: Served, obj: Obj, old: Obj) -> None:
    """Refuse an update that means another object of the same name."""
    _check_precondition(served, "UID", metadata(obj).get("uid"), metadata(old)["uid"], old)


def check_nobody_is_meant(served: Served, obj: Obj, namespace: str, name: str) -> None:
    """Refuse to create by an update what claims to be somebody, or a version that cannot be."""
    nobody = {"metadata": {"name": name, "namespace": namespace, "uid": ""}}
    check_uid(served, obj, nobody)
    _revision_in(metadata(obj).get("resourceVersion") or "0")


def check_is_meant(served: Served, binding: Obj, pod: Obj) -> None:
    """Refuse a binding that means another pod of the same name, or another version of it."""
    check_uid(served, binding, pod)
    asked, found = metadata(binding).get("resourceVersion"), metadata(pod)["resourceVersion"]
    _check_precondition(served, "ResourceVersion", asked, found, pod)


def _check_precondition(served: Served, what: str, asked: str | None, found: str, old: Obj) -> None:
    """`Preconditions.Check` of apiserver's pkg/storage."""
    if not asked or asked == found:
        return
    row, was = served.resource, metadata(old)
    why = (
        f"StorageError: invalid object, Code: 4, Key: {served.path(was.get('namespace', ''), was['name'])}, "
        f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {asked}, "
        f"{what} in object meta: {found}"
    )
    raise Conflict.of(row.plural, was["name"], why, row.group)


def check_identity(obj: Obj, resource: Resource, name: str, namespace: str) -> None:
    """Refuse an update that means another object than its path; a namespace may be left out, a name may not."""
    meta = metadata(obj)
    if not resource.namespaced:
        meta.pop("namespace", None)
    elif (meta.get("namespace") or namespace) != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    else:
        meta["namespace"] = namespace
    said = meta.get("name")
    if not said:
        raise BadRequest(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if said != name:
        raise BadRequest(f"the name of the object ({said}) does not match the name on the URL ({name})")


def keep_managers(obj: Obj, old: Obj) -> None:
    """Who owns which field stays as it was."""
    was = metadata(old).get("managedFields")
    if was is None:
        metadata(obj).pop("managedFields", None)
    else:
        metadata(obj)["managedFields"] = was


def keep_status(obj: Obj, old: Obj) -> None:
    """The main resource does not write the status."""
    if "status" in old:
        obj["status"] = old["status"]
    else:
        obj.pop("status", None)


def only_status(obj: Obj, old: Obj) -> Obj:
    """The status subresource writes the status (and metadata) alone."""
    new = {key: value for key, value in old.items() if key != "status"}
    new["metadata"] = metadata(obj)
    if "status" in obj:
        new["status"] = obj["status"]
    return new


def count_generation(obj: Obj, old: Obj) -> None:
    """`metadata.generation` counts the changes of everything that is neither metadata nor status."""
    if _desired(obj) != _desired(old):
        meta = metadata(obj)
        meta["generation"] = metadata(old).get("generation", 0) + 1


def _desired(obj: Obj) -> Obj:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}
