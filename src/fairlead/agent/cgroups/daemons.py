"""Who runs beside pods is put into the cgroups that the configuration names for them, and kept there.

`kubeletCgroups` gets this process; `systemCgroups` whoever is directly in the cgroup that is the machine, but for its
first process and those of the kernel. Source: pkg/kubelet/cm/container_manager_linux.go.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.cgroups.hierarchies import own_cgroup
from fairlead.agent.cgroups.machine import Cgroups

#: Whoever is started while the others are moved is moved by the next try.
_TRIES: Final = 11
_FIRST: Final = 1
#: In the agent's folder: the cgroups that were made.
RECORD: Final = "daemons.json"

log = logging.getLogger(__name__)


class DaemonCgroups:
    """`machine` is the cgroup that is the machine, `root` the agent's folder; empty names are of nobody."""

    def __init__(self, cgroups: Cgroups, machine: str, root: Path, kubelet: str, system: str) -> None:
        self._cgroups, self._machine, self._root = cgroups, machine, root
        self._kubelet, self._system = kubelet, system
        self._said = ""

    def ensure(self) -> None:
        """Put everybody there; what is refused is said, and tried again the next time."""
        problem = "; ".join(self._problems())
        if problem != self._said:
            self._said = problem
            if problem:
                log.warning("not all processes are in the cgroups of kubeletCgroups and systemCgroups: %s", problem)

    def _problems(self) -> Iterator[str]:
        if (self._kubelet or self._system) and not self._cgroups.hierarchies.roots:
            yield "without root a node has no cgroups"
            return
        if self._system:
            self._make(self._system)
            yield from self._move_others()
        if self._kubelet:
            self._make(self._kubelet)
            if own_cgroup(self._cgroups.hierarchies.version) != f"/{self._kubelet.strip('/')}":
                yield from _problem(os.getpid(), self._cgroups.move(os.getpid(), self._kubelet))

    def _move_others(self) -> Iterator[str]:
        problems = dict[int, str]()
        for _ in range(_TRIES):
            found = [pid for pid in self._cgroups.members(self._machine) if pid != _FIRST and not _is_of_kernel(pid)]
            problems = {pid: problem for pid in found if (problem := self._cgroups.move(pid, self._system))}
            if problems.keys() == set(found):  # nobody is left, or those that cannot be moved
                break
        for pid, problem in problems.items():
            yield from _problem(pid, problem)

    def _make(self, path: str) -> None:
        parts = path.strip("/").split("/")
        above = ("/" + "/".join(parts[: length + 1]) for length in range(len(parts)))
        if missing := next((each for each in above if not self._cgroups.exists(each)), None):
            (self._root / RECORD).write_bytes(msgspec.json.encode(sorted({*_made(self._root), missing})))
        self._cgroups.ensure(path, {})


def take_back(cgroups: Cgroups, machine: str, root: Path) -> None:
    """Remove the cgroups that were made; who is in them was there before, and goes on in that of the machine."""
    for path in _made(root):
        for pid in cgroups.processes(path):
            cgroups.move(pid, machine)
        cgroups.remove(path)


def _made(root: Path) -> list[str]:
    try:
        return msgspec.json.decode((root / RECORD).read_bytes(), type=list[str])
    except FileNotFoundError:
        return []


def _problem(pid: int, problem: str) -> Iterator[str]:
    if problem:
        yield f"process {pid}: {problem}"


def _is_of_kernel(pid: int) -> bool:
    """Its threads have no program."""
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False
