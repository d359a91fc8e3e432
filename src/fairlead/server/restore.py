"""Loads a dump of a real cluster: objects as they were, with their uids and status, past admission.

What a dump holds was admitted once, by another server; judging it again would lose what no longer passes. Names, owners
and statuses are kept, so that what follows starts from the state that the dump shows.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.errors import ApiError
from fairlead.api.names import path_segment_name
from fairlead.api.objects import Obj, metadata
from fairlead.runtime import chance
from fairlead.runtime.clock import timestamp
from fairlead.server.registry import Registry
from fairlead.server.served import Version


async def restore(registry: Registry, objects: Sequence[Obj]) -> int:
    """Store the objects that are not there yet; return how many. Raises ValueError for what cannot be stored."""
    count = 0
    present = {_uid(obj) for obj in objects}
    for obj in objects:
        group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
        found = registry.catalogue.of_kind(group, version, str(obj.get("kind")))
        if found is None:
            raise ValueError(f"{obj.get('kind')} of {obj.get('apiVersion')} is not a kind that this server serves")
        served, kind = found
        namespace, name = _identity(kind, obj)
        if registry.find(served.resource.qualified, name, namespace) is not None:
            continue
        _keep_owners(obj, present)
        stored = kind.to_stored(obj) if kind.to_stored else obj
        served.strategy.default(stored)
        meta = metadata(stored)
        meta.setdefault("uid", chance.uid())
        meta.setdefault("creationTimestamp", timestamp())
        await registry.store.put(served.key(namespace, name), served.encode(stored), 0)
        count += 1
    return count


def _uid(obj: Obj) -> str:
    """What a dump says of an object's uid, whatever the rest of it is like."""
    meta = obj.get("metadata")
    return str(meta.get("uid")) if isinstance(meta, dict) else ""


def _keep_owners(obj: Obj, present: set[str]) -> None:
    """An owner that the dump lacks would be taken for deleted, and what it owns with it: forget such owners."""
    meta = metadata(obj)
    if owners := meta.get("ownerReferences"):
        meta["ownerReferences"] = [owner for owner in owners if owner.get("uid") in present]


def _identity(kind: Version, obj: Obj) -> tuple[str, str]:
    """Namespace and name of the object, which is made normal; ValueError if no key can be made of them."""
    try:
        kind.normalise(obj)
    except ApiError as error:
        raise ValueError(error.message) from None
    meta = metadata(obj)
    name, namespace = meta.get("name", ""), ""
    if kind.resource.namespaced:
        namespace = meta["namespace"] = meta.get("namespace") or "default"
    for what, text in (("name", name), ("namespace", namespace)):
        if problems := path_segment_name(text):
            raise ValueError(f"{obj['kind']} {name!r} has a {what} that is not possible: {', '.join(problems)}")
    if not name:
        raise ValueError(f"a {obj['kind']} has no name")
    return namespace, name
