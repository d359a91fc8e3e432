"""Simulated volumes take on the attributes of the class that their claims name: at once, and without effect.

Sources: external-provisioner (Provision), external-resizer (pkg/modifycontroller).
"""

from __future__ import annotations

from fairlead.api.claims import AttributesClass, PersistentVolume, PersistentVolumeClaim
from fairlead.api.event_types import WARNING
from fairlead.controllers.actions import Actions, Emit, Patch
from fairlead.controllers.base import World
from fairlead.controllers.kinds import ATTRIBUTES_CLASSES, CLAIMS, VOLUMES
from fairlead.controllers.volumes import claims_of_attributes_class


def of_attributes_class(world: World, old: AttributesClass | None, new: AttributesClass | None) -> list[str]:
    """The claims that have waited for a class."""
    return [] if new is None else [claim.metadata.key for claim in claims_of_attributes_class(world, new.metadata.name)]


def attributes_problem(claim: PersistentVolumeClaim, driver: str, world: World) -> str:
    """Why a new volume cannot have the attributes that its claim wants; empty if it can, or is to have none."""
    if not (name := claim.spec.volume_attributes_class_name):
        return ""
    found = world.get(ATTRIBUTES_CLASSES, name)
    if found is None:
        return f'volumeattributesclasses.storage.k8s.io "{name}" not found'
    if found.driver_name != driver:
        of = f"is for driver {found.driver_name} which does not match driver name {driver}"
        return f"VAC {name} referenced in PVC {of}"
    return ""


def modify(claim: PersistentVolumeClaim, volume: PersistentVolume, world: World) -> Actions:
    """Give the volume of a bound claim other attributes, if it wants others."""
    wanted, status = claim.spec.volume_attributes_class_name, claim.status
    if not wanted or wanted == status.current_volume_attributes_class_name:
        return
    if world.get(ATTRIBUTES_CLASSES, wanted) is None:
        if status.modify_volume_status is None:
            yield Emit("VolumeModifyFailed", f'VAC "{wanted}" does not exist.', WARNING)
            pending = {"modifyVolumeStatus": {"status": "Pending"}}
            yield Patch(CLAIMS, claim, {"status": pending}, subresource="status", unchanged=True)
        return
    what = f"volume {claim.metadata.name} with vac {wanted}"
    yield Emit("VolumeModify", f"external resizer is modifying {what}")
    yield Patch(VOLUMES, volume, {"spec": {"volumeAttributesClassName": wanted}})
    done = {"modifyVolumeStatus": None, "currentVolumeAttributesClassName": wanted}
    yield Patch(CLAIMS, claim, {"status": done}, subresource="status", unchanged=True)
    yield Emit("VolumeModifySuccessful", f"external resizer modified {what} successfully")
