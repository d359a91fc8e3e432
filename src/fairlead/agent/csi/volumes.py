"""Volumes of CSI drivers, mounted for the pods of this node.

    in use ─▶ (attached) ─▶ staged, once on the node ─▶ published, for each pod ─▶ taken back ─▶ unstaged ─▶ free

What has begun is written down before it begins, so that whoever starts next can end it. Sources: pkg/volume/csi
(csi_attacher.go, csi_mounter.go), pkg/kubelet/volumemanager (1.36).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import msgspec

from fairlead.agent import linux
from fairlead.agent.csi.drivers import CsiDrivers, Driver
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.volumes.problems import VolumeProblem
from fairlead.api.attaching import attachment_name, is_attached_by, unique_name
from fairlead.api.attachments import CSIDriver
from fairlead.api.builtin import CSI_DRIVERS, SECRETS, VOLUME_ATTACHMENTS
from fairlead.api.claims import CsiSource
from fairlead.api.errors import NotFound
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj
from fairlead.api.verbs import Api
from fairlead.runtime.whole_files import replace_durably

if TYPE_CHECKING:
    from fairlead.agent.csi.messages import VolumeCapability

#: In the folder of the agent, what is staged; in that of a pod, what is published to it.
STAGED: Final = Path("plugins", "kubernetes.io", "csi")
PUBLISHED: Final = "csi"
_RECORD: Final = "vol_data.json"
_CALL_SECONDS: Final = 120.0
#: By the access modes of Kubernetes; the second where a driver tells one writer on a node from several.
_MODES: Final = {
    "ReadWriteOnce": (1, 7),
    "ReadWriteOncePod": (1, 6),
    "ReadOnlyMany": (3, 3),
    "ReadWriteMany": (5, 5),
}

log = logging.getLogger(__name__)


class StillMounted(OSError):
    """What a driver has mounted it has not taken back yet: no event tells of it, and it is tried again."""


class Mounted(msgspec.Struct, frozen=True):
    path: Path
    #: Whether the group of the pod gets what is in it.
    takes_owner: bool


class _Volume(msgspec.Struct, frozen=True):
    """As it is written down."""

    driver: str
    handle: str

    @property
    def unique_name(self) -> str:
        return unique_name(CsiSource(driver=self.driver, volume_handle=self.handle))


class CsiVolumes:
    """`pods`: where the folders of pods are; `shown`: the node as the cluster has it; `say` has its status written."""

    def __init__(
        self,
        root: Path,
        pods: Path,
        api: Api,
        node_name: str,
        drivers: CsiDrivers,
        shown: Callable[[], Node | None],
        say: Callable[[], None],
    ) -> None:
        self._root, self._pods, self._api = root, pods, api
        self._node_name, self._drivers = node_name, drivers
        self._shown, self._say = shown, say
        self._users: dict[_Volume, set[Path]] = defaultdict(set)  # by folders of pods
        self._locks: WeakValueDictionary[_Volume, asyncio.Lock] = WeakValueDictionary()  # those that are had or wanted
        self._ready: set[_Volume] = set()  # staged since the agent began: a machine that went down has nothing mounted
        self._node_changed = asyncio.Event()
        for folder in self.folders():
            for _, volume in _records(folder / PUBLISHED, "*"):
                self._users[volume].add(folder)
        for _, volume in _records(root / STAGED, "*/*"):
            self._users[volume]  # in use until it is unstaged

    def folders(self) -> list[Path]:
        """Those of the pods that have, or had, volumes of drivers."""
        return [path.parent for path in self._pods.glob(f"*/{PUBLISHED}")]

    @property
    def in_use(self) -> list[str]:
        """How the status of the node calls what is mounted, or about to be."""
        return sorted(volume.unique_name for volume in self._users)

    def node_changed(self) -> None:
        """The cluster shows another node: what is awaited may be attached to it."""
        self._node_changed.set()

    async def mount(self, manifest: Obj, name: str, found: Obj, *, is_read_only: bool) -> Mounted:
        """The volume of a claim (`found`) for a pod, once it is attached, which is waited for. VolumeProblem."""
        spec, folder = found["spec"], self._pods / manifest["metadata"]["uid"]
        source: Obj = spec["csi"]
        volume, mine = _Volume(source["driver"], source["volumeHandle"]), folder / PUBLISHED / name
        if (spec.get("volumeMode") or "Filesystem") != "Filesystem":
            raise VolumeProblem(
                f"PersistentVolume {found['metadata']['name']} is a device, which this node does not support"
            )
        about = await self._about(volume.driver)
        self._use(volume, folder)
        context = await self._attached(volume) if is_attached_by(about) else {}
        driver = self._driver(volume.driver)
        async with self._lock(volume):
            try:
                staged = await self._stage(driver, volume, spec, context)
                await self._publish(driver, volume, manifest, found, about, context, staged, mine, is_read_only)
            except RuntimeFailure as failure:
                raise VolumeProblem(str(failure)) from None
        return Mounted(mine / "mount", _takes_owner(about, spec))

    async def unmount(self, folder: Path) -> None:
        """Take back what a pod has, and what no other has from the node. StillMounted."""
        try:
            await self._unmount(folder)
        except RuntimeFailure as failure:
            raise _still_mounted(failure) from None

    async def unstage_rest(self) -> None:
        """Take back from the node what no pod has: an agent may have ended before it could. What one driver does not
        take back keeps no other from it: then StillMounted.
        """
        left: RuntimeFailure | None = None
        for volume in [volume for volume, users in self._users.items() if not users]:
            try:
                async with self._lock(volume):
                    await self._free(volume)
            except RuntimeFailure as failure:
                left = failure
        if left is not None:
            raise _still_mounted(left)

    async def _unmount(self, folder: Path) -> None:
        for record, volume in list(_records(folder / PUBLISHED, "*")):
            async with self._lock(volume):
                await self._unpublish(volume, record.parent)
        for volume in [volume for volume, users in self._users.items() if folder in users]:
            async with self._lock(volume):
                self._users[volume].discard(folder)
                await self._free(volume)
        await asyncio.to_thread(_remove_rest, folder / PUBLISHED)

    async def _free(self, volume: _Volume) -> None:
        """Take it back from the node unless somebody has it."""
        users = self._users[volume]
        if not users:
            await self._unstage(volume)
            if not users:  # nobody has come meanwhile
                del self._users[volume]
                self._say()

    def _lock(self, volume: _Volume) -> asyncio.Lock:
        """One pod at a time has to do with a volume."""
        return self._locks.setdefault(volume, asyncio.Lock())

    # -- being attached

    def _use(self, volume: _Volume, folder: Path) -> None:
        is_new = volume not in self._users
        self._users[volume].add(folder)
        if is_new:
            self._say()

    async def _about(self, driver: str) -> CSIDriver | None:
        try:
            return (await self._api.get(CSI_DRIVERS, driver)).view(CSIDriver)
        except NotFound:
            return None

    async def _attached(self, volume: _Volume) -> Mapping[str, str]:
        """Wait until the node is shown to have it attached and in use; what its attacher says of it."""
        name = volume.unique_name
        while not _is_attached(self._shown(), name):
            self._node_changed.clear()
            await self._node_changed.wait()
        source = CsiSource(driver=volume.driver, volume_handle=volume.handle)
        found = (await self._api.get(VOLUME_ATTACHMENTS, attachment_name(source, self._node_name))).obj()
        metadata: dict[str, str] = (found.get("status") or {}).get("attachmentMetadata") or {}
        return metadata

    # -- what drivers are asked

    def _driver(self, name: str) -> Driver:
        driver = self._drivers.get(name)
        if driver is None:
            raise VolumeProblem(f"driver name {name} not found in the list of registered CSI drivers")
        return driver

    async def _stage(self, driver: Driver, volume: _Volume, spec: Obj, context: Mapping[str, str]) -> str:
        """Where it is ready on the node; empty for a driver that has nothing to make ready."""
        from fairlead.agent.csi.messages import STAGE, STAGE_VOLUME, Stage

        folder = self._staged(volume)
        if STAGE not in driver.capabilities:
            return ""
        target = folder / "globalmount"
        if volume in self._ready:
            return str(target)
        await asyncio.to_thread(_write_down, folder, volume, target)
        source: Obj = spec["csi"]
        asked = Stage(
            volume_id=volume.handle,
            publish_context=dict(context),
            staging_target_path=str(target),
            volume_capability=_capability(driver, spec),
            secrets=await self._secret(source.get("nodeStageSecretRef")),
            volume_context=source.get("volumeAttributes") or {},
        )
        await driver.client.call(STAGE_VOLUME, asked, _CALL_SECONDS)
        self._ready.add(volume)
        return str(target)

    async def _unstage(self, volume: _Volume) -> None:
        from fairlead.agent.csi.messages import UNSTAGE_VOLUME, Unstage

        folder = self._staged(volume)
        if not (folder / _RECORD).exists():
            return
        self._ready.discard(volume)
        target = folder / "globalmount"
        driver = self._registered(volume.driver)
        await driver.client.call(
            UNSTAGE_VOLUME, Unstage(volume_id=volume.handle, staging_target_path=str(target)), _CALL_SECONDS
        )
        await asyncio.to_thread(_strike_out, folder, target)

    async def _publish(
        self,
        driver: Driver,
        volume: _Volume,
        manifest: Obj,
        found: Obj,
        about: CSIDriver | None,
        context: Mapping[str, str],
        staged: str,
        folder: Path,
        is_read_only: bool,
    ) -> None:
        from fairlead.agent.csi.messages import PUBLISH_VOLUME, Publish

        if await asyncio.to_thread(linux.mount_points, folder / "mount"):  # an earlier agent had it mounted
            return
        await asyncio.to_thread(_write_down, folder, volume, None)
        source: Obj = found["spec"]["csi"]
        about_pod = _about_pod(manifest) if about is not None and about.spec.pod_info_on_mount else {}
        asked = Publish(
            volume_id=volume.handle,
            publish_context=dict(context),
            staging_target_path=staged,
            target_path=str(folder / "mount"),
            volume_capability=_capability(driver, found["spec"]),
            readonly=is_read_only or bool(source.get("readOnly")),
            secrets=await self._secret(source.get("nodePublishSecretRef")),
            volume_context={**(source.get("volumeAttributes") or {}), **about_pod},
        )
        await driver.client.call(PUBLISH_VOLUME, asked, _CALL_SECONDS)

    async def _unpublish(self, volume: _Volume, folder: Path) -> None:
        from fairlead.agent.csi.messages import UNPUBLISH_VOLUME, Unpublish

        target = folder / "mount"
        driver = self._registered(volume.driver)
        await driver.client.call(
            UNPUBLISH_VOLUME, Unpublish(volume_id=volume.handle, target_path=str(target)), _CALL_SECONDS
        )
        await asyncio.to_thread(_strike_out, folder, target)

    def _registered(self, name: str) -> Driver:
        """RuntimeFailure: what it has mounted only it can take back."""
        try:
            return self._driver(name)
        except VolumeProblem as problem:
            raise RuntimeFailure(str(problem)) from None

    async def _secret(self, reference: Obj | None) -> dict[str, str]:
        if reference is None:
            return {}
        found = (await self._api.get(SECRETS, reference["name"], reference["namespace"])).obj()
        return {
            key: base64.b64decode(value).decode(errors="replace") for key, value in (found.get("data") or {}).items()
        }

    def _staged(self, volume: _Volume) -> Path:
        return self._root / STAGED / volume.driver / hashlib.sha256(volume.handle.encode()).hexdigest()


def _still_mounted(failure: RuntimeFailure) -> StillMounted:
    return StillMounted(f"volumes of drivers are mounted yet: {failure}")


def _is_attached(node: Node | None, name: str) -> bool:
    """Both: what the cluster does not know to be in use it may detach."""
    if node is None or name not in (node.status.volumes_in_use or ()):
        return False
    return any(each.name == name for each in node.status.volumes_attached or ())


def _capability(driver: Driver, spec: Obj) -> VolumeCapability:
    from fairlead.agent.csi.messages import SINGLE_NODE_MULTI_WRITER, AccessMode, MountVolume, VolumeCapability

    modes = spec.get("accessModes") or ["ReadWriteOnce"]
    mode = _MODES.get(modes[0], (1, 7))[SINGLE_NODE_MULTI_WRITER in driver.capabilities]
    mount = MountVolume(fs_type=spec["csi"].get("fsType") or "", mount_flags=list(spec.get("mountOptions") or ()))
    return VolumeCapability(mount=mount, access_mode=AccessMode(mode=mode))


def _takes_owner(about: CSIDriver | None, spec: Obj) -> bool:
    """By the policy of the driver: always, never, or a volume with a file system that one node writes to."""
    policy = about.spec.fs_group_policy if about is not None else ""
    if policy in ("File", "None"):
        return policy == "File"
    return bool(spec["csi"].get("fsType")) and "ReadWriteOnce" in (spec.get("accessModes") or ())


def _about_pod(manifest: Obj) -> dict[str, str]:
    meta, spec = manifest["metadata"], manifest["spec"]
    return {
        "csi.storage.k8s.io/pod.name": meta["name"],
        "csi.storage.k8s.io/pod.namespace": meta["namespace"],
        "csi.storage.k8s.io/pod.uid": meta["uid"],
        "csi.storage.k8s.io/serviceAccount.name": spec.get("serviceAccountName") or "default",
        "csi.storage.k8s.io/ephemeral": "false",
    }


# -- what is written down


def _write_down(folder: Path, volume: _Volume, target: Path | None) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    if target is not None:
        target.mkdir(exist_ok=True, mode=0o750)
    record = json.dumps({"driverName": volume.driver, "volumeHandle": volume.handle})
    replace_durably(folder / _RECORD, record.encode())  # half of it would tell nobody what to take back


def _strike_out(folder: Path, target: Path) -> None:
    """What is mounted there yet would lose what is in it: that is left alone."""
    if linux.mount_points(target):
        raise RuntimeFailure(f"{target} is still mounted")
    if target.is_dir() and not target.is_symlink():
        target.rmdir()
    for record in folder.glob(f"{_RECORD}*"):  # also one that was not finished
        record.unlink()
    folder.rmdir()


def _remove_rest(folder: Path) -> None:
    """Who was killed before he had written down what he began, or after he had struck that out, leaves its folder."""
    if folder.is_dir():
        for left in folder.iterdir():
            _strike_out(left, left / "mount")
        folder.rmdir()


def _records(folder: Path, depth: str) -> Iterator[tuple[Path, _Volume]]:
    """So deep and no deeper: what is mounted there is not ours."""
    for path in folder.glob(f"{depth}/{_RECORD}"):
        try:
            said: Any = json.loads(path.read_text())
            yield path, _Volume(said["driverName"], said["volumeHandle"])
        except (OSError, ValueError, KeyError, TypeError) as problem:  # cut off by a machine that went down
            log.warning("%s says nothing: %s", path, problem)
