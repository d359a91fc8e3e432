"""A pod can run where its volumes are (VolumeBinding).

Claims that are bound hold the pod to the nodes of their volumes. Claims that are not wait for whoever binds them: this
scheduler provisions nothing, so a claim of a class that waits for its first consumer finds a volume on no node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.framework import Event, Narrowed, Plugin, Refusals, Refused
from fairlead.scheduler.plugins.node.affinity import any_term
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Snapshot

ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"


class VolumeBindingArguments(Arguments, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """How long to wait for a volume: read and unused, for none is awaited."""

    bind_timeout_seconds: int = 600


class VolumeBinding(Plugin):
    name = "VolumeBinding"
    arguments = VolumeBindingArguments
    events = Event.VOLUMES | Event.NODE_ADDED | Event.NODE_LABELS

    def pre_filter(self, shape: Shape, snapshot: Snapshot) -> Refused | Narrowed | None:
        """Claims that do not exist, or that somebody else has to bind first."""
        volumes, has_unbound = snapshot.volumes, False
        for one in shape.claims:
            name, claim = one.key.partition("/")[2], volumes.claims.get(one.key)
            if claim is None and one.is_ephemeral:
                return Refused(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')
            if claim is None:
                return Refused(f'persistentvolumeclaim "{name}" not found')
            if claim.status.phase == "Lost":
                gone = claim.spec.volume_name
                return Refused(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"')
            if claim.metadata.is_terminating:
                return Refused(f'persistentvolumeclaim "{name}" is being deleted')
            has_unbound |= not claim.is_bound and not volumes.waits_for_first_consumer(claim)
        return Refused("pod has unbound immediate PersistentVolumeClaims") if has_unbound else None

    def filters(self, shape: Shape) -> bool:
        return bool(shape.claims)

    def filter(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Mask:
        if self.pre_filter(shape, snapshot) is not None or _awaited(shape, snapshot):
            return np.zeros(len(rows), dtype=np.bool_)
        bound = _bound(shape, snapshot)
        return np.full(len(rows), None not in bound) & _reachable(bound, snapshot, rows)

    def refusals(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Refusals:
        """All that is wrong with a node; evicting pods brings no volume."""
        bound = _bound(shape, snapshot)
        count = len(rows)
        reasons = Counter(
            {
                ELSEWHERE: int((~_reachable(bound, snapshot, rows)).sum()),
                NO_VOLUME: count * (None in bound),
                NOTHING_TO_BIND: count * bool(_awaited(shape, snapshot)),
            }
        )
        return Refusals(reasons, np.ones(count, dtype=np.bool_))


def _bound(shape: Shape, snapshot: Snapshot) -> list[PersistentVolume | None]:
    """The volumes of the bound claims; None for one that is gone."""
    return [snapshot.volumes.volumes.get(one.spec.volume_name) for one in _claims(shape, snapshot) if one.is_bound]


def _awaited(shape: Shape, snapshot: Snapshot) -> list[PersistentVolumeClaim]:
    """The claims that wait for their first consumer."""
    return [one for one in _claims(shape, snapshot) if not one.is_bound]


def _claims(shape: Shape, snapshot: Snapshot) -> list[PersistentVolumeClaim]:
    """Those that there are."""
    return [claim for one in shape.claims if (claim := snapshot.volumes.claims.get(one.key)) is not None]


def _reachable(bound: Sequence[PersistentVolume | None], snapshot: Snapshot, rows: Rows) -> Mask:
    mask = np.ones(len(rows), dtype=np.bool_)
    for volume in bound:
        affinity = volume.spec.node_affinity if volume is not None else None
        if affinity is not None and affinity.required is not None:
            mask &= any_term(affinity.required.node_selector_terms or (), snapshot, rows)
    return mask
