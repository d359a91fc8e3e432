"""All volumes of one pod: set up, kept up to date, mounted into containers, taken down."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent import linux
from fairlead.agent.images_seam import Images
from fairlead.agent.pods.environment import fully_expanded
from fairlead.agent.runtimes.base import SHARED, SLAVE, MachineDevice, Mount, RuntimeFailure
from fairlead.agent.trees import remove_tree
from fairlead.agent.volumes.content import PodContent
from fairlead.agent.volumes.host_paths import host_path
from fairlead.agent.volumes.image_volumes import files_of, mount_image
from fairlead.agent.volumes.ownership import give_to_group
from fairlead.agent.volumes.payload import Owner, PayloadFile, digest_of, write_payload
from fairlead.agent.volumes.problems import ClaimProblem, VolumeProblem
from fairlead.agent.volumes.subpaths import OutsideOfVolume, mount_subpath
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.golang.quoting import go_quote
from fairlead.kinds.object_references import claim_name
from fairlead.runtime.clock import micro_timestamp

log = logging.getLogger(__name__)

_TMPFS: Final = linux.MS_NOSUID | linux.MS_NODEV
_PROPAGATION: Final = {"HostToContainer": SLAVE, "Bidirectional": SHARED}


class PodVolumes(msgspec.Struct):
    """`folder` is the pod's own."""

    folder: Path
    #: The most that a volume in memory may hold.
    most_memory: int
    _paths: dict[str, Path] = msgspec.field(default_factory=dict)
    #: Those that no container may write to, whatever it says.
    _read_only: set[str] = msgspec.field(default_factory=set)
    #: By name, where volumes of claims are whose file systems are measured.
    measured: dict[str, Path] = msgspec.field(default_factory=dict)
    #: By name, volumes without a file system: where they are, and what may be done with them.
    _devices: dict[str, tuple[Path, str]] = msgspec.field(default_factory=dict)
    _of_images: set[str] = msgspec.field(default_factory=set)
    #: By name, the digest of what was written last.
    _written: dict[str, bytes] = msgspec.field(default_factory=dict)

    async def set_up(self, volumes: Sequence[Obj], content: PodContent) -> str:
        """Make them, each by itself; the problem of the first that cannot be, as its event tells it.

        Images come later, and hold up those containers alone that have them as volumes.
        """
        first = ""
        for volume in volumes:
            try:
                await self._set_up(volume, content)
            except ClaimProblem as problem:
                first = first or str(problem)
            except (VolumeProblem, ApiError, OSError) as problem:
                name = (problem.volume if isinstance(problem, VolumeProblem) else "") or volume["name"]
                first = first or f'MountVolume.SetUp failed for volume "{name}" : {problem}'
        return first

    async def mount_images(self, volumes: Sequence[Obj], container: Obj, images: Images) -> None:
        """Those that this container has as volumes, which are here by now. RuntimeFailure."""
        names = {mount["name"] for mount in container.get("volumeMounts") or ()}
        for volume in volumes:
            if (source := volume.get("image")) is not None and volume["name"] in names:
                folder = self._place_of(volume)
                await mount_image(images, source["reference"], folder)
                self._paths[volume["name"]] = files_of(folder)
                self._of_images.add(volume["name"])

    async def refresh(self, volumes: Sequence[Obj], content: PodContent) -> None:
        """Bring those up to date whose content comes from the API, each by itself; all others are the pod's own."""
        for volume in volumes:
            with suppress(VolumeProblem, ApiError, OSError):  # it stays as it is
                if (files := await content.files(volume)) is not None:
                    await self._payload(volume, files, content.owner)

    def mounts(self, container: Obj, env: dict[str, str], *, can_be_read_only_below: bool) -> list[Mount]:
        """Of one container; VolumeProblem for a part of a volume that leads out of it."""
        found = []
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            if (source := self._paths.get(mount["name"])) is None:
                raise VolumeProblem(f'volume "{mount["name"]}" is not mounted')
            subpath = mount.get("subPath") or fully_expanded(mount.get("subPathExpr") or "", env)
            if subpath:
                source = self._part(source, subpath, mount["name"], container["name"], index)
            propagation = _PROPAGATION.get(mount.get("mountPropagation") or "", "rprivate")
            is_read_only = bool(mount.get("readOnly")) or mount["name"] in self._read_only
            is_below = can_be_read_only_below and (mount.get("recursiveReadOnly") or "Disabled") != "Disabled"
            target = str(Path("/", mount["mountPath"]))  # also of a relative one
            found.append(Mount(source, target, is_read_only, is_below, propagation))
        return found

    def devices(self, container: Obj) -> list[MachineDevice]:
        """The volumes without a file system that a container has. VolumeProblem."""
        found = []
        for device in container.get("volumeDevices") or ():
            if device["name"] not in self._devices:
                raise VolumeProblem(f'volume "{device["name"]}" is not mounted')
            path, access = self._devices[device["name"]]
            found.append(MachineDevice(str(path), device["devicePath"], access))
        return found

    def path(self, name: str) -> Path | None:
        """Where it is; None for one that has not been set up."""
        return self._paths.get(name)

    def tear_down(self) -> None:
        linux.unmount_below(self.folder)
        remove_tree(self.folder, ignore_errors=True)

    async def _set_up(self, volume: Obj, content: PodContent) -> None:
        if "image" in volume:
            return
        if "csi" in volume or claim_name(content.pod.metadata.name, volume):
            await self._claim(volume, content)
        elif (files := await content.files(volume)) is None:
            await asyncio.to_thread(self._make, volume, content.owner)
        else:
            await self._payload(volume, files, content.owner)

    async def _payload(self, volume: Obj, files: Mapping[str, PayloadFile], owner: Owner) -> None:
        """Most have not changed since the last time: then nothing is looked at."""
        name: str = volume["name"]
        if self._written.get(name) == (digest := digest_of(files, owner)):
            return
        self._read_only.add(name)  # a symlink of a container's would lead what is written out
        folder, stamp = self._folder(volume), micro_timestamp().replace(":", "_")
        await asyncio.to_thread(self._make_in_memory, folder, 0)
        await asyncio.to_thread(write_payload, folder, files, stamp, owner)
        self._written[name] = digest

    async def _claim(self, volume: Obj, content: PodContent) -> None:
        """Once found it is the pod's, whatever becomes of the claim."""
        name: str = volume["name"]
        if name in self._paths or name in self._devices or (claimed := await content.claimed(volume)) is None:
            return
        if claimed.is_device:
            self._devices[name] = claimed.path, "mr" if claimed.is_read_only else "mrw"
            return
        if claimed.is_read_only:
            self._read_only.add(name)
        elif claimed.takes_owner and content.owner.gid is not None:
            lazily = content.only_on_mismatch
            await asyncio.to_thread(give_to_group, claimed.path, content.owner.gid, only_on_mismatch=lazily)
        self._paths[name] = claimed.path
        if claimed.is_measured:
            self.measured[name] = claimed.path

    def _part(self, volume: Path, subpath: str, name: str, container: str, index: int) -> Path:
        """What is wrong with the path is told; not what lies on the machine, which is in the log."""
        if subpath.startswith("/"):
            raise VolumeProblem(f"error SubPath `{subpath}` must not be an absolute path")
        if ".." in subpath.split("/"):
            raise VolumeProblem(f"unable to provision SubPath `{subpath}`: must not contain '..'")
        target = self.folder / "subpaths" / container / str(index)
        try:
            mount_subpath(volume, subpath, target)
        except (OutsideOfVolume, OSError) as problem:
            if name in self._of_images:  # which a runtime mounts
                raise RuntimeFailure(
                    f"failed to mount image volume: sub path {go_quote(subpath)}: {problem}"
                ) from problem
            where = f"subPath for volumeMount {go_quote(name)} of container {go_quote(container)}"
            log.warning("%s: %s", where, problem)
            raise VolumeProblem(f"failed to prepare {where}") from problem
        return target

    def _folder(self, volume: Obj) -> Path:
        path = self._paths[volume["name"]] = self._place_of(volume)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _place_of(self, volume: Obj) -> Path:
        return self.folder / "volumes" / str(volume["name"])

    def _make(self, volume: Obj, owner: Owner) -> None:
        if (source := volume.get("hostPath")) is not None:
            self._paths[volume["name"]] = host_path(source)
            return
        own, is_there = volume.get("emptyDir") or {}, self._place_of(volume).is_dir()
        folder = self._folder(volume)
        if own.get("medium") == "Memory":
            limit = parse(own["sizeLimit"]).units if own.get("sizeLimit") else 0
            is_there = not self._make_in_memory(folder, min(filter(None, (limit, self.most_memory)), default=0))
        if is_there:  # an earlier agent made it: containers may have changed its mode and owner
            return
        folder.chmod(0o777)
        if owner.gid is not None:
            os.chown(folder, -1, owner.gid)
            folder.chmod(0o2777)

    def _make_in_memory(self, folder: Path, size: int) -> bool:
        """What comes from the API, secrets above all, never lies on a disk. False if it is there."""
        if folder.is_mount():
            return False
        linux.mount("tmpfs", folder, "tmpfs", _TMPFS, f"size={size}" if size else "")
        folder.chmod(0o755)
        return True
