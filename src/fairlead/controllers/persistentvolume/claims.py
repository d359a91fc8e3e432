"""The claim's half: find it a volume, name who is to make one, or say what it waits for (`syncClaim`)."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.binding import (
    BOUND_BY_CONTROLLER,
    MIGRATED,
    PROVISIONERS,
    SELECTED_NODE,
    best_match,
    default_class,
    is_kept_for,
    mismatch,
)
from fairlead.api.claims import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.errors import NotFound
from fairlead.api.event_types import WARNING
from fairlead.api.pods import Pod, claim_of
from fairlead.controllers.actions import Actions, Emit, Patch
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import CLAIMS, PODS, STORAGE_CLASSES, VOLUMES
from fairlead.controllers.persistentvolume import writes


def _of_volume(world: World, old: PersistentVolume | None, new: PersistentVolume | None) -> Iterable[str]:
    """The claims that a volume names, and those that name it."""
    either = new or old
    assert either is not None
    named = {version.claimant for version in (old, new) if version is not None and version.claimant}
    named |= {claim.metadata.key for claim in writes.claims_that_name(world, either.metadata.name)}
    return sorted(named)


def _of_class(world: World, old: StorageClass | None, new: StorageClass | None) -> list[str]:
    """The claims that wait for a volume of that class, or for any class to be the default."""
    if new is None:
        return []
    waiting = list(writes.waiting_claims(world, new.metadata.name))
    if new.is_default:
        waiting += writes.waiting_claims(world, "")
    return [claim.metadata.key for claim in waiting]


class ClaimBinder(Controller[PersistentVolumeClaim]):
    """Binds claims to volumes."""

    name = writes.NAME
    queue_name = "claims"
    account = "persistent-volume-binder"
    kind = CLAIMS
    watches = (Watch(VOLUMES, _of_volume), Watch(STORAGE_CLASSES, _of_class), Watch(PODS))
    workers = 1

    def reconcile(self, obj: PersistentVolumeClaim, world: World) -> Actions:
        if BIND_COMPLETED in obj.metadata.annotations:
            yield from self._bound(obj, world)
        elif obj.spec.volume_name:
            yield from self._asks_by_name(obj, world)
        else:
            yield from self._unbound(obj, world)

    # -- without a volume

    def _unbound(self, claim: PersistentVolumeClaim, world: World) -> Actions:
        found = world.get(STORAGE_CLASSES, claim.class_name) if claim.class_name else None
        is_late = found is not None and found.waits_for_first_consumer
        candidates = writes.volumes_kept_for(world, claim.metadata.key)
        if not is_late:  # else the scheduler chooses among those that nobody has
            candidates = [*candidates, *writes.free_volumes(world, claim.class_name)]
        volume = best_match(claim, candidates)
        if volume is not None:
            yield from writes.bind(volume, claim)
            return
        if not claim.says_class and (default := default_class(world.of(STORAGE_CLASSES))) is not None:
            yield Patch(CLAIMS, claim, {"spec": {"storageClassName": default.metadata.name}}, unchanged=True)
            return
        if is_late and SELECTED_NODE not in claim.metadata.annotations:
            yield self._awaits_consumer(claim, world)
        elif claim.class_name:
            yield from self._provision(claim, found)
            return
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            yield Emit("FailedBinding", text)
        yield from writes.claim_phase(claim, "Pending")

    def _awaits_consumer(self, claim: PersistentVolumeClaim, world: World) -> Emit:
        pods = sorted(pod.metadata.name for pod in world.of(PODS).index("unplaced", _unplaced)[claim.metadata.key])
        if not pods:
            return Emit("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        who = f"pod {pods[0]}" if len(pods) == 1 else f"pods {','.join(pods)}"
        return Emit("WaitForPodScheduled", f"waiting for {who} to be scheduled")

    def _provision(self, claim: PersistentVolumeClaim, found: StorageClass | None) -> Actions:
        """Tell the provisioner of the class that it is wanted: it is another component, or `sim/volumes.py`."""
        if found is None:
            missing = NotFound.of("storageclass", claim.class_name, STORAGE_CLASSES.resource.group)
            yield Emit("ProvisioningFailed", missing.message, WARNING)
            return
        provisioner = MIGRATED.get(found.provisioner, found.provisioner)
        if provisioner.startswith("kubernetes.io/"):
            yield Emit("ProvisioningFailed", f"no volume plugin matched name: {provisioner}", WARNING)
            return
        if any(claim.metadata.annotations.get(key) != provisioner for key in PROVISIONERS):
            named = dict.fromkeys(PROVISIONERS, provisioner)
            yield Patch(CLAIMS, claim, {"metadata": {"annotations": named}}, unchanged=True)
        yield Emit(
            "ExternalProvisioning",
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the "
            "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
            "correctly registered.",
        )

    # -- with one in mind

    def _asks_by_name(self, claim: PersistentVolumeClaim, world: World) -> Actions:
        volume = world.get(VOLUMES, claim.spec.volume_name)
        if volume is not None and is_kept_for(volume, claim):
            yield from writes.bind(volume, claim)
            return
        if volume is not None and volume.spec.claim_ref is None:
            if not (why := mismatch(volume, claim)):
                yield from writes.bind(volume, claim)
                return
            name = volume.metadata.name
            yield Emit("VolumeMismatch", f'Cannot bind to requested volume "{name}": {why}', WARNING)
        elif volume is not None:
            text = f'volume "{volume.metadata.name}" already bound to a different claim.'
            yield Emit("FailedBinding", text, WARNING)
            if BOUND_BY_CONTROLLER in claim.metadata.annotations:
                return  # somebody has taken off the mark of completion: not ours to mend
        yield from writes.claim_phase(claim, "Pending")

    # -- bound before

    def _bound(self, claim: PersistentVolumeClaim, world: World) -> Actions:
        volume = world.get(VOLUMES, claim.spec.volume_name) if claim.spec.volume_name else None
        if not claim.spec.volume_name:
            text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            yield from self._lost(claim, "ClaimLost", text)
        elif volume is None:
            text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            yield from self._lost(claim, "ClaimLost", text)
        elif volume.spec.claim_ref is None or volume.spec.claim_ref.uid == claim.metadata.uid:
            yield from writes.bind(volume, claim)
        else:
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
            yield from self._lost(claim, "ClaimMisbound", text)

    def _lost(self, claim: PersistentVolumeClaim, reason: str, message: str) -> Actions:
        if claim.status.phase != "Lost":
            yield from writes.claim_phase(claim, "Lost")
            yield Emit(reason, message, WARNING)


def _unplaced(pod: Pod) -> list[str]:
    """The claims of a pod that has no node yet."""
    if pod.spec.node_name or not pod.spec.may_have_claims or pod.is_finished:
        return []
    names = (claim_of(pod, volume) for volume in pod.spec.volumes)
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]
