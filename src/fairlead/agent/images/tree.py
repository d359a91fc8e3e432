"""Files below one folder: every name is looked up as a container would, so that no symbolic link and no `..` leads out.

Nobody else writes there meanwhile (the store is locked, and its folders are root's alone), so a looked-up path stays
good.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from fairlead.agent.images.errors import BadImage
from fairlead.agent.trees import remove_tree

_MOST_LINKS: Final = 40


class Tree:
    """A folder and what is below it."""

    def __init__(self, root: Path, depth: int) -> None:
        self._root = str(root)
        self._depth = depth
        self._last: tuple[str, str] | None = None  # most members lie beside the one before

    def locate(self, name: str) -> str:
        """The path of a member, its own symbolic link not followed; its folders need not be there. Raises BadImage."""
        folder, _, base = name.rpartition("/")
        if self._last is None or self._last[0] != folder:
            self._last = folder, self._resolved(folder, name)
        return f"{self._last[1]}/{base}" if base else self._root

    def forget(self) -> None:
        """Something that names lead through was replaced."""
        self._last = None

    def relative(self, path: str) -> str:
        """A located path, below the root."""
        return path[len(self._root) + 1 :]

    def _resolved(self, folder: str, name: str) -> str:
        pending = folder.split("/")[::-1]
        found: list[str] = []
        links = 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":  # only a symbolic link says so
                found = found[:-1]
                continue
            if len(found) >= self._depth:
                raise BadImage(f"{name} in the archive is more than {self._depth} folders deep")
            path = "/".join((self._root, *found, part))
            target = _target(path)
            if target is None:
                found.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise BadImage(f"{name} in the archive leads through more than {_MOST_LINKS} symbolic links")
            if target.startswith("/"):
                found = []
            pending += target.split("/")[::-1]
        return "/".join((self._root, *found))


def clean(name: str) -> str:
    """A member's name below the root, without `.` and doubled slashes; "" is the root itself. Raises BadImage."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadImage(f"{name} in the archive leads out of it")
    return "/".join(parts)


def status_of(path: str) -> os.stat_result | None:
    """Of the file itself; None where there is none."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_folder(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISDIR(status.st_mode)


def remove(path: str) -> None:
    """Remove a file, or a folder with everything in it; nothing if there is none."""
    status = status_of(path)
    if status is None:
        return
    if not is_folder(status):
        Path(path).unlink()
        return
    if os.geteuid():
        Path(path).chmod(0o700)
    remove_tree(Path(path))


def _target(path: str) -> str | None:
    try:
        return str(Path(path).readlink())
    except OSError:  # there is nothing, or no link
        return None
