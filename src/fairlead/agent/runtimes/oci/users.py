"""Who a container runs as: a user of its image, by name or number, with the groups that the image gives it.

The files are read out of the image's layers without following a symlink, which could lead to the machine's own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.agent.runtimes.base import RuntimeFailure

#: More than any passwd file has; an image may come from anybody.
_LONGEST_FILE: Final = 1 << 20
#: Ids have 32 bits.
_LONGEST_ID: Final = 10


class ImageUser(NamedTuple):
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


def image_user(layers: Sequence[Path], user: str) -> ImageUser:
    """The user that an image or a pod names as USER[:GROUP]; RuntimeFailure if the image does not know it."""
    name, _, group = user.partition(":")
    name = name or "0"
    entry = next((row for row in _rows(layers, "etc/passwd") if name in (row[0], row[2])), None)
    if entry is None and not _is_id(name):
        raise RuntimeFailure(f"unable to find user {name}: no matching entries in passwd file")
    uid = int(name) if entry is None else int(entry[2])
    gid = int(entry[3]) if entry is not None else 0
    if group:
        gid = _group(layers, group)
    login = entry[0] if entry is not None else ""
    groups = [int(row[2]) for row in _rows(layers, "etc/group") if login and login in row[3].split(",")]
    home = entry[5] if entry is not None and entry[5] else "/"
    return ImageUser(uid, gid, tuple(groups), home)


def _group(layers: Sequence[Path], group: str) -> int:
    if _is_id(group):
        return int(group)
    found = next((int(row[2]) for row in _rows(layers, "etc/group") if row[0] == group), None)
    if found is None:
        raise RuntimeFailure(f"unable to find group {group}: no matching entries in group file")
    return found


def _rows(layers: Sequence[Path], file: str) -> Iterator[list[str]]:
    """The entries of such a file; those that are none are left out."""
    least = {"etc/passwd": 7, "etc/group": 4}[file]
    for line in _read(layers, file).splitlines():
        row = line.split(":")
        if len(row) >= least and _is_id(row[2]) and (least == 4 or _is_id(row[3])):
            yield row


def _is_id(text: str) -> bool:
    return text.isdecimal() and len(text) <= _LONGEST_ID


def _read(layers: Sequence[Path], file: str) -> str:
    """The topmost one; empty if no layer has it."""
    folder, name = file.split("/")
    for layer in reversed(layers):
        try:
            below = os.open(layer / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=below)
        except FileNotFoundError:
            continue
        except OSError:  # a symlink, or the mark of a file that this layer removes
            return ""
        finally:
            os.close(below)
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return ""
            return opened.read(_LONGEST_FILE).decode(errors="replace")
    return ""
