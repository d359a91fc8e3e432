"""Claims, volumes and storage classes, as far as they decide where a pod can run."""

from __future__ import annotations

from fairlead.api.meta import Object, View
from fairlead.api.scheduling import NodeSelector


class ClaimSpec(View, frozen=True, rename="camel", gc=False, kw_only=True):
    volume_name: str = ""
    storage_class_name: str | None = None


class ClaimStatus(View, frozen=True, rename="camel", gc=False, kw_only=True):
    phase: str = ""


class PersistentVolumeClaim(Object, frozen=True, rename="camel", gc=False, kw_only=True):
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def is_bound(self) -> bool:
        """Its volume is there for good: the binder has finished what it began."""
        return bool(self.spec.volume_name) and "pv.kubernetes.io/bind-completed" in self.metadata.annotations


class VolumeNodeAffinity(View, frozen=True, rename="camel", gc=False, kw_only=True):
    required: NodeSelector | None = None


class VolumeSpec(View, frozen=True, rename="camel", gc=False, kw_only=True):
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(Object, frozen=True, rename="camel", gc=False, kw_only=True):
    spec: VolumeSpec = VolumeSpec()


class StorageClass(Object, frozen=True, rename="camel", gc=False, kw_only=True):
    volume_binding_mode: str = "Immediate"
