"""A pod can run where its volumes are (VolumeBinding).

Claims that are bound hold the pod to the nodes of their volumes. Those that are not wait for whoever binds them, unless
their class waits for its first consumer: then the node decides which volume it will be (`volume_choice.py`), and once
the pod has that node, the volume is bound or asked for (`volume_binder.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim
from fairlead.api.scheduling import Pod
from fairlead.api.strict import check
from fairlead.scheduler.arguments import Arguments
from fairlead.scheduler.columns import Mask, Rows
from fairlead.scheduler.facts.volumes import Volumes
from fairlead.scheduler.framework import ClusterEvent, EventKind, Handle, Narrowed, Plugin, Refusals, Refused
from fairlead.scheduler.plugins.node.volume_binder import VolumeBinder
from fairlead.scheduler.plugins.node.volume_choice import choose, plan_for, reached_from
from fairlead.scheduler.requirements import PodRequirements, VolumeClaim, claims_of
from fairlead.scheduler.scheduling_request import SchedulingRequest
from fairlead.scheduler.snapshot import Snapshot

ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"


class VolumeBindingArguments(Arguments):
    """How long to wait for the volumes of a pod that has got its node."""

    bind_timeout_seconds: int = 600
    #: Not known to a server without the feature gate StorageCapacityScoring.
    shape: list[Any] | None = None


class VolumeBinding(Plugin):
    name = "VolumeBinding"
    arguments = VolumeBindingArguments
    events = EventKind.VOLUMES | EventKind.STORAGE_CAPACITY | EventKind.NODE_ADDED | EventKind.NODE_LABELS

    @classmethod
    def configured(cls, args: VolumeBindingArguments) -> Self:
        check(args.bind_timeout_seconds >= 0, "bindTimeoutSeconds", args.bind_timeout_seconds,
              "invalid BindTimeoutSeconds, should not be a negative value")  # fmt: skip
        check(args.shape is None, "shape", args.shape,
              "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring")  # fmt: skip
        return cls(args.bind_timeout_seconds)

    def __init__(self, bind_timeout_seconds: int = 600) -> None:
        self.bind_timeout_seconds = bind_timeout_seconds
        self._asked: tuple[PodRequirements, Volumes, int] | None = None
        self._kept_refusal: Refused | None = None

    def pre_filter(self, requirements: PodRequirements, snapshot: Snapshot) -> Refused | Narrowed | None:
        """Claims that do not exist, or that the PersistentVolume controller has to bind first.

        A decision asks several times, of thousands of claims at worst: the last answer is kept.
        """
        asked = (requirements, snapshot.volumes, snapshot.volumes.version)
        if asked != self._asked:
            self._asked, self._kept_refusal = asked, self._refusal(requirements, snapshot.volumes)
        return self._kept_refusal

    def _refusal(self, requirements: PodRequirements, volumes: Volumes) -> Refused | None:
        has_unbound = False
        for pod_claim in requirements.claims:
            name, claim = pod_claim.name, volumes.claims.get(pod_claim.key)
            if claim is None and pod_claim.owner_key:
                return Refused(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')
            if claim is None:
                return Refused(f'persistentvolumeclaim "{name}" not found')
            if claim.status.phase == "Lost":
                gone = claim.spec.volume_name
                return Refused(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"')
            if claim.metadata.is_terminating:
                return Refused(f'persistentvolumeclaim "{name}" is being deleted')
            owner = claim.metadata.controller
            if pod_claim.owner_key and (owner is None or owner.uid != pod_claim.owner_uid):
                return Refused(f"PVC {pod_claim.key} was not created for pod {pod_claim.owner_key} (pod is not owner)")
            has_unbound |= not claim.is_bound and not volumes.is_awaited(claim)
        return Refused("pod has unbound immediate PersistentVolumeClaims") if has_unbound else None

    def filters(self, requirements: PodRequirements) -> bool:
        return bool(requirements.claims)

    def filter(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Mask:
        if self.pre_filter(requirements, snapshot) is not None:
            return np.zeros(len(rows), dtype=np.bool_)
        elsewhere, lost = _out_of_reach(_bound(requirements, snapshot), snapshot, rows)
        return ~elsewhere & ~lost & choose(awaited(requirements.claims, snapshot), snapshot, rows).possible

    def refusals(self, requirements: PodRequirements, snapshot: Snapshot, rows: Rows) -> Refusals:
        """All that is wrong with a node; evicting pods brings no volume."""
        elsewhere, lost = _out_of_reach(_bound(requirements, snapshot), snapshot, rows)
        choice = choose(awaited(requirements.claims, snapshot), snapshot, rows)
        reasons = Counter(
            {
                ELSEWHERE: int(elsewhere.sum()),
                NO_VOLUME: int(lost.sum()),
                NOTHING_TO_BIND: int((~choice.possible & ~choice.lacks_room).sum()),
                NO_ROOM: int(choice.lacks_room.sum()),
            }
        )
        return Refusals(reasons, np.ones(len(rows), dtype=np.bool_))

    def reserve(self, pod: Pod, node: str, handle: Handle) -> None:
        """Count the volumes that the pod is to get on that node as given (AssumePodVolumes)."""
        if not (pod_claims := claims_of(pod)):
            return
        snapshot, row = handle.snapshot, handle.snapshot.row_of(node)
        if row is not None and (claims := awaited(pod_claims, snapshot)):
            snapshot.volumes.assume(pod.metadata.uid, plan_for(claims, snapshot, row))

    def unreserve(self, pod: Pod, node: str, handle: Handle) -> None:
        handle.snapshot.volumes.release(pod.metadata.uid)

    def pre_binds(self, pod: Pod, node: str, handle: Handle) -> bool:
        """Whether the pod's claims still have to get volumes."""
        return handle.snapshot.volumes.plan(pod.metadata.uid) is not None

    async def pre_bind(self, pod: Pod, node: str, handle: Handle) -> None:
        """Return once they have."""
        plan = handle.snapshot.volumes.plan(pod.metadata.uid)
        if plan is None:
            return
        try:
            await VolumeBinder(handle).bind(pod, plan, self.bind_timeout_seconds)
        finally:
            handle.snapshot.volumes.release(pod.metadata.uid)

    def helps(self, event: ClusterEvent, request: SchedulingRequest) -> bool:
        """Of the claims, the pod's own; of the volumes, those that are its claims' or nobody's."""
        return not event.claim or request.requirements.has_claim(event.claim)


