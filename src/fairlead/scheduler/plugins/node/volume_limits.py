"""A node can have only so many volumes of a driver at once (NodeVolumeLimits)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.framework import ClusterEvent, EventKind, Plugin, Reads
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot
from fairlead.scheduler.volumes import Volumes

#: A volume: its driver, and its handle there.
Attachable = tuple[str, str]


class NodeVolumeLimits(Plugin):
    name = "NodeVolumeLimits"
    reads = Reads.PODS
    reason = "node(s) exceed max volume count"
    is_resolvable = True
    events = EventKind.ATTACH_LIMITS | EventKind.POD_REMOVED | EventKind.VOLUMES

    def filters(self, requirements: PodRequirements) -> bool:
        return bool(requirements.claims)

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        mask, limits = np.ones(len(rows), dtype=np.bool_), snapshot.attach_limits
        wanted = _attachable((claim.key for claim in requirements.claims), snapshot.volumes)
        wanted = {volume for volume in wanted if limits.is_limited(volume[0])}
        if not wanted:
            return mask
        for index, row in enumerate(rows.tolist()):
            most = limits.of_node(snapshot.names[row])
            mask[index] = not most or not _exceeds(wanted, most, row, snapshot)
        return mask

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        """Anybody with claims has left, or a claim of the pod has come."""
        if event.claim:
            return any(claim.key == event.claim for claim in request.requirements.claims)
        if event.old_requirements is not None:
            return bool(event.old_requirements.claims)
        return EventKind.ATTACH_LIMITS in event.kinds


def _exceeds(wanted: set[Attachable], most: Mapping[str, int], row: int, snapshot: Snapshot) -> bool:
    """Whether the node would have more volumes of a driver than it can."""
    claims, attached = snapshot.volume_uses.claims_on(row), list(snapshot.attach_limits.attached(snapshot.names[row]))
    if len(claims) + len(attached) + len(wanted) <= min(most.values()):
        return False
    there = _attachable(claims, snapshot.volumes)
    for each in attached:
        volume = snapshot.volumes.volumes.get(each.spec.source.persistent_volume_name or "")
        if volume is not None and volume.spec.csi is not None:
            there.add((each.spec.attacher, volume.spec.csi.volume_handle))
    more = Counter(driver for driver, _ in wanted - there)
    in_all = Counter(driver for driver, _ in there) + more
    return any(driver in most and in_all[driver] > most[driver] for driver in more)


def _attachable(claims: Iterable[str], volumes: Volumes) -> set[Attachable]:
    """The volumes behind the claims: also those that are to be made, of which the class says by whom.

    Kinds of volumes that came before CSI are not counted.
    """
    found = set[Attachable]()
    for key in claims:
        if (claim := volumes.claims.get(key)) is None:
            continue
        volume = volumes.volumes.get(claim.spec.volume_name)
        if volume is not None:
            if volume.spec.csi is not None and volume.spec.csi.volume_handle:
                found.add((volume.spec.csi.driver, volume.spec.csi.volume_handle))
        elif (storage_class := volumes.classes.get(claim.class_name)) is not None:
            found.add((storage_class.provisioner, f"claim {key}"))
    return found
