"""Patches that are for one object alone: the server refuses them (409) if another has its name by now."""

from __future__ import annotations

from fairlead.api.meta import ObjectMeta
from fairlead.api.objects import Obj


def guarded(patch: Obj, meta: ObjectMeta, *, unchanged: bool = False) -> Obj:
    """The patch with the uid that the object must have, and with the revision, if it must be `unchanged`."""
    guards = {"uid": meta.uid} | ({"resourceVersion": meta.resource_version} if unchanged else {})
    return patch | {"metadata": patch.get("metadata", {}) | guards}
