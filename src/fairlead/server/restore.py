"""Loads a dump of a real cluster: objects as they were, with their uids and status, past admission.

What a dump holds was admitted once, by another server; judging it again would lose what no longer passes. Names, owners
and statuses are kept, so that what follows starts from the state that the dump shows.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.objects import Obj, metadata
from fairlead.runtime import chance
from fairlead.runtime.clock import timestamp
from fairlead.server.registry import Registry


async def restore(registry: Registry, objects: Iterable[Obj]) -> int:
    """Store the objects that are not there yet; return how many. Raises ValueError for a kind that is not served."""
    count = 0
    for obj in objects:
        group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
        found = registry.catalogue.of_kind(group, version, str(obj.get("kind")))
        if found is None:
            raise ValueError(f"{obj.get('kind')} of {obj.get('apiVersion')} is not a kind that this server serves")
        served, kind = found
        meta = metadata(obj)
        namespace = meta.setdefault("namespace", "default") if served.resource.namespaced else ""
        if registry.find(served.resource.qualified, meta["name"], namespace) is not None:
            continue
        kind.normalise(obj)
        stored = kind.to_stored(obj) if kind.to_stored else obj
        served.strategy.default(stored)
        meta = metadata(stored)
        meta.setdefault("uid", chance.uid())
        meta.setdefault("creationTimestamp", timestamp())
        await registry.store.put(served.key(namespace, meta["name"]), served.encode(stored), 0)
        count += 1
    return count
