"""Ownership of replicas, as the scale subresource and the object itself tell it.

Through `/scale` nobody sees more than a number of replicas, and whoever sets it there takes it from whoever set it in
the object. So the entries of the object are shown as entries of the Scale, and what became of those is carried back.

An updater's identity names the version it speaks, which is not the same in both: its entry is always split when it
comes back. That is upstream's behaviour too. Source: apimachinery `util/managedfields/scalehandler.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.api.objects import Obj
from fairlead.server.apply.entries import decoded, encoded, fields_of, new_entry, with_fields
from fairlead.server.apply.fieldsets import FieldPath, contains, difference, of_paths

#: Where the replicas are, by apiVersion; None where a version has no scale subresource.
ReplicaPaths = Mapping[str, FieldPath | None]

SCALE_VERSION: Final = "autoscaling/v1"
SCALE_DEFINITION: Final = "io.k8s.api.autoscaling.v1.Scale"
_REPLICAS: Final[FieldPath] = ("f:spec", "f:replicas")


def to_scale(entries: Iterable[Obj] | None, paths: ReplicaPaths) -> list[Obj]:
    """The entries of the Scale of an object that has these."""
    found = {}
    for owner, entry in decoded(entries).items():
        path = paths.get(entry["apiVersion"])
        if path and contains(fields_of(entry), path):
            found[owner] = new_entry(owner, SCALE_VERSION, of_paths(_REPLICAS), entry.get("time"))
    return encoded(found)


def to_object(
    entries: Iterable[Obj] | None, scale: Iterable[Obj] | None, paths: ReplicaPaths, api_version: str
) -> list[Obj]:
    """The entries of an object that had `entries`, after its Scale came to have the entries `scale`."""
    owners = decoded(scale)
    found = {}
    for owner, entry in decoded(entries).items():
        version = entry["apiVersion"]
        if version not in paths:
            continue
        path = paths[version]
        if not path or not contains(fields_of(entry), path):
            found[owner] = entry
        elif owner in owners:
            found[owner] = entry
            del owners[owner]
        elif fields := difference(fields_of(entry), of_paths(path)):
            found[owner] = with_fields(entry, fields)
    replica_path = paths.get(api_version)
    for owner, entry in owners.items():
        if replica_path and contains(fields_of(entry), _REPLICAS):
            found[owner] = new_entry(owner, api_version, of_paths(replica_path), None)
    return encoded(found)
