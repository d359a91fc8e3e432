"""Gives a volume to the group of a pod (`fsGroup`): all that is in it, and what will be.

Other pods may write to the same volume meanwhile. So everything is opened by its name within its folder, without
following symlinks, and what was opened is what is changed. Reference: pkg/volume/volume_linux.go.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.agent.trees import walked

_GROUP_MAY: Final = stat.S_IRGRP | stat.S_IWGRP | stat.S_IRUSR | stat.S_IWUSR
_FOLDERS_TOO: Final = stat.S_IXGRP | stat.S_IXUSR | stat.S_ISGID
_AS_IT_IS: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def give_to_group(folder: Path, gid: int, *, only_on_mismatch: bool = False) -> None:
    """The folder itself comes last: while it is not right, a look at it alone says that the rest may not be."""
    about, wanted = folder.stat(), _GROUP_MAY | _FOLDERS_TOO
    if only_on_mismatch and about.st_gid == gid and about.st_mode & wanted == wanted:
        return
    for descriptor, entry in walked(folder):
        with suppress(FileNotFoundError):  # somebody has removed it
            _give(os.open(entry.name, _AS_IT_IS, dir_fd=descriptor), gid)
    _give(os.open(folder, _AS_IT_IS), gid)


def _give(descriptor: int, gid: int) -> None:
    try:
        mode, path = os.fstat(descriptor).st_mode, Path(f"/proc/self/fd/{descriptor}")
        os.chown(path, -1, gid)  # of a symlink itself, as that is what is open
        if not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) | _GROUP_MAY | (_FOLDERS_TOO if stat.S_ISDIR(mode) else 0))
    finally:
        os.close(descriptor)
