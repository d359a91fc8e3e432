"""Paths of the machine in a pod: what they have to be before they are mounted (pkg/volume/hostpath)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from fairlead.agent.volumes.problems import VolumeProblem
from fairlead.api.objects import Obj

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
    if not kind:
        if not path.exists():  # as container runtimes do for what nobody has looked at
            path.mkdir(parents=True)
        return path
    if kind == "DirectoryOrCreate" and not path.exists():
        path.mkdir(mode=0o755, parents=True)
    if kind == "FileOrCreate" and not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    is_such, name = _CHECKS[kind]
    if not path.exists() or not is_such(path.stat().st_mode):
        raise VolumeProblem(f"hostPath type check failed: {path} is not {name}")
    return path