def _bound(requirements: PodRequirements, snapshot: Snapshot) -> list[PersistentVolume | None]:
    """The volumes of the bound claims; None for one that is gone."""
    return [
        snapshot.volumes.volumes.get(claim.spec.volume_name)
        for claim in _claims(requirements.claims, snapshot)
        if claim.is_bound
    ]


def awaited(claims: Sequence[VolumeClaim], snapshot: Snapshot) -> list[PersistentVolumeClaim]:
    """The claims whose volumes are chosen after the node, each once however many volumes of the pod name it."""
    unbound = (
        claim for claim in _claims(claims, snapshot) if not claim.is_bound and snapshot.volumes.is_awaited(claim)
    )
    return list({claim.metadata.key: claim for claim in unbound}.values())


def _claims(claims: Sequence[VolumeClaim], snapshot: Snapshot) -> list[PersistentVolumeClaim]:
    """Those that there are."""
    return [claim for pod_claim in claims if (claim := snapshot.volumes.claims.get(pod_claim.key)) is not None]


def _out_of_reach(bound: Sequence[PersistentVolume | None], snapshot: Snapshot, rows: Rows) -> tuple[Mask, Mask]:
    """The rows that a volume is not for, and those where one is missed first: the first that fails speaks."""
    undecided = np.ones(len(rows), dtype=np.bool_)
    elsewhere = np.zeros(len(rows), dtype=np.bool_)
    for volume in bound:
        if volume is None:
            return elsewhere, undecided
        fits = reached_from(volume, snapshot, rows)
        elsewhere |= undecided & ~fits
        undecided &= fits
    return elsewhere, np.zeros(len(rows), dtype=np.bool_)
