"""Makes the folders of claims whose pods come to this node, and removes those of volumes that are given up.

    claim names us, and this node ─▶ folder ─▶ PersistentVolume that leads here ─▶ bound
    volume released, policy Delete ─▶ folder removed ─▶ volume deleted          (Retain: both stay)

Anybody who may write a PersistentVolume can say that it is one of ours. So a folder is removed only if it is the one
that we would have made for a volume of that name.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.agent.local_path.storage_class import PROVISIONER
from fairlead.agent.trees import remove_tree
from fairlead.api.binding import PROVISIONED_BY, PROVISIONERS, SELECTED_NODE
from fairlead.api.builtin import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from fairlead.api.claims import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairlead.api.errors import AlreadyExists, NotFound
from fairlead.api.event_types import NORMAL, WARNING
from fairlead.api.node_affinity import matches_term
from fairlead.api.objects import Obj
from fairlead.api.references import reference
from fairlead.api.verbs import Api, DeleteOptions, PatchType
from fairlead.client.events import EventRecorder
from fairlead.client.informer import Informer
from fairlead.client.worker import work_off
from fairlead.runtime.workqueue import WorkQueue

#: Below the folder of the node.
FOLDER: Final = "volumes"
#: Keeps a volume until its folder is gone.
FINALIZER: Final = "external-provisioner.volume.kubernetes.io/finalizer"
_HOSTNAME: Final = "kubernetes.io/hostname"
#: A folder is of one machine.
_ACCESS_MODES: Final = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


class LocalPathProvisioner:
    """`hostname` is the node's label of that name; `root` the folder of the node."""

    def __init__(self, api: Api, node_name: str, hostname: str, root: Path) -> None:
        self._api, self._node_name, self._hostname = api, node_name, hostname
        self._folder = root / FOLDER
        self._recorder = EventRecorder(api, f"{PROVISIONER}_{node_name}")
        self._claims = Informer(api, PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        self._volumes = Informer(api, PERSISTENT_VOLUMES, PersistentVolume)
        self._classes = Informer(api, STORAGE_CLASSES, StorageClass)
        self._waiting: WorkQueue[str] = WorkQueue()
        self._given_up: WorkQueue[str] = WorkQueue()

    async def run(self) -> None:
        """Until cancelled."""
        informers = (self._claims, self._volumes, self._classes)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run(), name="events of the provisioner")
            for informer in informers:
                group.create_task(informer.run(), name=f"provisioner's {informer.resource.plural}")
            for informer in informers:
                await informer.synced()
            self._claims.subscribe(self._claim_changed)
            self._volumes.subscribe(self._volume_changed)
            group.create_task(work_off(self._waiting, "claim", self._provide))
            group.create_task(work_off(self._given_up, "volume", self._reclaim))

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if new is not None and self._is_wanted(new):
            self._waiting.add(new.metadata.key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None and self._is_own(new):
            self._given_up.add(new.metadata.key)

    # -- claims

    def _is_wanted(self, claim: PersistentVolumeClaim) -> bool:
        """It waits for a volume of ours on this node."""
        annotations = claim.metadata.annotations
        is_ours = any(annotations.get(name) == PROVISIONER for name in PROVISIONERS)
        is_here = annotations.get(SELECTED_NODE) == self._node_name
        return is_ours and is_here and not claim.spec.volume_name and not claim.metadata.is_terminating

    async def _provide(self, key: str) -> None:
        claim = self._claims.get(key)
        if claim is None or not self._is_wanted(claim):
            return
        name, found = f"pvc-{claim.metadata.uid}", self._classes.get(claim.class_name)
        if self._volumes.get(name) is not None:
            return
        if problem := _refusal(claim, found):
            why = f'failed to provision volume with StorageClass "{claim.class_name}": {problem}'
            self._tell(claim, WARNING, "ProvisioningFailed", why)
            return
        assert found is not None
        doing = f'External provisioner is provisioning volume for claim "{claim.metadata.key}"'
        self._tell(claim, NORMAL, "Provisioning", doing)
        await asyncio.to_thread(_make, self._folder / name)
        with suppress(AlreadyExists):
            await self._api.create(PERSISTENT_VOLUMES, self._volume(name, claim, found))
            self._tell(claim, NORMAL, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _volume(self, name: str, claim: PersistentVolumeClaim, found: StorageClass) -> Obj:
        here = {"key": _HOSTNAME, "operator": "In", "values": [self._hostname]}
        meta: Obj = {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}
        if found.reclaim_policy == "Delete":
            meta["finalizers"] = [FINALIZER]
        return {
            "metadata": meta,
            "spec": {
                "capacity": {"storage": (claim.spec.resources.requests or {})["storage"]},
                "accessModes": list(claim.spec.access_modes or ()),
                "volumeMode": "Filesystem",
                "storageClassName": found.metadata.name,
                "persistentVolumeReclaimPolicy": found.reclaim_policy,
                "claimRef": reference(claim, PERSISTENT_VOLUME_CLAIMS).encode(),
                "local": {"path": str(self._folder / name)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }

    # -- volumes

    def _is_own(self, volume: PersistentVolume) -> bool:
        """We have made it, on this node."""
        if volume.metadata.annotations.get(PROVISIONED_BY) != PROVISIONER or volume.spec.local is None:
            return False
        required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
        terms, labels = (required.node_selector_terms if required is not None else ()), {_HOSTNAME: self._hostname}
        is_here = any(matches_term(term, labels, self._node_name) for term in terms or ())
        return is_here and volume.spec.local.path == str(self._folder / volume.metadata.name)

    async def _reclaim(self, key: str) -> None:
        volume = self._volumes.get(key)
        if volume is None or not self._is_own(volume):
            return
        meta, goes = volume.metadata, volume.spec.persistent_volume_reclaim_policy == "Delete"
        if goes and volume.is_released:
            await self._remove(volume)
            if not meta.is_terminating:
                with suppress(NotFound):
                    await self._api.delete(PERSISTENT_VOLUMES, meta.name, "", DeleteOptions(precondition_uid=meta.uid))
                return  # and the rest when that is seen
        if meta.is_terminating and FINALIZER in meta.finalizers and (volume.is_released or not goes):
            others = [name for name in meta.finalizers if name != FINALIZER]
            patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": others}}
            await self._api.patch(PERSISTENT_VOLUMES, meta.name, "", patch, PatchType.MERGE)

    async def _remove(self, volume: PersistentVolume) -> None:
        """Whoever wrote to it may have left symlinks; none is followed."""
        try:
            await asyncio.to_thread(_unmake, self._folder / volume.metadata.name)
        except OSError as error:
            about = reference(volume, PERSISTENT_VOLUMES)
            self._recorder.event(about, WARNING, "VolumeFailedDelete", f"the folder cannot be removed: {error}")
            raise

    def _tell(self, claim: PersistentVolumeClaim, kind: str, reason: str, message: str) -> None:
        self._recorder.event(reference(claim, PERSISTENT_VOLUME_CLAIMS), kind, reason, message)


def _refusal(claim: PersistentVolumeClaim, found: StorageClass | None) -> str:
    """Why there is no volume for the claim; empty if there is nothing wrong with it."""
    if found is None:
        return "the class is gone"
    if claim.spec.selector is not None:
        return "claim.Spec.Selector is not supported"
    if claim.spec.volume_mode == "Block":
        return "block volume provisioning is not supported"
    if others := sorted(set(claim.spec.access_modes or ()) - _ACCESS_MODES):
        return f"{', '.join(others)} is not supported: a folder is of one node"
    if found.mount_options:
        return "mountOptions are not supported"
    return ""


def _make(folder: Path) -> None:
    """Whoever the container runs as may write to it; nobody else gets to it, through the folder of the node."""
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)


def _unmake(folder: Path) -> None:
    remove_tree(folder)
