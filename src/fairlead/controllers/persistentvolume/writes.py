"""What both halves of the controller write, and how they find what belongs together."""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.binding import BOUND_BY_CONTROLLER, keeping
from fairlead.api.claims import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, VolumeSpec
from fairlead.api.objects import Obj
from fairlead.controllers.actions import Actions, Emit, Patch, update_status
from fairlead.controllers.base import World
from fairlead.controllers.kinds import CLAIMS, VOLUMES

#: The component that events come from.
NAME: Final = "persistentvolume-controller"


def bind(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Actions:
    """Tie the two together, or finish what was begun; nothing is written that is there already."""
    if (patch := keeping(volume, claim)) is not None:
        volume = (yield Patch(VOLUMES, volume, patch, unchanged=True)).view(PersistentVolume)
    yield from volume_phase(volume, "Bound")
    if (patch := _completed(claim, volume)) is not None:
        claim = (yield Patch(CLAIMS, claim, patch, unchanged=True)).view(PersistentVolumeClaim)
    yield from claim_phase(claim, "Bound", volume)


def _completed(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Obj | None:
    patch: Obj = {}
    annotations: Obj = {}
    if claim.spec.volume_name != volume.metadata.name:
        patch["spec"] = {"volumeName": volume.metadata.name}
        annotations[BOUND_BY_CONTROLLER] = "yes"
    if BIND_COMPLETED not in claim.metadata.annotations:
        annotations[BIND_COMPLETED] = "yes"
    if annotations:
        patch["metadata"] = {"annotations": annotations}
    return patch or None


def claim_phase(claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None = None) -> Actions:
    """What the claim has is written when it becomes bound; whoever grows or changes it keeps that up to date from then
    on, and what they say of it stays.
    """
    was, has = claim.status, VolumeSpec() if volume is None else volume.spec
    status = msgspec.structs.replace(was, phase=phase, access_modes=has.access_modes)
    if volume is None or was.phase != phase:
        status = msgspec.structs.replace(
            status, capacity=has.capacity, current_volume_attributes_class_name=has.volume_attributes_class_name
        )
    yield from update_status(CLAIMS, claim, was, status)


def volume_phase(
    volume: PersistentVolume, phase: str, message: str = "", event: tuple[str, str] | None = None
) -> Actions:
    """`event` (type and reason) tells of the change, with the message."""
    if volume.status.phase == phase:
        return
    yield Patch(VOLUMES, volume, {"status": {"phase": phase, "message": message or None}}, subresource="status")
    if event is not None:
        yield Emit(event[1], message, event[0])


def unbind(volume: PersistentVolume) -> Actions:
    """Free the volume; one that somebody made for a claim stays kept for a claim of that name."""
    if BOUND_BY_CONTROLLER in volume.metadata.annotations:
        patch: Obj = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": None}}
    else:
        patch = {"spec": {"claimRef": {"uid": None}}}
    freed = (yield Patch(VOLUMES, volume, patch, unchanged=True)).view(PersistentVolume)
    yield from volume_phase(freed, "Available")


# --- who belongs together -------------------------------------------------------------------------------------------


def volumes_kept_for(world: World, claim: str) -> list[PersistentVolume]:
    """The volumes that name the claim of that `namespace/name`."""
    return world.of(VOLUMES).index("claimant", _claimant)[claim]


def free_volumes(world: World, class_name: str) -> list[PersistentVolume]:
    """The volumes of a class that name no claim."""
    return world.of(VOLUMES).index("free", _free)[class_name]


def claims_that_name(world: World, volume: str) -> list[PersistentVolumeClaim]:
    return world.of(CLAIMS).index("volume", _named)[volume]


def waiting_claims(world: World, class_name: str) -> list[PersistentVolumeClaim]:
    """The claims of a class that have no volume and ask for none by name."""
    return world.of(CLAIMS).index("waiting", _waiting)[class_name]


def _claimant(volume: PersistentVolume) -> tuple[str, ...]:
    return (volume.claimant,) if volume.claimant else ()


def _free(volume: PersistentVolume) -> tuple[str, ...]:
    return () if volume.claimant else (volume.class_name,)


def _named(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    return (claim.spec.volume_name,) if claim.spec.volume_name else ()


def _waiting(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    is_waiting = not claim.spec.volume_name and BIND_COMPLETED not in claim.metadata.annotations
    return (claim.class_name,) if is_waiting else ()
