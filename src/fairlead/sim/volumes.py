"""Simulated storage: volumes that exist as soon as they are requested, hold nothing, and grow and go on demand.

It does what the sidecars of a CSI driver (external-provisioner, external-resizer) do to claims and volumes, so that the
scheduler and the PersistentVolume controller treat it like a real driver. See docs/simulated-nodes.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fairlead.api.attachments import CSIDriver, VolumeAttachment
from fairlead.api.binding import PROVISIONED_BY, PROVISIONERS, SELECTED_NODE
from fairlead.api.builtin import CSI_DRIVERS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.errors import AlreadyExists
from fairlead.api.event_types import WARNING
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.references import reference
from fairlead.controllers.actions import Actions, Create, Delete, Emit, Patch, with_finalizer, without_finalizer
from fairlead.controllers.attachments import attachments_of
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import ATTACHMENTS, ATTRIBUTES_CLASSES, CLAIMS, NODES, STORAGE_CLASSES, VOLUMES
from fairlead.sim.data_sources import clone_problem, clones_of, is_filled_by_others
from fairlead.sim.volume_attributes import attributes_problem, modify, of_attributes_class

#: The provisioner of a class of simulated volumes, and the driver of the volumes.
PROVISIONER: Final = "sim.fairlead.dev/volumes"
DRIVER: Final = "sim.fairlead.dev"
#: With this annotation (`true`), a class of another provisioner gets simulated volumes; they have it, too. Volumes of a
#: driver with it are attached as soon as that is asked for: no attacher of its own will come.
SIMULATED: Final = "sim.fairlead.dev/provision"
#: Keeps a volume until its storage has been deleted.
FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
#: The class of a new cluster.
DEFAULT_CLASS: Final[Obj] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowVolumeExpansion": True,
}


def _has_simulated_volumes(found: StorageClass) -> bool:
    return found.provisioner == PROVISIONER or found.metadata.annotations.get(SIMULATED) == "true"


def is_simulated_volume(volume: PersistentVolume) -> bool:
    """Whether its storage is ours to make and to delete."""
    made_for_another = volume.metadata.annotations.get(SIMULATED) == "true"
    return made_for_another or (volume.spec.csi is not None and volume.spec.csi.driver == DRIVER)


def is_simulated_driver(driver: CSIDriver) -> bool:
    return driver.metadata.annotations.get(SIMULATED) == "true"


def with_simulated_drivers(objects: Iterable[Obj]) -> Iterator[Obj]:
    """The same objects, of which none brings the programs of a driver with it."""
    for obj in objects:
        if obj.get("kind") == CSI_DRIVERS.kind and isinstance(meta := obj.get("metadata"), dict):
            meta["annotations"] = {SIMULATED: "true", **(meta.get("annotations") or {})}
        yield obj


def _of_class(world: World, old: StorageClass | None, new: StorageClass | None) -> list[str]:
    """The claims of a class that was not simulated before."""
    if new is None or not _has_simulated_volumes(new) or (old is not None and _has_simulated_volumes(old)):
        return []
    return [claim.metadata.key for claim in world.of(CLAIMS) if claim.class_name == new.metadata.name]


def _of_source(world: World, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> list[str]:
    """The claims that wait for one to be bound, and begin with what it has."""
    if new is None or (old is not None and old.status.phase == new.status.phase):
        return []
    return clones_of(world, new.metadata.key)


def _detached(world: World, old: VolumeAttachment | None, new: VolumeAttachment | None) -> list[str]:
    """The volume that has been attached somewhere: it is not deleted before that is over."""
    return [old.volume_name] if old is not None and new is None else []


class Provisioner(Controller[PersistentVolumeClaim]):
    """Creates the volumes of claims, and resizes them."""

    name = PROVISIONER
    account = "persistent-volume-binder"
    kind = CLAIMS
    watches = (
        Watch(STORAGE_CLASSES, _of_class),
        Watch(ATTRIBUTES_CLASSES, of_attributes_class),
        Watch(CLAIMS, _of_source),
        Watch(VOLUMES),
        Watch(NODES),
    )

    def reconcile(self, obj: PersistentVolumeClaim, world: World) -> Actions:
        if obj.is_bound:
            volume = world.get(VOLUMES, obj.spec.volume_name)
            is_settled = obj.status.phase == "Bound"  # from then on its status says what it has
            if volume is not None and is_simulated_volume(volume) and is_settled:
                yield from self._grow(obj, volume)
                yield from modify(obj, volume, world)
        elif not obj.spec.volume_name:
            yield from self._provision(obj, world)

    def _provision(self, claim: PersistentVolumeClaim, world: World) -> Actions:
        found = world.get(STORAGE_CLASSES, claim.class_name)
        annotations, name = claim.metadata.annotations, f"pvc-{claim.metadata.uid}"
        if found is None or not _has_simulated_volumes(found) or claim.metadata.is_terminating:
            return
        if not (provisioner := annotations.get(PROVISIONERS[-1])) or world.get(VOLUMES, name) is not None:
            return
        node, selected = None, annotations.get(SELECTED_NODE, "")
        if selected and (node := world.get(NODES, selected)) is None:
            why = f'error getting selected node "{selected}"'
            yield Emit("ProvisioningFailed", f'failed to get target node: {why}: node "{selected}" not found', WARNING)
            yield Patch(CLAIMS, claim, {"metadata": {"annotations": {SELECTED_NODE: None}}}, unchanged=True)
            return
        if is_filled_by_others(claim):
            yield Emit("Provisioning", "Assuming an external populator will provision the volume")
            return
        driver = _driver(found, provisioner)
        if problem := clone_problem(claim, driver, world) or attributes_problem(claim, driver, world):
            what = f'failed to provision volume with StorageClass "{claim.class_name}": {problem}'
            yield Emit("ProvisioningFailed", what, WARNING)
            return
        yield Emit("Provisioning", f'External provisioner is provisioning volume for claim "{claim.metadata.key}"')
        try:
            where = _reachable(found, node) or _like_others(provisioner, node, world)
            yield Create(VOLUMES, _new_volume(name, provisioner, claim, found, where))
        except AlreadyExists:
            return
        yield Emit("ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _grow(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Actions:
        if claim.requested <= claim.capacity:
            return
        wanted = {"storage": (claim.spec.resources.requests or {})["storage"]}
        yield Emit("Resizing", f"External resizer is resizing volume {volume.metadata.name}")
        if volume.capacity < claim.requested:
            yield Patch(VOLUMES, volume, {"spec": {"capacity": wanted}})
        yield Patch(CLAIMS, claim, {"status": {"capacity": wanted}}, subresource="status", unchanged=True)
        yield Emit("VolumeResizeSuccessful", "Resize volume succeeded")


class Remover(Controller[PersistentVolume]):
    """Deletes released simulated volumes, if their reclaim policy says so."""

    name = PROVISIONER
    account = "persistent-volume-binder"
    kind = VOLUMES
    watches = (Watch(ATTACHMENTS, _detached),)

    def reconcile(self, obj: PersistentVolume, world: World) -> Actions:
        if not is_simulated_volume(obj) or (obj.is_released and attachments_of(world, obj.metadata.name)):
            return
        meta, has_finalizer = obj.metadata, FINALIZER in obj.metadata.finalizers
        goes = obj.spec.persistent_volume_reclaim_policy == "Delete"
        if goes and obj.is_released and not meta.is_terminating:
            yield Delete(VOLUMES, obj)
        elif has_finalizer and (not goes or (obj.is_released and meta.is_terminating)):
            yield without_finalizer(VOLUMES, obj, FINALIZER)
        elif goes and not has_finalizer and not meta.is_terminating:
            yield with_finalizer(VOLUMES, obj, FINALIZER)


def _new_volume(
    name: str, provisioner: str, claim: PersistentVolumeClaim, found: StorageClass, where: Obj | None
) -> Obj:
    policy = found.reclaim_policy
    spec: Obj = {
        "capacity": {"storage": (claim.spec.resources.requests or {})["storage"]},
        "accessModes": list(claim.spec.access_modes or ()),
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "storageClassName": found.metadata.name,
        "persistentVolumeReclaimPolicy": policy,
        "mountOptions": list(found.mount_options or ()) or None,
        "claimRef": reference(claim, PERSISTENT_VOLUME_CLAIMS).encode(),
        "volumeAttributesClassName": claim.spec.volume_attributes_class_name,
        "csi": {"driver": _driver(found, provisioner), "volumeHandle": name},
        "nodeAffinity": where,
    }
    meta: Obj = {"name": name, "annotations": {PROVISIONED_BY: provisioner}}
    if found.provisioner != PROVISIONER:
        meta["annotations"][SIMULATED] = "true"
    if policy == "Delete":
        meta["finalizers"] = [FINALIZER]
    return {
        "apiVersion": PERSISTENT_VOLUMES.api_version,
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": meta,
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def _driver(found: StorageClass, provisioner: str) -> str:
    """Nodes take so many volumes of a driver; not every provisioner has the name of one."""
    return DRIVER if found.provisioner == PROVISIONER or "/" in provisioner else provisioner


def _reachable(found: StorageClass, node: Node | None) -> Obj | None:
    """The node affinity of a volume: the topology that the class allows, narrowed to that of the selected node."""
    terms = []
    for term in found.allowed_topologies or ():
        expressions = []
        for requirement in term.match_label_expressions or ():
            here = node.metadata.labels.get(requirement.key) if node is not None else None
            if node is not None and here not in (requirement.values or ()):
                break
            values = [here] if here is not None else list(requirement.values or ())
            expressions.append({"key": requirement.key, "operator": "In", "values": values})
        else:
            if expressions:
                terms.append({"matchExpressions": expressions})
    return {"required": {"nodeSelectorTerms": terms}} if terms else None


def _like_others(provisioner: str, node: Node | None, world: World) -> Obj | None:
    """The node affinity of a volume by the labels by which others of its provisioner are tied to nodes or zones."""
    if node is None:
        return None
    other = world.of(VOLUMES).index("tied", _tied_by).first(provisioner)
    keys, labels = _topology_keys(other) if other is not None else [], node.metadata.labels
    expressions = [{"key": key, "operator": "In", "values": [labels[key]]} for key in keys if key in labels]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}} if expressions else None


def _tied_by(volume: PersistentVolume) -> tuple[str, ...]:
    """The provisioner of a volume that is tied to nodes or zones."""
    provisioner = volume.metadata.annotations.get(PROVISIONED_BY)
    return (provisioner,) if provisioner is not None and _topology_keys(volume) else ()


def _topology_keys(volume: PersistentVolume) -> list[str]:
    affinity = volume.spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
    return sorted({each.key for term in terms or () for each in term.match_expressions or ()})


#: The controllers of simulated storage.
STORAGE: Final = (Provisioner, Remover)
