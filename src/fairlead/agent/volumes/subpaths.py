"""A part of a volume as a mount of its own. Whoever can write to the volume must not lead it out by a symlink.

The path is resolved, found to be inside, and then opened part by part without following any symlink, so that swapping
one in between leads nowhere; what was opened is what is mounted. Source: pkg/volume/util/subpath/subpath_linux.go.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from fairlead.agent import linux

_FOLDER_MODE: Final = 0o750
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutsideOfVolume(Exception):
    """The path leads out of its volume."""


def mount_subpath(volume: Path, subpath: str, target: Path) -> None:
    """Mount the part at that path; a missing one becomes a folder. A file is mounted over a file."""
    if target in linux.mount_points(target):
        return
    root = Path(os.path.realpath(volume))
    resolved = Path(os.path.realpath(root / subpath))
    if not resolved.is_relative_to(root):
        raise OutsideOfVolume(f"subpath {subpath!r} not within volume path {str(volume)!r}")
    descriptor = _opened(root, resolved.relative_to(root).parts)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            target.mkdir(exist_ok=True)
        else:
            target.touch()
        linux.mount(f"/proc/self/fd/{descriptor}", target, flags=linux.MS_BIND)
        linux.mount("", target, flags=linux.MS_PRIVATE)  # what is unmounted here must stay where it comes from
    finally:
        os.close(descriptor)


def _opened(root: Path, parts: tuple[str, ...]) -> int:
    """A descriptor of what is there; of a missing part and what follows, folders are made."""
    descriptor = os.open(root, _DIRECTORY)
    for part in parts:
        above = descriptor
        try:
            try:
                descriptor = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            except FileNotFoundError:
                os.mkdir(part, _FOLDER_MODE, dir_fd=above)
                descriptor = os.open(part, _DIRECTORY, dir_fd=above)
        finally:
            os.close(above)
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OutsideOfVolume(f"{part!r} has become a symlink")
    return descriptor
