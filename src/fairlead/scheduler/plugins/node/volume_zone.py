"""A volume whose labels name zones or regions is used there (VolumeZone)."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.framework import ClusterEvent, EventKind, Plugin, Refused
from fairlead.scheduler.plugins.node.affinity import has_label
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot

_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
#: Each label, and how it is called now: of a volume with the old one, nodes with the new one are as good.
_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}
#: Between the zones of a volume that is in several.
_SEPARATOR: Final = "__"


class VolumeZone(Plugin):
    name = "VolumeZone"
    reason = "node(s) had no available volume zone"
    events = EventKind.VOLUMES | EventKind.NODE_ADDED | EventKind.NODE_LABELS

    def pre_filter(self, requirements: PodRequirements, snapshot: Snapshot) -> Refused | None:
        for pod_claim in requirements.claims:
            if pod_claim.owner_key:
                continue
            claim = snapshot.volumes.claims.get(pod_claim.key)
            if claim is None:
                return Refused(f'persistentvolumeclaim "{pod_claim.name}" not found')
            if (missing := _missing(claim, snapshot)) is not None:
                return Refused(missing)
        return None

    def filters(self, requirements: PodRequirements) -> bool:
        return bool(requirements.claims)

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        """Nodes without any such label will do."""
        is_nowhere = np.ones(len(rows), dtype=np.bool_)
        for label in _LABELS:
            is_nowhere &= snapshot.labels(label).codes[rows] < 0
        mask = np.ones(len(rows), dtype=np.bool_)
        for pod_claim in requirements.claims:
            claim = snapshot.volumes.claims.get(pod_claim.key)
            volume = snapshot.volumes.volumes.get(claim.spec.volume_name) if claim is not None else None
            if volume is not None and not pod_claim.owner_key:
                mask &= _within(volume, snapshot, rows)
        return mask | is_nowhere

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        """Of the claims, the pod's own; of the volumes, those that are its claims' or nobody's."""
        return not event.claim or request.requirements.has_claim(event.claim)


def _missing(claim: PersistentVolumeClaim, snapshot: Snapshot) -> str | None:
    """Why it cannot be told where the claim's volume is, or will be."""
    if name := claim.spec.volume_name:
        return None if name in snapshot.volumes.volumes else f'persistentvolume "{name}" not found'
    if not claim.class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    if (found := snapshot.volumes.classes.get(claim.class_name)) is None:
        return f'storageclass.storage.k8s.io "{claim.class_name}" not found'
    return None if found.waits_for_first_consumer else "PersistentVolume had no name"


def _within(volume: PersistentVolume, snapshot: Snapshot, rows: Rows) -> Mask:
    """The rows whose zone and region are among those of the volume."""
    mask = np.ones(len(rows), dtype=np.bool_)
    for label, zones in zones_of(volume).items():
        is_without, current = snapshot.labels(label).codes[rows] < 0, _LABELS[label]
        mask &= has_label(snapshot, rows, label, zones) | (is_without & has_label(snapshot, rows, current, zones))
    return mask


def zones_of(volume: PersistentVolume) -> dict[str, list[str]]:
    """The zones, and the regions, that its labels name, by label; a label that makes no sense says nothing."""
    labels = volume.metadata.labels
    found = {label: [zone.strip() for zone in labels.get(label, "").split(_SEPARATOR)] for label in _LABELS}
    return {label: zones for label, zones in found.items() if all(zones)}
