"""Admission of storage: finalizers that protect volumes in use, the default class, and resizing of claims.

Sources: plugin/pkg/admission/storage/{storageobjectinuseprotection,storageclass/setdefault,persistentvolume/resize}.
"""

from __future__ import annotations

from fairlead.api.binding import default_class
from fairlead.api.claims import StorageClass
from fairlead.api.objects import Obj, metadata
from fairlead.api.quantity import Quantity, parse
from fairlead.api.volumes import storage_class_of
from fairlead.server.admission.base import CREATE_ONLY, UPDATE_ONLY, AdmissionPlugin, Attributes

_CLAIMS = "persistentvolumeclaims"
_CLASSES = "storageclasses.storage.k8s.io"

_PROTECTION = {
    _CLAIMS: "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
    "volumeattributesclasses.storage.k8s.io": "kubernetes.io/vac-protection",
}


class DefaultStorageClass(AdmissionPlugin):
    """A claim without class gets the default class; of several defaults the youngest."""

    name = "DefaultStorageClass"
    resources = frozenset({_CLAIMS})
    operations = CREATE_ONLY

    async def admit(self, attributes: Attributes) -> None:
        if storage_class_of(attributes.obj) is not None:
            return
        found = default_class(entry.kept_view(StorageClass) for entry in self._reader.each(_CLASSES))
        if found is not None:
            attributes.spec["storageClassName"] = found.metadata.name


class StorageObjectInUseProtection(AdmissionPlugin):
    """Adds the finalizer that keeps a claim or volume until its last user is gone."""

    name = "StorageObjectInUseProtection"
    resources = frozenset(_PROTECTION)
    operations = CREATE_ONLY

    async def admit(self, attributes: Attributes) -> None:
        finalizer = _PROTECTION[attributes.resource.qualified]
        meta = metadata(attributes.obj)
        finalizers = meta.get("finalizers") or []
        if finalizer not in finalizers:
            meta["finalizers"] = [*finalizers, finalizer]


class PersistentVolumeClaimResize(AdmissionPlugin):
    """A claim may grow only once it is bound, and only where its class can grow volumes."""

    name = "PersistentVolumeClaimResize"
    resources = frozenset({_CLAIMS})
    operations = UPDATE_ONLY

    async def validate(self, attributes: Attributes) -> None:
        claim, old = attributes.obj, attributes.old
        if old is None or _size(claim) <= _size(old):
            return
        if (old.get("status") or {}).get("phase") != "Bound":
            raise attributes.forbidden("Only bound persistent volume claims can be expanded")
        if not self._can_grow(claim, old):
            raise attributes.forbidden(
                "only dynamically provisioned pvc can be resized and "
                "the storageclass that provisions the pvc must support resize"
            )

    def _can_grow(self, claim: Obj, old: Obj) -> bool:
        name = storage_class_of(claim)
        if not name or name != storage_class_of(old):
            return False
        found = self._reader.find(_CLASSES, name)
        return found is not None and bool(found.kept_view(StorageClass).allow_volume_expansion)


def _size(claim: Obj) -> Quantity:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return parse((resources.get("requests") or {}).get("storage", "0"))
