"""A pod can run where its volumes are (VolumeBinding).

Claims that are bound hold the pod to the nodes of their volumes. Claims that are not wait for whoever binds them: this
scheduler provisions nothing, so a claim of a class that waits for its first consumer finds a volume on no node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim
from fairlead.scheduler.arguments import Arguments, check
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.company import Task
from fairlead.scheduler.framework import Change, Event, Narrowed, Plugin, Refusals, Refused
from fairlead.scheduler.plugins.node.affinity import any_term
from fairlead.scheduler.shape import Shape
from fairlead.scheduler.snapshot import Snapshot

ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"


class VolumeBindingArguments(Arguments, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """How long to wait for a volume: read and unused, for none is awaited."""

    bind_timeout_seconds: int = 600
    #: Not known to a server without the feature gate StorageCapacityScoring.
    shape: list[Any] | None = None


class VolumeBinding(Plugin):
    name = "VolumeBinding"
    arguments = VolumeBindingArguments
    events = Event.VOLUMES | Event.NODE_ADDED | Event.NODE_LABELS

    @classmethod
    def configured(cls, args: VolumeBindingArguments) -> Self:
        check(args.bind_timeout_seconds >= 0, "bindTimeoutSeconds", args.bind_timeout_seconds,
              "invalid BindTimeoutSeconds, should not be a negative value")  # fmt: skip
        check(args.shape is None, "shape", args.shape,
              "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring")  # fmt: skip
        return cls()

    def pre_filter(self, shape: Shape, snapshot: Snapshot) -> Refused | Narrowed | None:
        """Claims that do not exist, or that somebody else has to bind first."""
        volumes, has_unbound = snapshot.volumes, False
        for one in shape.claims:
            name, claim = one.key.partition("/")[2], volumes.claims.get(one.key)
            if claim is None and one.owner_key:
                return Refused(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')
            if claim is None:
                return Refused(f'persistentvolumeclaim "{name}" not found')
            if claim.status.phase == "Lost":
                gone = claim.spec.volume_name
                return Refused(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"')
            if claim.metadata.is_terminating:
                return Refused(f'persistentvolumeclaim "{name}" is being deleted')
            owner = claim.metadata.controller
            if one.owner_key and (owner is None or owner.uid != one.owner_uid):
                return Refused(f"PVC {one.key} was not created for pod {one.owner_key} (pod is not owner)")
            has_unbound |= not claim.is_bound and not _is_awaited(claim, snapshot)
        return Refused("pod has unbound immediate PersistentVolumeClaims") if has_unbound else None

    def filters(self, shape: Shape) -> bool:
        return bool(shape.claims)

    def filter(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Mask:
        if self.pre_filter(shape, snapshot) is not None or _awaited(shape, snapshot):
            return np.zeros(len(rows), dtype=np.bool_)
        elsewhere, lost = _out_of_reach(_bound(shape, snapshot), snapshot, rows)
        return ~elsewhere & ~lost

    def refusals(self, shape: Shape, snapshot: Snapshot, rows: Rows) -> Refusals:
        """All that is wrong with a node; evicting pods brings no volume."""
        elsewhere, lost = _out_of_reach(_bound(shape, snapshot), snapshot, rows)
        count = len(rows)
        reasons = Counter(
            {
                ELSEWHERE: int(elsewhere.sum()),
                NO_VOLUME: int(lost.sum()),
                NOTHING_TO_BIND: count * bool(_awaited(shape, snapshot)),
            }
        )
        return Refusals(reasons, np.ones(count, dtype=np.bool_))

    def helps(self, change: Change, task: Task) -> bool:
        """Of the claims, the pod's own."""
        return not change.claim or any(one.key == change.claim for one in task.shape.claims)


def _bound(shape: Shape, snapshot: Snapshot) -> list[PersistentVolume | None]:
    """The volumes of the bound claims; None for one that is gone."""
    return [snapshot.volumes.volumes.get(one.spec.volume_name) for one in _claims(shape, snapshot) if one.is_bound]


def _awaited(shape: Shape, snapshot: Snapshot) -> list[PersistentVolumeClaim]:
    """The claims that wait for their first consumer."""
    return [one for one in _claims(shape, snapshot) if _is_awaited(one, snapshot)]


def _is_awaited(claim: PersistentVolumeClaim, snapshot: Snapshot) -> bool:
    """One that names its volume already waits for nobody but the binder."""
    return not claim.spec.volume_name and snapshot.volumes.waits_for_first_consumer(claim)


def _claims(shape: Shape, snapshot: Snapshot) -> list[PersistentVolumeClaim]:
    """Those that there are."""
    return [claim for one in shape.claims if (claim := snapshot.volumes.claims.get(one.key)) is not None]


def _out_of_reach(bound: Sequence[PersistentVolume | None], snapshot: Snapshot, rows: Rows) -> tuple[Mask, Mask]:
    """The rows that a volume is not for, and those where one is missed first: the first that fails speaks."""
    undecided = np.ones(len(rows), dtype=np.bool_)
    elsewhere = np.zeros(len(rows), dtype=np.bool_)
    for volume in bound:
        if volume is None:
            return elsewhere, undecided
        affinity = volume.spec.node_affinity
        if affinity is not None and affinity.required is not None:
            fits = any_term(affinity.required.node_selector_terms or (), snapshot, rows)
            elsewhere |= undecided & ~fits
            undecided &= fits
    return elsewhere, np.zeros(len(rows), dtype=np.bool_)
