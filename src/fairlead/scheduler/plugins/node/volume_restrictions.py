"""Volumes that one pod alone may have: claims with the mode ReadWriteOncePod, and some disks (VolumeRestrictions)."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from fairlead.api.disks import clash
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.framework import ClusterEvent, EventKind, Plugin, Reads, Refusals, Refused
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot

NO_DISK: Final = "node(s) had no available disk"
IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

_ONE_POD: Final = "ReadWriteOncePod"


class VolumeRestrictions(Plugin):
    name = "VolumeRestrictions"
    reads = Reads.PODS | Reads.CLUSTER
    is_resolvable = True
    events = EventKind.NODE_ADDED | EventKind.POD_REMOVED | EventKind.VOLUMES

    def pre_filter(self, requirements: PodRequirements, snapshot: Snapshot) -> Refused | None:
        """A claim must be there to say who may have it."""
        for claim in requirements.claims:
            if not claim.owner_key and claim.key not in snapshot.volumes.claims:
                return Refused(f'persistentvolumeclaim "{claim.name}" not found')
        return None

    def filters(self, requirements: PodRequirements) -> bool:
        return bool(requirements.disks or requirements.claims)

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        if any(map(snapshot.volume_uses.is_in_use, claims_of_one_pod(requirements, snapshot))):
            return np.zeros(len(rows), dtype=np.bool_)
        return _has_disks(requirements, snapshot, rows)

    def refusals(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Refusals:
        without_disk = int((~_has_disks(requirements, snapshot, rows)).sum())
        refused = self._refused(len(rows))
        refused.reasons = Counter({NO_DISK: without_disk, IN_USE: len(rows) - without_disk})
        return refused

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        """A claim of the pod has come, or somebody left who had one of its claims or disks."""
        own, theirs = set(_named(request.requirements)), event.old_requirements
        if event.claim:
            return event.claim in own
        if theirs is None:
            return EventKind.VOLUMES not in event.kinds
        return not own.isdisjoint(_named(theirs)) or clash(request.requirements.disks, theirs.disks)


def _named(requirements: PodRequirements) -> list[str]:
    """The claims that the pod names; those that are made for it alone are nobody else's."""
    return [claim.key for claim in requirements.claims if not claim.owner_key]


def claims_of_one_pod(requirements: PodRequirements, snapshot: Snapshot) -> list[str]:
    """Those that the pod names and that one pod alone may have."""
    known = ((key, snapshot.volumes.claims.get(key)) for key in _named(requirements))
    return [key for key, claim in known if claim is not None and _ONE_POD in (claim.spec.access_modes or ())]


def _has_disks(requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
    """The rows where nobody has one of the pod's disks in a way that shuts others out."""
    asked = rows.tolist()
    taken = snapshot.volume_uses.clashes(requirements.disks, asked)
    return np.fromiter((row not in taken for row in asked), dtype=np.bool_, count=len(rows))
