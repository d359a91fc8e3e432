"""Cgroups are made, written, corrected and removed here, whichever version the machine has.

What the machine refuses does not stop a pod: it is said once, and the value that is there stays.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final

from fairlead.agent.cgroups.hierarchies import Hierarchies

#: A new v1 cpuset is empty, and takes no process before it has these of its parent.
_INHERITED: Final = ("cpuset.cpus", "cpuset.mems")

log = logging.getLogger(__name__)


class Cgroups:
    """Paths are below the root of each hierarchy: `/kubepods/burstable/podUID`."""

    def __init__(self, hierarchies: Hierarchies) -> None:
        self.hierarchies = hierarchies
        self._refused: set[tuple[str, str]] = set()  # what was said: file and error

    def ensure(self, path: str, files: Mapping[str, str]) -> None:
        """Make the cgroup with its parents where it is missing, and give its files these values."""
        for root in self.hierarchies.roots:
            self._make(root, path)
        self.write(path, files)

    def write(self, path: str, files: Mapping[str, str]) -> None:
        """Write what is not so already."""
        for file, problem in self._refusals(path, files).items():
            self._say(file, problem)

    def change(self, path: str, files: Mapping[str, str]) -> Mapping[str, str]:
        """The same for one who has to know what is refused, and why.

        A second try is made: a limit may be bound to another one (memory to that with swap), which has changed then.
        """
        refused = self._refusals(path, files)
        return self._refusals(path, {file: files[file] for file in refused})

    def _refusals(self, path: str, files: Mapping[str, str]) -> dict[str, str]:
        refused = {}
        for file, value in files.items():
            root = self.hierarchies.root_of(file)
            if root is None and value != "0":  # of what is not there, nothing is what everybody gets
                refused[file] = f"there is no cgroup controller {file.partition('.')[0]}"
            if root is None:
                continue
            target = _below(root, path) / file
            try:
                if not _is_so(target.read_text(), value):
                    target.write_text(value)
            except OSError as error:
                refused[file] = error.strerror or str(error)
        return refused

    def processes(self, path: str) -> set[int]:
        """All processes in the cgroup and below that we can see: the others are 0, which is no process to kill."""
        found: set[int] = set()
        for root in self.hierarchies.all_roots:
            for folder in _tree(_below(root, path)):
                with suppress(OSError):
                    found |= {int(line) for line in (folder / "cgroup.procs").read_text().split()}
        return found - {0}

    def members(self, path: str) -> set[int]:
        """The processes in the cgroup itself that we can see: on version 1 of the hierarchy that a kubelet looks at."""
        of = self.hierarchies.controllers
        if (root := of.get("devices", of.get("memory"))) is None:
            return set()
        return {int(line) for line in (_below(root, path) / "cgroup.procs").read_text().split()} - {0}

    def move(self, pid: int, path: str) -> str:
        """Put a process there, in every hierarchy; what the kernel says against it. One that is gone is no problem."""
        for root in self.hierarchies.roots:
            try:
                (_below(root, path) / "cgroup.procs").write_text(str(pid))
            except ProcessLookupError:
                return ""
            except OSError as error:
                return f"{error.filename or root}: {error.strerror}"
        return ""

    def kill(self, path: str) -> bool:
        """Send SIGKILL to whatever is in there; whether there was anything."""
        found = self.processes(path)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(found)

    def remove(self, path: str) -> bool:
        """Remove the cgroup with all below it; whether it is gone (processes keep it)."""
        is_gone = True
        for root in self.hierarchies.all_roots:
            for folder in _tree(_below(root, path)):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    continue
                except OSError:
                    is_gone = False
        return is_gone

    def exists(self, path: str) -> bool:
        return any(_below(root, path).is_dir() for root in self.hierarchies.all_roots)

    def children(self, path: str) -> set[str]:
        """The names of the cgroups directly below."""
        found: set[str] = set()
        for root in self.hierarchies.all_roots:
            with suppress(FileNotFoundError), os.scandir(_below(root, path)) as entries:  # it knows what is a folder
                found |= {entry.name for entry in entries if entry.is_dir()}
        return found

    def read(self, path: str, file: str) -> str | None:
        """None where there is no such file."""
        root = self.hierarchies.root_of(file)
        if root is None:
            return None
        try:  # hundreds of pods are read at a time, and a Path costs more than the kernel's answer
            with FileIO(f"{root}/{path.strip('/')}/{file}") as opened:
                return opened.readall().decode()
        except OSError:
            return None

    def _make(self, root: Path, path: str) -> None:
        folder = root
        for part in path.strip("/").split("/"):
            if self.hierarchies.version == 2:
                self._delegate(folder)
            folder /= part
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
            if root == self.hierarchies.controllers.get("cpuset") and self.hierarchies.version == 1:
                for file in _INHERITED:
                    if not (folder / file).read_text().strip():  # new, or somebody made it with mkdir alone
                        (folder / file).write_text((folder.parent / file).read_text())

    def _delegate(self, folder: Path) -> None:
        """Have our controllers in the children of a v2 cgroup, too."""
        enabled = set((folder / "cgroup.subtree_control").read_text().split())
        for name in self.hierarchies.controllers:
            if name not in enabled:
                try:
                    (folder / "cgroup.subtree_control").write_text(f"+{name}")
                except OSError as error:
                    self._say(f"+{name}", error.strerror or str(error))

    def _say(self, file: str, error: str) -> None:
        if (file, error) not in self._refused:
            self._refused.add((file, error))
            log.warning("cgroup file %s is left as it is: %s", file, error)


def _below(root: Path, path: str) -> Path:
    return root / path.strip("/")


def _tree(folder: Path) -> Iterator[Path]:
    """The children before their parents."""
    if not folder.is_dir():
        return
    with suppress(FileNotFoundError):
        for entry in folder.iterdir():
            if entry.is_dir():
                yield from _tree(entry)
    yield folder


def _is_so(there: str, wanted: str) -> bool:
    return there.strip() == wanted
