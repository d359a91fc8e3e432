"""Where on this machine the volume of a claim is: claim ─▶ bound volume ─▶ its path.

A claim that is not there or not bound yet is waited for, and the pod's events say so in a kubelet's words.
Reference: pkg/kubelet/volumemanager/populator, pkg/volume/local.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.csi.publish_parameters import is_device
from fairlead.agent.csi.volumes import CsiVolumes
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.volumes.host_paths import host_path
from fairlead.agent.volumes.problems import ClaimProblem, VolumeProblem
from fairlead.api.builtin import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from fairlead.api.errors import ApiError
from fairlead.api.event_types import NORMAL
from fairlead.api.meta import Object
from fairlead.api.node_affinity import NodeSelector, matches_term
from fairlead.api.objects import Obj
from fairlead.api.pods import FINISHED
from fairlead.api.quantity import parse
from fairlead.api.verbs import Api, ListQuery
from fairlead.kinds.object_references import claim_name
from fairlead.node.container_sync import Note
from fairlead.node.start_requirements import claim_problem

GREW: Final = "FileSystemResizeSuccessful"
GREW_NOT: Final = "FileSystemResizeFailed"
_ONE_POD: Final = "ReadWriteOncePod"
#: What a claim says of its size while the node is to have the file system grow, or nobody has said anything.
_TO_GROW: Final = ("", "NodeResizePending", "NodeResizeInProgress")
#: What is true no more once it has.
_OF_RESIZING: Final = ("Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError")


class Claimed(msgspec.Struct, frozen=True):
    path: Path
    is_read_only: bool
    #: A path of the machine belongs to the machine; a volume that is local to it belongs to the pods.
    takes_owner: bool
    #: Whether how full its file system is says how full the volume is.
    is_measured: bool = False
    #: It has no file system.
    is_device: bool = False


class Claims(msgspec.Struct, frozen=True):
    """Those of the pods of a node, read in its name."""

    api: Api
    node_name: str
    csi: CsiVolumes
    #: Pods that have a volume, by its name, as far as this agent has mounted it.
    _users: dict[str, set[str]] = msgspec.field(default_factory=lambda: defaultdict(set))

    async def volume(self, manifest: Obj, volume: Obj) -> Claimed | None:
        """None for a volume of no claim and no driver. ClaimProblem, or VolumeProblem for one that cannot be mounted
        here.
        """
        if (source := volume.get("csi")) is not None:
            mounted = await self.csi.mount_inline(manifest, volume["name"], source)
            return Claimed(mounted.path, bool(source.get("readOnly")), mounted.takes_owner)
        meta, name = manifest["metadata"], claim_name(manifest["metadata"]["name"], volume)
        if not name:
            return None
        try:
            _, found = await self._bound(manifest, name, is_ephemeral="ephemeral" in volume)
        except VolumeProblem as problem:
            key = f"{meta['namespace']}/{name}"
            raise ClaimProblem(claim_problem(volume["name"], key, str(problem))) from problem
        try:
            return await self._mounted(manifest, volume, found)
        except VolumeProblem as problem:
            problem.volume = found["metadata"]["name"]
            raise

    async def _mounted(self, manifest: Obj, volume: Obj, found: Obj) -> Claimed:
        is_read_only = bool((volume.get("persistentVolumeClaim") or {}).get("readOnly"))
        _check_use(manifest["spec"], volume["name"], found["spec"])
        await self._take(manifest, found)
        if found["spec"].get("csi") is not None:
            mounted = await self.csi.mount(manifest, volume["name"], found, is_read_only=is_read_only)
            return Claimed(mounted.path, is_read_only, mounted.takes_owner, is_device=is_device(found["spec"]))
        return await self._path(found, is_read_only=is_read_only)

    async def _take(self, manifest: Obj, found: Obj) -> None:
        """VolumeProblem where one pod alone may have it, and another has: one that came past the scheduler.

        Who had it under an earlier agent keeps it.
        """
        name, uid = found["metadata"]["name"], manifest["metadata"]["uid"]
        if found["spec"].get("accessModes") == [_ONE_POD] and not _has_begun(manifest):
            others = await self._begun_with(found["spec"]["claimRef"])
            if (others | self._users[name]) - {uid}:
                raise VolumeProblem("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
        self._users[name].add(uid)

    async def _begun_with(self, claim: Obj) -> set[str]:
        """The pods of this node that have run with the claim, and have not ended."""
        query = ListQuery(fields=f"spec.nodeName={self.node_name}")
        try:
            pods = [found.obj() for found in (await self.api.list(PODS, claim["namespace"], query)).items]
        except (ApiError, OSError) as error:
            raise VolumeProblem(f"failed to list the pods of the node: {error}") from error
        return {
            pod["metadata"]["uid"]
            for pod in pods
            if _has_begun(pod)
            and (pod.get("status") or {}).get("phase") not in FINISHED
            and any(
                claim_name(pod["metadata"]["name"], each) == claim["name"] for each in pod["spec"].get("volumes") or ()
            )
        }

    def release(self, uid: str) -> None:
        """Nothing of the pod is mounted any more."""
        for name, users in list(self._users.items()):
            users.discard(uid)
            if not users:
                del self._users[name]

    async def grown(self, manifest: Obj, volume: Obj) -> Note | None:
        """Have the file system of a mounted volume grow if the volume has, and the claim say so: what is to be told.

        VolumeProblem. Source: pkg/volume/util/operationexecutor/node_expander.go.
        """
        meta, name = manifest["metadata"], claim_name(manifest["metadata"]["name"], volume)
        if not name or not self.csi.can_grow(meta["uid"], volume["name"]):
            return None
        claim, found = await self._bound(manifest, name, is_ephemeral="ephemeral" in volume)
        size, status = found["spec"]["capacity"]["storage"], claim["status"]
        shown = (status.get("capacity") or {}).get("storage")
        progress = (status.get("allocatedResourceStatuses") or {}).get("storage") or ""
        is_read_only = bool((volume.get("persistentVolumeClaim") or {}).get("readOnly"))
        if is_read_only or progress not in _TO_GROW or shown is None or parse(shown) >= parse(size):
            return None
        which = f'for volume "{found["metadata"]["name"]}"'
        try:
            await self.csi.grow(meta["uid"], volume["name"], parse(size).units)
            patch = _grown(claim, size)
            await self.api.patch(PERSISTENT_VOLUME_CLAIMS, name, meta["namespace"], patch, subresource="status")
        except (ApiError, OSError, RuntimeFailure) as problem:
            raise VolumeProblem(f"NodeExpandVolume failed {which} : {problem}") from None
        return Note(NORMAL, GREW, f"MountVolume.NodeExpandVolume succeeded {which} {self.node_name}")

    async def _bound(self, manifest: Obj, name: str, *, is_ephemeral: bool) -> tuple[Obj, Obj]:
        """The claim, and its PersistentVolume."""
        meta = manifest["metadata"]
        try:
            claim = (await self.api.get(PERSISTENT_VOLUME_CLAIMS, name, meta["namespace"])).obj()
        except (ApiError, OSError) as error:
            raise VolumeProblem(f"failed to fetch PVC from API server: {error}") from error
        own, status = claim["metadata"], claim.get("status") or {}
        if is_ephemeral and all(owner["uid"] != meta["uid"] for owner in own.get("ownerReferences") or ()):
            key = f"{meta['namespace']}/{meta['name']}"
            raise VolumeProblem(f"PVC {meta['namespace']}/{name} was not created for pod {key} (pod is not owner)")
        if "deletionTimestamp" in own and not _has_begun(manifest):
            raise VolumeProblem("PVC is being deleted")
        if status.get("phase") != "Bound":
            raise VolumeProblem("PVC is not bound")
        if not (volume_name := claim["spec"].get("volumeName")):
            raise VolumeProblem("PVC has empty pvc.Spec.VolumeName")
        try:
            found = (await self.api.get(PERSISTENT_VOLUMES, volume_name)).obj()
        except (ApiError, OSError) as error:
            raise VolumeProblem(f"failed to fetch PV {volume_name} from API server: {error}") from error
        if (found["spec"].get("claimRef") or {}).get("uid") != own["uid"]:
            raise VolumeProblem(f"PV {volume_name} is not bound to the claim")
        return claim, found

    async def _path(self, found: Obj, *, is_read_only: bool) -> Claimed:
        spec, name = found["spec"], found["metadata"]["name"]
        if spec.get("mountOptions"):
            raise VolumeProblem(f"PersistentVolume {name} has mountOptions, which this node does not support")
        if (required := (spec.get("nodeAffinity") or {}).get("required")) is not None:
            node = (await self.api.get(NODES, self.node_name)).view(Object)
            terms = msgspec.convert(required, NodeSelector).node_selector_terms or ()
            if not any(matches_term(term, node.metadata.labels, node.metadata.name) for term in terms):
                raise VolumeProblem(f'NodeAffinity check failed for volume "{name}" : no matching NodeSelectorTerms')
        if (local := spec.get("local")) is not None:
            if is_device(spec):
                return Claimed(await asyncio.to_thread(_local_device, local), is_read_only, False, is_device=True)
            path = await asyncio.to_thread(_local_path, local)
            return Claimed(path, is_read_only, takes_owner=True, is_measured=True)
        if (source := spec.get("hostPath")) is not None:
            path = await asyncio.to_thread(host_path, source)
            return Claimed(path, is_read_only, takes_owner=False)
        raise VolumeProblem(f"PersistentVolume {name} is of a kind that this node does not support")


def _grown(claim: Obj, size: str) -> Obj:
    """The patch of a claim whose volume has that size now."""
    status: Obj = claim["status"]
    conditions = [each for each in status.get("conditions") or () if each["type"] not in _OF_RESIZING]
    grown: Obj = {"capacity": {"storage": size}, "conditions": conditions or None}
    if status.get("allocatedResourceStatuses"):
        grown["allocatedResourceStatuses"] = {"storage": None}
    return {"metadata": {"resourceVersion": claim["metadata"]["resourceVersion"]}, "status": grown}


def _local_path(source: Obj) -> Path:
    path = Path(source["path"])
    if not path.exists():
        raise VolumeProblem(f'path "{path}" does not exist')
    if not path.is_dir():
        raise VolumeProblem(f"{path} is not a folder, as a volume with a file system is")
    return path


def _local_device(source: Obj) -> Path:
    path = Path(source["path"])
    if not path.is_block_device():
        raise VolumeProblem(f"{path} is not a block device, as a volume without a file system is")
    return path


def _check_use(pod: Obj, name: str, spec: Obj) -> None:
    """VolumeProblem where a container has a device as a folder, or the other way round."""
    field, mode = ("volumeMounts", "Block") if is_device(spec) else ("volumeDevices", "Filesystem")
    containers = (
        each for kind in ("initContainers", "containers", "ephemeralContainers") for each in pod.get(kind) or ()
    )
    if any(used["name"] == name for container in containers for used in container.get(field) or ()):
        raise VolumeProblem(f"volume {name} has volumeMode {mode}, but is specified in {field}")


def _has_begun(manifest: Obj) -> bool:
    """Containers of it have run; its volumes are its own until it ends."""
    status = manifest.get("status") or {}
    every = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return any(each.get("containerID") for each in every)
