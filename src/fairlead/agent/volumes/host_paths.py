"""Paths of the machine in a pod: what they have to be before they are mounted (pkg/volume/hostpath)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fairlead.agent.trees import make_folders
from fairlead.agent.volumes.problems import VolumeProblem
from fairlead.api.objects import Obj

_FOLDER_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
#: By type: what is asked of the path's mode, and what it is called when it is something else.
_CHECKS: Final[Mapping[str, tuple[Callable[[int], bool], str]]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


def host_path(source: Obj) -> Path:
    """The path, of the type that is asked for; VolumeProblem if it is something else."""
    path, kind = Path(source["path"]), source.get("type") or ""
    if kind in ("", "DirectoryOrCreate"):  # without a type as container runtimes do, for what nobody has looked at
        _make("mkdir", path, _make_folder)
    if kind == "FileOrCreate":
        _make("open", path, _make_file)
    if not kind:
        return path
    is_such, name = _CHECKS[kind]
    if not _exists(path) or not is_such(path.stat().st_mode):
        raise VolumeProblem(f"hostPath type check failed: {path} is not {name}")
    return path


def _make(call: str, path: Path, make: Callable[[Path], None]) -> None:
    """Unless it is there; VolumeProblem as Go tells of a call that fails."""
    try:
        if not path.exists():
            make(path)
    except OSError as error:
        raise VolumeProblem(f"{call} {path}: {(error.strerror or str(error)).lower()}") from error


def _make_folder(path: Path) -> None:
    """With all that are missing above it, however many."""
    above = next(each for each in path.parents if each.exists())
    make_folders(above.resolve(), path.relative_to(above).parts, _FOLDER_MODE)


def _make_file(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, _FILE_MODE))


def _exists(path: Path) -> bool:
    """What has a name that no path can have is not there."""
    try:
        return path.exists()
    except OSError:
        return False
