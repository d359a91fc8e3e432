"""A node can have only so many volumes of a driver at once (NodeVolumeLimits)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.facts.volumes import Attachable
from fairlead.scheduler.framework import ClusterEvent, EventKind, Plugin, Reads
from fairlead.scheduler.requirements import PodRequirements
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot


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
        behind = (snapshot.volumes.attachable(claim.key) for claim in requirements.claims)
        wanted = {volume for volume in behind if volume is not None and limits.is_limited(volume[0])}
        if not wanted:
            return mask
        asked = _by_driver(wanted)
        for index, row in enumerate(rows.tolist()):
            most = limits.of_node(snapshot.names[row])
            mask[index] = not most or not _exceeds(wanted, asked, most, row, snapshot)
        return mask

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        """Anybody with claims has left, or a claim of the pod has come."""
        if event.claim:
            return request.requirements.has_claim(event.claim)
        if event.old_requirements is not None:
            return bool(event.old_requirements.claims)
        return EventKind.ATTACH_LIMITS in event.kinds


def _exceeds(
    wanted: set[Attachable], asked: Counter[str], most: Mapping[str, int], row: int, snapshot: Snapshot
) -> bool:
    """Whether the node would have more volumes of a driver than it can. A pod may want thousands, and there may be
    thousands of nodes: only what is on the node is gone through.
    """
    claims, attached = snapshot.volume_uses.claims_on(row), list(snapshot.attach_limits.attached(snapshot.names[row]))
    if len(claims) + len(attached) + len(wanted) <= min(most.values()):
        return False
    there = {volume for volume in map(snapshot.volumes.attachable, claims) if volume is not None}
    for each in attached:
        volume = snapshot.volumes.volumes.get(each.spec.source.persistent_volume_name or "")
        if volume is not None and volume.spec.csi is not None:
            there.add((each.spec.attacher, volume.spec.csi.volume_handle))
    held, more = _by_driver(there), asked - _by_driver(there & wanted)
    return any(driver in most and held[driver] + count > most[driver] for driver, count in more.items())


def _by_driver(volumes: Iterable[Attachable]) -> Counter[str]:
    return Counter(driver for driver, _ in volumes)
