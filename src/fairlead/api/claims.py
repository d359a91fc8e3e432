"""Claims, volumes and storage classes, as far as they decide who gets which volume, and where a pod can run."""

from __future__ import annotations

from fairlead.api.labels import LabelSelector
from fairlead.api.meta import Object, View
from fairlead.api.node_affinity import NodeSelector
from fairlead.api.quantity import ZERO, Quantity, parse
from fairlead.api.references import Reference
from fairlead.api.volumes import CLASS_ANNOTATION, DEFAULT_CLASS_ANNOTATIONS

#: Its value says nothing; it is there once binding has come to its end.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"

Amounts = dict[str, str]


class ClaimResources(View):
    requests: Amounts | None = None


class DataSource(View):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class ClaimSpec(View):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    resources: ClaimResources = ClaimResources()
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    #: What the volume begins with; the server writes here, too, what `dataSource` says.
    data_source_ref: DataSource | None = None


class ModifyVolumeStatus(View):
    target_volume_attributes_class_name: str = ""


class ClaimStatus(View):
    phase: str = ""
    access_modes: tuple[str, ...] | None = None
    capacity: Amounts | None = None
    allocated_resources: Amounts | None = None
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(Object):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def is_bound(self) -> bool:
        """Its volume is there for good: the binder has finished what it began."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def class_name(self) -> str:
        """Its storage class; empty if it wants none, or says nothing of it."""
        return self.metadata.annotations.get(CLASS_ANNOTATION, self.spec.storage_class_name or "")

    @property
    def attributes_classes(self) -> set[str]:
        """Every VolumeAttributesClass that it wants, has, or is on its way to."""
        status = self.status
        target = status.modify_volume_status
        names = {self.spec.volume_attributes_class_name, status.current_volume_attributes_class_name}
        names.add(target.target_volume_attributes_class_name if target is not None else None)
        return {name for name in names if name}

    @property
    def says_class(self) -> bool:
        return CLASS_ANNOTATION in self.metadata.annotations or self.spec.storage_class_name is not None

    @property
    def requested(self) -> Quantity:
        return _storage(self.spec.resources.requests)

    @property
    def capacity(self) -> Quantity:
        """What it has, as its status says."""
        return _storage(self.status.capacity)


class VolumeNodeAffinity(View):
    required: NodeSelector | None = None


class CsiSource(View):
    driver: str = ""
    volume_handle: str = ""


class HostPath(View):
    path: str = ""


class LocalPath(View):
    path: str = ""


class Nfs(View):
    path: str = ""


class VolumeSpec(View):
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: Reference | None = None
    capacity: Amounts | None = None
    access_modes: tuple[str, ...] | None = None
    storage_class_name: str = ""
    persistent_volume_reclaim_policy: str = "Retain"
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    csi: CsiSource | None = None
    host_path: HostPath | None = None
    local: LocalPath | None = None
    nfs: Nfs | None = None


class VolumeStatus(View):
    phase: str = ""


class PersistentVolume(Object):
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def class_name(self) -> str:
        return self.metadata.annotations.get(CLASS_ANNOTATION, self.spec.storage_class_name)

    @property
    def capacity(self) -> Quantity:
        return _storage(self.spec.capacity)

    @property
    def is_released(self) -> bool:
        """Its claim has gone; what becomes of it is for its policy to say."""
        return self.status.phase in ("Released", "Failed")

    @property
    def claimant(self) -> str:
        """`namespace/name` of the claim that it is kept for, empty if for none."""
        ref = self.spec.claim_ref
        return f"{ref.namespace}/{ref.name}" if ref is not None else ""


class AttributesClass(Object):
    """Attributes of volumes of a driver."""

    driver_name: str = ""


class TopologyRequirement(View):
    key: str
    values: tuple[str, ...] | None = None


class TopologyTerm(View):
    match_label_expressions: tuple[TopologyRequirement, ...] | None = None


class StorageClass(Object):
    provisioner: str = ""
    reclaim_policy: str = "Delete"
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] | None = None
    mount_options: tuple[str, ...] | None = None
    allow_volume_expansion: bool | None = None

    @property
    def is_default(self) -> bool:
        return any(self.metadata.annotations.get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)

    @property
    def waits_for_first_consumer(self) -> bool:
        """Its volumes are chosen after the node, not before."""
        return self.volume_binding_mode == "WaitForFirstConsumer"


def _storage(amounts: Amounts | None) -> Quantity:
    text = (amounts or {}).get("storage")
    return parse(text) if text is not None else ZERO
