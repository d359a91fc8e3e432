"""The volume's half: its phase, and what becomes of it when its claim has gone (`syncVolume`)."""

from __future__ import annotations

import posixpath
from collections.abc import Generator, Iterable
from typing import Any

from fairlead.api.binding import PROVISIONED_BY, has_mode_of, keeping, may_have, offers_access
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim
from fairlead.api.errors import NotFound
from fairlead.api.event_types import WARNING
from fairlead.api.references import reference
from fairlead.controllers.actions import Action, Actions, Delete, Emit, Patch, Read
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import CLAIMS, STORAGE_CLASSES, VOLUMES
from fairlead.controllers.persistentvolume import writes


def _of_claim(world: World, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> Iterable[str]:
    """The volumes that a claim names, and those that name it."""
    either = new or old
    assert either is not None
    named = {claim.spec.volume_name for claim in (old, new) if claim is not None and claim.spec.volume_name}
    named |= {volume.metadata.name for volume in writes.volumes_kept_for(world, either.metadata.key)}
    return sorted(named)


class VolumeKeeper(Controller[PersistentVolume]):
    """Keeps the phases of volumes, offers those that are free, and takes back those whose claims have gone."""

    name = writes.NAME
    queue_name = "volumes"
    account = "persistent-volume-binder"
    kind = VOLUMES
    watches = (Watch(CLAIMS, _of_claim, wakes_known=True), Watch(STORAGE_CLASSES))
    workers = 1

    def reconcile(self, obj: PersistentVolume, world: World) -> Actions:
        ref = obj.spec.claim_ref
        if ref is None:
            yield from writes.volume_phase(obj, "Available")
            yield from self._offer(obj, world)
        elif not ref.uid:  # somebody made it for a claim, which takes it when it comes
            yield from writes.volume_phase(obj, "Available")
        else:
            yield from self._claimed(obj, (yield from self._claimant(obj, world)))

    def _offer(self, volume: PersistentVolume, world: World) -> Actions:
        """Keep it for the claim that has waited longest for one like it: the claim does the rest."""
        waiting = (
            waiting_claim
            for waiting_claim in writes.waiting_claims(world, volume.class_name)
            if self._does(volume, waiting_claim, world)
        )
        claim = min(
            waiting,
            key=lambda waiting_claim: (waiting_claim.metadata.creation_timestamp, waiting_claim.metadata.key),
            default=None,
        )
        if claim is not None and (patch := keeping(volume, claim)) is not None:
            yield Patch(VOLUMES, volume, patch, unchanged=True)

    def _does(self, volume: PersistentVolume, claim: PersistentVolumeClaim, world: World) -> bool:
        if not may_have(volume, claim) or not offers_access(volume, claim):
            return False
        found = world.get(STORAGE_CLASSES, claim.class_name) if claim.class_name else None
        if found is not None and found.waits_for_first_consumer:
            return False
        return not writes.volumes_kept_for(world, claim.metadata.key)

    def _claimant(self, volume: PersistentVolume, world: World) -> Generator[Action, Any, PersistentVolumeClaim | None]:
        """The claim that the volume names; before it counts as gone, the server is asked."""
        ref = volume.spec.claim_ref
        assert ref is not None
        claim = world.get(CLAIMS, volume.claimant)
        if (claim is None and not volume.is_released) or (claim is not None and claim.metadata.uid != ref.uid):
            try:
                claim = yield Read(CLAIMS, ref.name, ref.namespace)
            except NotFound:
                return None
        return claim if claim is not None and claim.metadata.uid == ref.uid else None

    def _claimed(self, volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> Actions:
        if claim is None:
            yield from self._release(volume)
        elif not claim.spec.volume_name:
            if not has_mode_of(volume, claim):
                yield from self._emit_mode_mismatch(volume, claim)
        elif claim.spec.volume_name == volume.metadata.name:
            yield from writes.volume_phase(volume, "Bound")
        elif PROVISIONED_BY in volume.metadata.annotations and volume.spec.persistent_volume_reclaim_policy == "Delete":
            yield from self._release(volume)  # made for a claim that has found another
        else:
            yield from writes.unbind(volume)

    def _emit_mode_mismatch(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> Actions:
        reason, claimed, mine = "VolumeMismatch", claim.metadata.name, volume.metadata.name
        why = "due to incompatible volumeMode."
        yield Emit(
            reason, f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claimed}" {why}', WARNING
        )
        text = f'Cannot bind PersistentVolume "{mine}" to requested PersistentVolumeClaim {why}'
        yield Emit(reason, text, WARNING, about=reference(claim, CLAIMS.resource))

    # -- the claim has gone

    def _release(self, volume: PersistentVolume) -> Actions:
        if not volume.is_released:
            yield from writes.volume_phase(volume, "Released")
            return  # and the rest when that is seen
        policy = volume.spec.persistent_volume_reclaim_policy
        if policy == "Recycle":
            yield from self._recycle(volume)
        elif policy == "Delete":
            yield from self._delete(volume)

    def _recycle(self, volume: PersistentVolume) -> Actions:
        if volume.spec.host_path is None and volume.spec.nfs is None:
            why = "No recycler plugin found for the volume!"
            yield from writes.volume_phase(volume, "Failed", why, (WARNING, "VolumeFailedRecycle"))
            return
        yield Emit("VolumeRecycled", "Volume recycled")
        yield from writes.unbind(volume)

    def _delete(self, volume: PersistentVolume) -> Actions:
        """What others made, they delete; of the rest only directories below /tmp."""
        spec, provisioner = volume.spec, volume.metadata.annotations.get(PROVISIONED_BY, "")
        if provisioner.startswith("kubernetes.io/"):
            why = f"no volume plugin matched name: {provisioner}"
        elif provisioner or spec.csi is not None:
            return
        elif spec.host_path is None:
            name = volume.metadata.name
            why = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
        elif not posixpath.normpath(spec.host_path.path).startswith("/tmp/"):
            why = f'host_path deleter only supports /tmp/.+ but received provided "{spec.host_path.path}"'
        else:
            yield Delete(VOLUMES, volume)
            return
        yield from writes.volume_phase(volume, "Failed", why, (WARNING, "VolumeFailedDelete"))
