"""The devices of this machine, which a privileged container sees in its own /dev."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from fairlead.api.objects import Obj

#: Folders of /dev that a container has itself, and its terminal.
_OWN: Final = frozenset({"pts", "shm", "fd", "mqueue", "console"})


def machine_devices(folder: str = "/dev") -> list[Obj]:
    return list(_below(folder))


def _below(folder: str) -> Iterator[Obj]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name in _OWN:
                continue
            with suppress(OSError):  # it may have gone
                if entry.is_dir(follow_symlinks=False):
                    yield from _below(entry.path)
                elif (kind := _kind(found := entry.stat(follow_symlinks=False))) is not None:
                    yield {
                        "path": entry.path,
                        "type": kind,
                        "major": os.major(found.st_rdev),
                        "minor": os.minor(found.st_rdev),
                        "fileMode": stat.S_IMODE(found.st_mode),
                        "uid": found.st_uid,
                        "gid": found.st_gid,
                    }


def _kind(found: os.stat_result) -> str | None:
    if stat.S_ISBLK(found.st_mode):
        return "b"
    return "c" if stat.S_ISCHR(found.st_mode) else None
