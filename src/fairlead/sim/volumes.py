"""Simulated storage: volumes that are there as soon as they are asked for, hold nothing, and grow and go on demand.

It does to claims and volumes what the sidecars of a CSI driver (external-provisioner, external-resizer) do, so that the
scheduler and the PersistentVolume controller need not know that it is no real one. docs/simulated-nodes.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead.api.binding import PROVISIONED_BY, PROVISIONERS, SELECTED_NODE
from fairlead.api.builtin import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.errors import AlreadyExists
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.references import reference
from fairlead.client.events import WARNING
from fairlead.controllers.actions import Actions, Create, Delete, Emit, Patch, with_finalizer, without_finalizer
from fairlead.controllers.base import Controller, Watch, World
from fairlead.controllers.kinds import CLAIMS, NODES, STORAGE_CLASSES, VOLUMES

#: What a class of simulated volumes names as its provisioner, and the volumes as their driver.
PROVISIONER: Final = "sim.fairlead.dev/volumes"
DRIVER: Final = "sim.fairlead.dev"
#: A class of another provisioner asks for simulated volumes with this annotation: `true`.
SIMULATED: Final = "sim.fairlead.dev/provision"
#: The class that a new cluster begins with.
DEFAULT_CLASS: Final = "standard"
#: Keeps a volume until what is behind it has been deleted.
FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"


def default_classes(objects: Sequence[Obj]) -> list[Obj]:
    """What a new cluster gets that begins with these objects: nothing, if they have classes of their own."""
    if any(one.get("kind") == "StorageClass" for one in objects):
        return []
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": DEFAULT_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": True,
        }
    ]


def _is_simulated(found: StorageClass) -> bool:
    return found.provisioner == PROVISIONER or found.metadata.annotations.get(SIMULATED) == "true"


def _is_ours(volume: PersistentVolume) -> bool:
    return volume.spec.csi is not None and volume.spec.csi.driver == DRIVER


def _of_class(world: World, old: StorageClass | None, new: StorageClass | None) -> list[str]:
    """The claims of a class that has come to be simulated."""
    if new is None or not _is_simulated(new) or (old is not None and _is_simulated(old)):
        return []
    return [one.metadata.key for one in world.of(CLAIMS) if one.class_name == new.metadata.name]


class Provisioner(Controller[PersistentVolumeClaim]):
    """Makes the volumes that claims ask it for, and lets them grow."""

    name = PROVISIONER
    kind = CLAIMS
    watches = (Watch(STORAGE_CLASSES, _of_class), Watch(VOLUMES), Watch(NODES))

    def reconcile(self, obj: PersistentVolumeClaim, world: World) -> Actions:
        if obj.is_bound:
            yield from self._grow(obj, world)
        elif not obj.spec.volume_name:
            yield from self._provision(obj, world)

    def _provision(self, claim: PersistentVolumeClaim, world: World) -> Actions:
        found = world.get(STORAGE_CLASSES, claim.class_name)
        annotations, name = claim.metadata.annotations, f"pvc-{claim.metadata.uid}"
        if found is None or not _is_simulated(found) or claim.metadata.is_terminating:
            return
        if not (provisioner := annotations.get(PROVISIONERS[-1])) or world.get(VOLUMES, name) is not None:
            return
        node, selected = None, annotations.get(SELECTED_NODE, "")
        if selected and (node := world.get(NODES, selected)) is None:
            why = f'error getting selected node "{selected}"'
            yield Emit("ProvisioningFailed", f'failed to get target node: {why}: node "{selected}" not found', WARNING)
            yield Patch(CLAIMS, claim, {"metadata": {"annotations": {SELECTED_NODE: None}}}, unchanged=True)
            return
        yield Emit("Provisioning", f'External provisioner is provisioning volume for claim "{claim.metadata.key}"')
        try:
            yield Create(VOLUMES, _new_volume(name, provisioner, claim, found, node))
        except AlreadyExists:
            return
        yield Emit("ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _grow(self, claim: PersistentVolumeClaim, world: World) -> Actions:
        volume = world.get(VOLUMES, claim.spec.volume_name)
        is_settled = claim.status.phase == "Bound"  # from then on its status says what it has
        if volume is None or not _is_ours(volume) or not is_settled or claim.requested <= claim.capacity:
            return
        wanted = {"storage": (claim.spec.resources.requests or {})["storage"]}
        yield Emit("Resizing", f"External resizer is resizing volume {volume.metadata.name}")
        if volume.capacity < claim.requested:
            yield Patch(VOLUMES, volume, {"spec": {"capacity": wanted}})
        yield Patch(CLAIMS, claim, {"status": {"capacity": wanted}}, subresource="status", unchanged=True)
        yield Emit("VolumeResizeSuccessful", "Resize volume succeeded")


class Remover(Controller[PersistentVolume]):
    """Deletes simulated volumes that nobody claims any more, where their policy says so."""

    name = PROVISIONER
    kind = VOLUMES

    def reconcile(self, obj: PersistentVolume, world: World) -> Actions:
        if not _is_ours(obj):
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
    name: str, provisioner: str, claim: PersistentVolumeClaim, found: StorageClass, node: Node | None
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
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "nodeAffinity": _reachable(found, node),
    }
    meta: Obj = {"name": name, "annotations": {PROVISIONED_BY: provisioner}}
    if policy == "Delete":
        meta["finalizers"] = [FINALIZER]
    return {
        "apiVersion": PERSISTENT_VOLUMES.api_version,
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": meta,
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def _reachable(found: StorageClass, node: Node | None) -> Obj | None:
    """From every node, unless the class keeps its volumes to some: then from where the node is, if one was selected."""
    terms = []
    for term in found.allowed_topologies or ():
        expressions = []
        for one in term.match_label_expressions or ():
            here = node.metadata.labels.get(one.key) if node is not None else None
            if node is not None and here not in one.values:
                break
            values = [here] if here is not None else list(one.values)
            expressions.append({"key": one.key, "operator": "In", "values": values})
        else:
            if expressions:
                terms.append({"matchExpressions": expressions})
    return {"required": {"nodeSelectorTerms": terms}} if terms else None


#: What stands in for storage wherever nodes are simulated.
STORAGE: Final = (Provisioner, Remover)
