"""The files of an image as a volume: its layers under an overlay that nobody writes to and nothing is executed from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fairlead.agent import linux
from fairlead.agent.images_seam import Images
from fairlead.agent.runtimes.base import RuntimeFailure
from fairlead.agent.runtimes.overlay import read_only_options

_FLAGS: Final = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
#: Of the kernel: a page, with the zero at its end.
_LONGEST_OPTIONS: Final = 4095


async def mount_image(images: Images, reference: str, folder: Path) -> None:
    """Mount it there, once. RuntimeFailure."""
    target, empty = files_of(folder), folder / "empty"
    if await asyncio.to_thread(_is_mounted, target):
        return
    image = images.find(reference)
    if image is None:  # removed since it was looked for
        raise RuntimeFailure(f'image "{reference}" is not there any more')
    await asyncio.to_thread(_mount, image.layers, target, empty)


def files_of(folder: Path) -> Path:
    """What containers see."""
    return folder / "files"


def _is_mounted(target: Path) -> bool:
    return target in linux.mount_points(target)


def _mount(layers: Sequence[Path], target: Path, empty: Path) -> None:
    """The kernel wants two layers at least, where none is written to."""
    for path in (target, empty):
        path.mkdir(parents=True, exist_ok=True)
    options = read_only_options(str(layer) for layer in (empty, *layers))
    if len(options) > _LONGEST_OPTIONS:
        raise RuntimeFailure(f"an image of {len(layers)} layers cannot be mounted as a volume")
    linux.mount("overlay", target, "overlay", _FLAGS, options)
