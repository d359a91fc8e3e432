"""The claims of the cluster and the volumes behind them: the facts behind VolumeBinding.

A decision must count every volume that was given away before, whether or not the server knows yet. So what a pod is
to get is assumed (`ClaimPlan`) until its binding has come to an end, well or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from fairlead.api.binding import SELECTED_NODE
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.meta import Object

#: A volume as its driver knows it: the driver, and its handle there.
Attachable: TypeAlias = tuple[str, str]

T = TypeVar("T", bound=Object)
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class ClaimPlan:
    """What is to happen to the claims of a pod that was given a node."""

    node: str
    #: Volumes that are there, each for a claim.
    bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]]
    #: Claims whose volumes are to be made.
    provisions: list[PersistentVolumeClaim]
    #: Something happened to one of these claims or volumes, or to the pod.
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _provided: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._provided = frozenset(claim.metadata.key for claim in self.provisions)

    def provides(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim's volume is to be made."""
        return claim.metadata.key in self._provided

    @property
    def claims(self) -> Iterable[PersistentVolumeClaim]:
        return (*(claim for claim, _ in self.bindings), *self.provisions)


class Volumes:
    """Claims by `namespace/name`, volumes and classes by name; and the plans, by the uids of their pods."""

    def __init__(self) -> None:
        #: Moves whenever a claim, volume or class comes, changes or goes.
        self.version = 0
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        #: By class and the claim that they are kept for, if any, so that those of other claims are not looked at.
        self._kept: dict[tuple[str, str], dict[str, PersistentVolume]] = {}
        self._plans: dict[str, ClaimPlan] = {}
        #: The claims that are to have a volume: once for each pod of theirs, but never two claims.
        self._assumed_claims: dict[str, list[str]] = {}
        self._planned: dict[str, list[ClaimPlan]] = {}  # by claim
        self._attachable: dict[str, Attachable | None] = {}  # by claim, as far as anybody has asked

    def set_claim(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        self.version += 1
        replace(self.claims, old, new)
        either = new or old
        assert either is not None
        self._attachable.pop(either.metadata.key, None)
        self._notify(either.metadata.key)

    def set_volume(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        self.version += 1
        replace(self.volumes, old, new)
        if old is not None:
            kept = self._kept[old.class_name, old.claimant]
            del kept[old.metadata.name]
            if not kept:
                del self._kept[old.class_name, old.claimant]
            self._attachable.pop(old.claimant, None)
            self._notify(old.claimant)
        if new is not None:
            self._kept.setdefault((new.class_name, new.claimant), {})[new.metadata.name] = new
            self._attachable.pop(new.claimant, None)
            self._notify(new.claimant)

    def set_class(self, old: StorageClass | None, new: StorageClass | None) -> None:
        self.version += 1
        replace(self.classes, old, new)
        self._attachable.clear()

    def candidates(self, claim: PersistentVolumeClaim) -> Iterator[PersistentVolume]:
        """The volumes of the claim's class that are kept for it, or for no claim."""
        for claimant in (claim.metadata.key, ""):
            yield from self._kept.get((claim.class_name, claimant), {}).values()

    # --- what is assumed --------------------------------------------------------------------------------------------

    def plan(self, uid: str) -> ClaimPlan | None:
        """What is assumed for the pod with that uid, if anything is."""
        return self._plans.get(uid)

    def assume(self, uid: str, plan: ClaimPlan) -> None:
        self._plans[uid] = plan
        for claim, volume in plan.bindings:
            self._assumed_claims.setdefault(volume.metadata.name, []).append(claim.metadata.key)
        for claim in plan.claims:
            self._planned.setdefault(claim.metadata.key, []).append(plan)

    def release(self, uid: str) -> None:
        """What was assumed for the pod has come true, or never will."""
        plan = self._plans.pop(uid, None)
        if plan is None:
            return
        for claim in plan.claims:
            _remove(self._planned, claim.metadata.key, plan)
        for claim, volume in plan.bindings:
            _remove(self._assumed_claims, volume.metadata.name, claim.metadata.key)

    def assumed_claim_of(self, volume: PersistentVolume) -> str:
        """The claim that is assumed to have the volume, empty if none is."""
        claims = self._assumed_claims.get(volume.metadata.name)
        return claims[0] if claims else ""

    def selected_node(self, claim: PersistentVolumeClaim) -> str:
        """The node near which its volume is being made, empty if none was chosen."""
        for plan in self._planned.get(claim.metadata.key, ()):
            if plan.provides(claim):
                return plan.node
        return claim.metadata.annotations.get(SELECTED_NODE, "")

    def pod_gone(self, uid: str) -> None:
        if (plan := self._plans.get(uid)) is not None:
            plan.changed.set()
        self.release(uid)

    def _notify(self, claim: str) -> None:
        for plan in self._planned.get(claim, ()):
            plan.changed.set()

    # --- questions --------------------------------------------------------------------------------------------------

    def attachable(self, claim: str) -> Attachable | None:
        """The volume behind the claim, also one that is to be made, of which the class says by whom.

        None for kinds of volumes that came before CSI.
        """
        if claim in self._attachable:
            return self._attachable[claim]
        if (known := self.claims.get(claim)) is None:
            return None
        found = self._attachable[claim] = self._driver_and_handle(known)
        return found

    def _driver_and_handle(self, claim: PersistentVolumeClaim) -> Attachable | None:
        if (volume := self.volumes.get(claim.spec.volume_name)) is not None:
            csi = volume.spec.csi
            return (csi.driver, csi.volume_handle) if csi is not None and csi.volume_handle else None
        found = self.classes.get(claim.class_name)
        return (found.provisioner, f"claim {claim.metadata.key}") if found is not None else None

    def is_awaited(self, claim: PersistentVolumeClaim) -> bool:
        """Whether its volume is chosen after the node; one that names its volume only waits for the controller."""
        found = self.classes.get(claim.class_name)
        return not claim.spec.volume_name and found is not None and found.waits_for_first_consumer


def _remove(lists: dict[str, list[V]], key: str, value: V) -> None:
    lists[key].remove(value)
    if not lists[key]:
        del lists[key]


def replace(objects: dict[str, T], old: T | None, new: T | None) -> None:
    """Something came, changed or went."""
    if old is not None:
        objects.pop(old.metadata.key, None)
    if new is not None:
        objects[new.metadata.key] = new
