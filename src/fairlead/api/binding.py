"""Which volume a claim may have, and how the two are tied: what the controller and the scheduler must agree on.

Sources: component-helpers/storage/volume/pv_helpers.go. A volume says first whom it is kept for (`spec.claimRef`), then
the claim says which volume it has (`spec.volumeName`); whoever finds one half alone knows what is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.api.builtin import PERSISTENT_VOLUME_CLAIMS
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.objects import Obj
from fairlead.api.references import reference

#: Not by whoever made the object: then it is undone where it came to nothing.
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
#: The node for whose pod the volume is wanted, by the scheduler.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: Of a volume: who made it. Of a claim: who is to make its volume, under two names.
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
PROVISIONERS: Final = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
#: The provisioner of classes whose volumes an administrator makes.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
AVAILABLE: Final = "Available"
#: Who makes the volumes of classes that name what was once part of Kubernetes.
MIGRATED: Final[Mapping[str, str]] = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}


def is_kept_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume names the claim; one that somebody made for it does not know its uid."""
    ref = volume.spec.claim_ref
    if ref is None or (ref.namespace, ref.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    return ref.uid in ("", claim.metadata.uid)


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why the volume does not do for a claim that asks for it by name; empty if it does."""
    if volume.metadata.is_terminating:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if volume.capacity.units < claim.requested.units:
        return "requested PV is too small"
    if volume.class_name != claim.class_name:
        return "storageClassName does not match"
    if _attributes(volume) != _attributes(claim):
        return "volumeAttributesClassName does not match"
    if not has_mode_of(volume, claim):
        return "incompatible volumeMode"
    return "" if offers_access(volume, claim) else "incompatible accessMode"


def has_mode_of(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")


def offers_access(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """In every way that the claim asks for."""
    return set(claim.spec.access_modes or ()) <= set(volume.spec.access_modes or ())


def may_have(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is kept for the claim, or free and as it asks; ways of access aside."""
    if volume.metadata.is_terminating or not has_mode_of(volume, claim) or _attributes(volume) != _attributes(claim):
        return False
    if volume.capacity < claim.requested:
        return False
    if volume.spec.claim_ref is not None:
        return is_kept_for(volume, claim)
    selector = claim.spec.selector
    return (
        volume.status.phase == AVAILABLE
        and volume.class_name == claim.class_name
        and (selector is None or selector.matches(volume.metadata.labels))
    )


def best_match(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """The volume for a claim wherever its pods will be: one with the fewest ways of access that do, among them one that
    is kept for the claim, else the smallest.
    """
    found = (volume for volume in volumes if offers_access(volume, claim) and may_have(volume, claim))
    return min(found, key=_preference, default=None)


def _preference(volume: PersistentVolume) -> tuple[object, ...]:
    modes = len(set(volume.spec.access_modes or ()))
    return modes, volume.spec.claim_ref is None, volume.capacity, volume.metadata.name


def _attributes(either: PersistentVolume | PersistentVolumeClaim) -> str:
    return either.spec.volume_attributes_class_name or ""


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """The default class; of several the youngest."""
    found = [storage_class for storage_class in classes if storage_class.is_default]
    found.sort(key=lambda storage_class: storage_class.metadata.name)
    return max(found, key=lambda storage_class: storage_class.metadata.creation_timestamp, default=None)


def keeping(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Obj | None:
    """The patch that keeps the volume for the claim; None if it is kept for it already."""
    patch: Obj = {}
    ref, meta = volume.spec.claim_ref, claim.metadata
    if ref is None or (ref.namespace, ref.name, ref.uid) != (meta.namespace, meta.name, meta.uid):
        patch["spec"] = {"claimRef": reference(claim, PERSISTENT_VOLUME_CLAIMS).encode()}
    if not is_kept_for(volume, claim) and BOUND_BY_CONTROLLER not in volume.metadata.annotations:
        patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return patch or None
