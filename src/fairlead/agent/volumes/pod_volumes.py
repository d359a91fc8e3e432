"""All volumes of one pod: set up, kept up to date, mounted into containers, taken down."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fairlead.agent import linux
from fairlead.agent.pods.environment import expanded
from fairlead.agent.runtimes.base import Mount
from fairlead.agent.volumes.content import PodContent, VolumeProblem
from fairlead.agent.volumes.host_paths import host_path
from fairlead.agent.volumes.payload import Owner, write_payload
from fairlead.agent.volumes.subpaths import OutsideOfVolume, mount_subpath
from fairlead.api.errors import ApiError
from fairlead.api.objects import Obj
from fairlead.api.quantity import parse
from fairlead.runtime.clock import micro_timestamp

_TMPFS: Final = linux.MS_NOSUID | linux.MS_NODEV
_PROPAGATION: Final = {"HostToContainer": "rslave", "Bidirectional": "rshared"}


@dataclass(slots=True)
class PodVolumes:
    """`folder` is the pod's own."""

    folder: Path
    #: The most that a volume in memory may hold.
    most_memory: int
    _paths: dict[str, Path] = field(default_factory=dict)

    async def set_up(self, volumes: Sequence[Obj], content: PodContent) -> str:
        """Make them, or bring them up to date; the problem of the first that cannot be, as its event tells it."""
        for volume in volumes:
            try:
                files = await content.files(volume)
                if files is None:
                    await asyncio.to_thread(self._make, volume, content.owner)
                else:
                    folder, stamp = self._folder(volume), micro_timestamp().replace(":", "_")
                    await asyncio.to_thread(self._make_in_memory, folder, 0)
                    await asyncio.to_thread(write_payload, folder, files, stamp, content.owner)
            except (VolumeProblem, ApiError, OSError) as problem:
                return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {problem}'
        return ""

    def mounts(self, container: Obj, env: dict[str, str]) -> list[Mount]:
        """Of one container; VolumeProblem for a part of a volume that leads out of it."""
        found = []
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            source = self._paths[mount["name"]]
            if subpath := mount.get("subPath"):
                source = self._part(source, expanded(subpath, env), container["name"], index)
            propagation = _PROPAGATION.get(mount.get("mountPropagation") or "", "rprivate")
            found.append(Mount(source, mount["mountPath"], bool(mount.get("readOnly")), propagation))
        return found

    def tear_down(self) -> None:
        linux.unmount_below(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _part(self, volume: Path, subpath: str, container: str, index: int) -> Path:
        target = self.folder / "subpaths" / container / str(index)
        try:
            mount_subpath(volume, subpath, target)
        except (OutsideOfVolume, OSError) as problem:
            raise VolumeProblem(f"failed to prepare subPath for volumeMount: {problem}") from problem
        return target

    def _folder(self, volume: Obj) -> Path:
        name: str = volume["name"]
        path = self._paths[name] = self.folder / "volumes" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _make(self, volume: Obj, owner: Owner) -> None:
        if (source := volume.get("hostPath")) is not None:
            self._paths[volume["name"]] = host_path(source)
            return
        folder, own = self._folder(volume), volume.get("emptyDir") or {}
        if own.get("medium") == "Memory":
            limit = parse(own["sizeLimit"]).units if own.get("sizeLimit") else 0
            self._make_in_memory(folder, min(filter(None, (limit, self.most_memory)), default=0))
        folder.chmod(0o777)
        if owner.gid is not None:
            os.chown(folder, -1, owner.gid)
            folder.chmod(0o2777)

    def _make_in_memory(self, folder: Path, size: int) -> None:
        """What comes from the API, secrets above all, never lies on a disk."""
        if not folder.is_mount():
            linux.mount("tmpfs", folder, "tmpfs", _TMPFS, f"size={size}" if size else "")
            folder.chmod(0o755)
