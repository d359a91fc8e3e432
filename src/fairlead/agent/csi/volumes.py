"""Volumes of CSI drivers, mounted for the pods of this node.

    in use ─▶ (attached) ─▶ staged, once on the node ─▶ published, for each pod ─▶ taken back ─▶ unstaged ─▶ free

What has begun is written down before it begins, so that whoever starts next can end it. Sources: pkg/volume/csi
(csi_attacher.go, csi_mounter.go), pkg/kubelet/volumemanager (1.36).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import msgspec

from fairlead.agent import linux
from fairlead.agent.csi.drivers import CALL_SECONDS, CsiDrivers, Driver
from fairlead.agent.csi.publish_parameters import (
    capability,
    check_lifecycle,
    inline_handle,
    inline_spec,
    is_device,
    takes_owner,
    told_of_pod,
)
from fairlead.agent.csi.records import (
    EPHEMERAL,
    PERSISTENT,
    Volume,
    is_written_down,
    records,
    remove_rest,
    strike_out,
    write_down,
)
from fairlead.agent.csi.stats import CsiStats, Measurable
from fairlead.agent.pods.sources import Sources
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.volumes.problems import VolumeProblem
from fairlead.api.attaching import attachment_name, is_attached_by
from fairlead.api.attachments import CSIDriver
from fairlead.api.builtin import CSI_DRIVERS, SECRETS, VOLUME_ATTACHMENTS
from fairlead.api.errors import ApiError, NotFound
from fairlead.api.nodes import Node
from fairlead.api.objects import Obj

if TYPE_CHECKING:
    from fairlead.agent.csi.messages import Publish

#: In the folder of the agent, what is staged; in that of a pod, what is published to it.
STAGED: Final = Path("plugins", "kubernetes.io", "csi")
PUBLISHED: Final = "csi"


class StillMounted(OSError):
    """What a driver has mounted it has not taken back yet: no event tells of it, and it is tried again."""


class Mounted(msgspec.Struct, frozen=True):
    #: Of a folder, or of a device where the volume is one.
    path: Path
    #: Whether the group of the pod gets what is in it.
    takes_owner: bool


class _Publication(msgspec.Struct, frozen=True):
    """A volume that a pod gets: `spec` as that of a PersistentVolume, `context` of its attacher."""

    volume: Volume
    manifest: Obj
    name: str
    spec: Obj
    context: Mapping[str, str]
    staged: str
    folder: Path
    is_read_only: bool
    #: The name of its PersistentVolume, if it has one.
    shown: str = ""


class CsiVolumes:
    """`pods`: where the folders of pods are; `shown`: the node as the cluster has it; `say` has its status written."""

    def __init__(
        self,
        root: Path,
        pods: Path,
        sources: Sources,
        node_name: str,
        drivers: CsiDrivers,
        shown: Callable[[], Node | None],
        say: Callable[[], None],
    ) -> None:
        self._root, self._pods = root, pods
        self._sources, self._api = sources, sources.api
        self._node_name, self._drivers = node_name, drivers
        self._shown, self._say = shown, say
        self._users: dict[Volume, set[Path]] = defaultdict(set)  # by folders of pods
        self._locks: WeakValueDictionary[Volume, asyncio.Lock] = WeakValueDictionary()  # those that are had or wanted
        self._ready: set[Volume] = set()  # staged since the agent began: a machine that went down has nothing mounted
        self._published: dict[Path, dict[str, _Publication]] = {}  # by folders of pods, and name
        self.stats = CsiStats(drivers, self._measurable)
        self._node_changed = asyncio.Event()
        for folder in self.folders():
            for _, volume in records(folder / PUBLISHED, "*"):
                if volume.lifecycle == PERSISTENT:
                    self._users[volume].add(folder)
        for _, volume in records(root / STAGED, "*/*"):
            self._users[volume]  # in use until it is unstaged

    def folders(self) -> list[Path]:
        """Those of the pods that have, or had, volumes of drivers."""
        return [path.parent for path in self._pods.glob(f"*/{PUBLISHED}")]

    @property
    def in_use(self) -> list[str]:
        """How the status of the node calls what is mounted, or about to be."""
        return sorted(volume.unique_name for volume in self._users)

    def _measurable(self) -> list[Measurable]:
        """Devices tell nobody how full they are."""
        return [
            Measurable(folder.name, name, each.volume.driver, each.volume.handle, each.folder / "mount", each.staged)
            for folder, published in self._published.items()
            for name, each in published.items()
            if not is_device(each.spec)
        ]

    def node_changed(self) -> None:
        """The cluster shows another node: what is awaited may be attached to it."""
        self._node_changed.set()

    async def mount(self, manifest: Obj, name: str, found: Obj, *, is_read_only: bool) -> Mounted:
        """The volume of a claim (`found`) for a pod, once it is attached, which is waited for. VolumeProblem."""
        spec, folder = found["spec"], self._pods / manifest["metadata"]["uid"]
        source: Obj = spec["csi"]
        volume, mine = Volume(source["driver"], source["volumeHandle"]), folder / PUBLISHED / name
        about = await self._about(volume.driver)
        check_lifecycle(about, volume.driver, PERSISTENT)
        self._use(volume, folder)
        context: Mapping[str, str] = {}
        if is_attached_by(about):
            context = await self._attached(volume)
            about = await self._about(volume.driver)  # that may have taken long
        driver = self._driver(volume.driver)
        async with self._lock(volume):
            try:
                staged = await self._stage(driver, volume, spec, context, manifest)
                about_it = volume, manifest, name, spec, context, staged, mine, is_read_only
                await self._publish(_Publication(*about_it, shown=found["metadata"]["name"]), about)
            except RuntimeFailure as failure:
                raise VolumeProblem(str(failure)) from None
        owns = not is_device(spec) and takes_owner(about, spec, driver.capabilities)
        return Mounted(mine / "mount", owns)

    async def mount_inline(self, manifest: Obj, name: str, source: Obj) -> Mounted:
        """A volume that a pod has by itself, and that goes with it. VolumeProblem."""
        uid, driver = manifest["metadata"]["uid"], source["driver"]
        about = await self._about(driver)
        check_lifecycle(about, driver, EPHEMERAL)
        volume, folder = Volume(driver, inline_handle(uid, name), EPHEMERAL), self._pods / uid / PUBLISHED / name
        spec = inline_spec(manifest, source)
        can = self._driver(driver).capabilities
        async with self._lock(volume):
            try:
                publication = _Publication(volume, manifest, name, spec, {}, "", folder, is_read_only=False)
                await self._publish(publication, about)
            except RuntimeFailure as failure:
                raise VolumeProblem(str(failure)) from None
        return Mounted(folder / "mount", takes_owner(about, spec, can))

    def has(self, uid: str) -> bool:
        """Whether drivers have mounted anything for that pod."""
        return bool(self._published.get(self._pods / uid))

    async def republish(self, uid: str) -> Mapping[str, str]:
        """Tell drivers that want it of the volumes that a pod has, with new tokens; what is wrong, by volume."""
        problems = {}
        for name, publication in list(self._published.get(self._pods / uid, {}).items()):
            try:
                about = await self._about(publication.volume.driver)
                if about is None or not about.spec.requires_republish:
                    continue
                async with self._lock(publication.volume):
                    if self._published.get(self._pods / uid, {}).get(name) is publication:
                        await self._tell(publication, about)
            except (RuntimeFailure, VolumeProblem, ApiError, OSError) as problem:
                problems[publication.shown or name] = str(problem)
        return problems

    def can_grow(self, uid: str, name: str) -> bool:
        """Whether a volume of that pod is of a driver that has its file system grow."""
        from fairlead.agent.csi.messages import EXPAND

        publication = self._published.get(self._pods / uid, {}).get(name)
        driver = self._drivers.get(publication.volume.driver) if publication is not None else None
        return driver is not None and EXPAND in driver.capabilities

    async def grow(self, uid: str, name: str, size: int) -> None:
        """Have its file system fill a volume that has grown to so many bytes. RuntimeFailure."""
        from fairlead.agent.csi.messages import EXPAND_VOLUME, CapacityRange, Expand

        publication = self._published[self._pods / uid][name]
        volume, spec = publication.volume, publication.spec
        driver = self._registered(volume.driver)
        asked = Expand(
            volume_id=volume.handle,
            volume_path=str(publication.folder / "mount"),
            capacity_range=CapacityRange(required_bytes=size),
            staging_target_path=publication.staged,
            volume_capability=capability(driver.capabilities, spec, publication.manifest),
            secrets=await self._secret(spec["csi"].get("nodeExpandSecretRef")),
        )
        async with self._lock(volume):
            await driver.client.call(EXPAND_VOLUME, asked, CALL_SECONDS)

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
        for mine, volume in list(records(folder / PUBLISHED, "*")):
            async with self._lock(volume):
                await self._unpublish(volume, mine)
        self._published.pop(folder, None)
        for volume in [volume for volume, users in self._users.items() if folder in users]:
            async with self._lock(volume):
                self._users[volume].discard(folder)
                await self._free(volume)
        await asyncio.to_thread(remove_rest, folder / PUBLISHED)

    async def _free(self, volume: Volume) -> None:
        """Take it back from the node unless somebody has it."""
        users = self._users[volume]
        if not users:
            await self._unstage(volume)
            if not users:  # nobody has come meanwhile
                del self._users[volume]
                self._say()

    def _lock(self, volume: Volume) -> asyncio.Lock:
        """One pod at a time has to do with a volume."""
        return self._locks.setdefault(volume, asyncio.Lock())

    # -- being attached

    def _use(self, volume: Volume, folder: Path) -> None:
        is_new = volume not in self._users
        self._users[volume].add(folder)
        if is_new:
            self._say()

    async def _about(self, driver: str) -> CSIDriver | None:
        try:
            return (await self._api.get(CSI_DRIVERS, driver)).view(CSIDriver)
        except NotFound:
            return None

    async def _attached(self, volume: Volume) -> Mapping[str, str]:
        """Wait until the node is shown to have it attached and in use; what its attacher says of it."""
        name = volume.unique_name
        while not _is_attached(self._shown(), name):
            self._node_changed.clear()
            await self._node_changed.wait()
        found = (await self._api.get(VOLUME_ATTACHMENTS, attachment_name(volume.source, self._node_name))).obj()
        metadata: dict[str, str] = (found.get("status") or {}).get("attachmentMetadata") or {}
        return metadata

    # -- what drivers are asked

    def _driver(self, name: str) -> Driver:
        driver = self._drivers.get(name)
        if driver is None:
            raise VolumeProblem(f"driver name {name} not found in the list of registered CSI drivers")
        return driver

    async def _stage(self, driver: Driver, volume: Volume, spec: Obj, context: Mapping[str, str], manifest: Obj) -> str:
        """Where it is ready on the node; empty for a driver that has nothing to make ready."""
        from fairlead.agent.csi.messages import STAGE, STAGE_VOLUME, Stage

        folder = self._staged(volume)
        if STAGE not in driver.capabilities:
            return ""
        target = folder / "globalmount"
        if volume in self._ready:
            return str(target)
        await asyncio.to_thread(write_down, folder, volume, target)
        source: Obj = spec["csi"]
        asked = Stage(
            volume_id=volume.handle,
            publish_context=dict(context),
            staging_target_path=str(target),
            volume_capability=capability(driver.capabilities, spec, manifest),
            secrets=await self._secret(source.get("nodeStageSecretRef")),
            volume_context=source.get("volumeAttributes") or {},
        )
        await driver.client.call(STAGE_VOLUME, asked, CALL_SECONDS)
        self._ready.add(volume)
        return str(target)

    async def _unstage(self, volume: Volume) -> None:
        from fairlead.agent.csi.messages import UNSTAGE_VOLUME, Unstage

        folder = self._staged(volume)
        if not is_written_down(folder):
            return
        self._ready.discard(volume)
        target = folder / "globalmount"
        driver = self._registered(volume.driver)
        await driver.client.call(
            UNSTAGE_VOLUME, Unstage(volume_id=volume.handle, staging_target_path=str(target)), CALL_SECONDS
        )
        await asyncio.to_thread(strike_out, folder, target)

    async def _publish(self, publication: _Publication, about: CSIDriver | None) -> None:
        """Unless an earlier agent had it mounted; `about`: what the cluster knows of its driver."""
        folder = publication.folder
        if not await asyncio.to_thread(linux.mount_points, folder / "mount"):
            await asyncio.to_thread(write_down, folder, publication.volume, None)
            await self._tell(publication, about)
        self._published.setdefault(folder.parent.parent, {})[publication.name] = publication

    async def _tell(self, publication: _Publication, about: CSIDriver | None) -> None:
        from fairlead.agent.csi.messages import PUBLISH_VOLUME

        driver = self._registered(publication.volume.driver)
        await driver.client.call(PUBLISH_VOLUME, await self._asked(driver, publication, about), CALL_SECONDS)

    async def _asked(self, driver: Driver, publication: _Publication, about: CSIDriver | None) -> Publish:
        from fairlead.agent.csi.messages import Publish

        volume, spec = publication.volume, publication.spec
        source: Obj = spec["csi"]
        told = await told_of_pod(about, publication.manifest, volume.lifecycle, self._sources)
        return Publish(
            volume_id=volume.handle,
            publish_context=dict(publication.context),
            staging_target_path=publication.staged,
            target_path=str(publication.folder / "mount"),
            volume_capability=capability(driver.capabilities, spec, publication.manifest),
            readonly=publication.is_read_only or bool(source.get("readOnly")),
            secrets={**await self._secret(source.get("nodePublishSecretRef")), **told.secrets},
            volume_context={**(source.get("volumeAttributes") or {}), **told.context},
        )

    async def _unpublish(self, volume: Volume, folder: Path) -> None:
        from fairlead.agent.csi.messages import UNPUBLISH_VOLUME, Unpublish

        target = folder / "mount"
        driver = self._registered(volume.driver)
        await driver.client.call(
            UNPUBLISH_VOLUME, Unpublish(volume_id=volume.handle, target_path=str(target)), CALL_SECONDS
        )
        await asyncio.to_thread(strike_out, folder, target)

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

    def _staged(self, volume: Volume) -> Path:
        return self._root / STAGED / volume.driver / hashlib.sha256(volume.handle.encode()).hexdigest()


def _still_mounted(failure: RuntimeFailure) -> StillMounted:
    return StillMounted(f"volumes of drivers are mounted yet: {failure}")


def _is_attached(node: Node | None, name: str) -> bool:
    """Both: what the cluster does not know to be in use it may detach."""
    if node is None or name not in (node.status.volumes_in_use or ()):
        return False
    return any(each.name == name for each in node.status.volumes_attached or ())
