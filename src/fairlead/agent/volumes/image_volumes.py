"""The files of an image as a volume: its layers under an overlay that nobody writes to and nothing is executed from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent import linux
from fairlead.agent.images_seam import Image, InvalidName, PullFailure
from fairlead.agent.pods.pulls import Pulls, PullSecret
from fairlead.agent.volumes.problems import VolumeProblem
from fairlead.api.objects import Obj
from fairlead.node.start_requirements import never_pulled

_FLAGS: Final = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
#: Of the kernel: a page, with the zero at its end.
_LONGEST_OPTIONS: Final = 4095


class ImageVolumes(msgspec.Struct, frozen=True):
    pulls: Pulls
    secrets: Callable[[], Awaitable[Sequence[PullSecret]]]

    async def set_up(self, source: Obj, folder: Path) -> None:
        """Mount it there, once; VolumeProblem if it cannot be had."""
        target, empty = files_of(folder), folder / "empty"
        if await asyncio.to_thread(_is_mounted, target):
            return
        image = await self._image(source["reference"], source.get("pullPolicy") or "IfNotPresent")
        await asyncio.to_thread(_mount, image.layers, target, empty)

    async def _image(self, reference: str, policy: str) -> Image:
        try:
            found = self.pulls.images.find(reference) if policy != "Always" else None
            if found is not None and self.pulls.is_open(reference, found):
                return found
            secrets = await self.secrets()
            if found is not None and await self.pulls.is_open_to(reference, found, secrets):
                return found
            if policy == "Never":
                raise VolumeProblem(never_pulled(reference))
            return (await self.pulls.pull(reference, secrets)).image
        except (InvalidName, PullFailure) as failure:
            raise VolumeProblem(str(failure)) from None


def files_of(folder: Path) -> Path:
    """What containers see."""
    return folder / "files"


def _is_mounted(target: Path) -> bool:
    return target in linux.mount_points(target)


def _mount(layers: Sequence[Path], target: Path, empty: Path) -> None:
    """The kernel wants two layers at least, where none is written to."""
    for path in (target, empty):
        path.mkdir(parents=True, exist_ok=True)
    options = "lowerdir=" + ":".join(str(layer).replace(":", "\\:") for layer in (*reversed(layers), empty))
    if len(options) > _LONGEST_OPTIONS:
        raise VolumeProblem(f"an image of {len(layers)} layers cannot be mounted as a volume")
    linux.mount("overlay", target, "overlay", _FLAGS, options)
