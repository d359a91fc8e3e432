"""Which cgroup hierarchies the machine has: one for all (v2), one for each controller (v1), or v1 beside an empty v2.

What is mounted decides, not where: some machines mount cpu and cpuacct together, others apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent import linux

#: Without these the limits of pods mean nothing.
NEEDED: Final = ("cpu", "memory", "pids")
_V1_NAMES: Final = frozenset(
    ("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "pids", "rdma", "misc")
)


class NoCgroups(Exception):
    """The machine has no cgroups that a node could use; the text says what is missing."""


class Hierarchies(msgspec.Struct, frozen=True):
    """Where each controller is; on version 2 all in one place."""

    version: int
    controllers: Mapping[str, Path]
    #: v1 hierarchies without a controller that runtimes use to name things: systemd's.
    named: tuple[Path, ...] = ()
    #: A cgroup v2 without our controllers beside v1.
    unified: Path | None = None

    @property
    def roots(self) -> list[Path]:
        """Every hierarchy in which a pod has a cgroup."""
        return list(dict.fromkeys([*self.controllers.values(), *self.named]))

    @property
    def all_roots(self) -> list[Path]:
        """With those in which runtimes make cgroups besides: runc does so in an empty v2 beside v1."""
        return self.roots if self.unified is None else [*self.roots, self.unified]

    def root_of(self, file: str) -> Path | None:
        """The hierarchy in which a file such as `memory.max` is; None if its controller is missing."""
        if self.version == 2:
            return next(iter(self.controllers.values()))
        return self.controllers.get(file.partition(".")[0])


def hierarchies(mountinfo: Iterable[str] | None = None) -> Hierarchies:
    """Those of this machine; NoCgroups if they are of no use."""
    lines = linux.mountinfo() if mountinfo is None else mountinfo
    v1: dict[str, Path] = {}
    named: list[Path] = []
    unified: Path | None = None
    for line in lines:
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        point = Path(linux.unescaped(before.split(" ")[4]))
        if kind == "cgroup2" and unified is None:
            unified = point
        elif kind == "cgroup":
            names = set(options.split()[-1].split(","))
            v1 |= dict.fromkeys(names & _V1_NAMES, point)
            if any(name.startswith("name=") for name in names):
                named.append(point)
    if not v1 and unified is not None:
        there = (unified / "cgroup.controllers").read_text().split()
        return _checked(Hierarchies(2, dict.fromkeys(there, unified)))
    return _checked(Hierarchies(1, v1, tuple(named), unified))


def own_cgroup(version: int, lines: Iterable[str] | None = None) -> str:
    """That of this process; "" if it has several: on version 1 cpu and memory may differ, and none has both."""
    text = Path("/proc/self/cgroup").read_text().splitlines() if lines is None else lines
    paths = {names: path for _, names, path in (line.split(":", 2) for line in text)}
    if version == 2:
        return paths.get("", "")
    of = {controller: path for names, path in paths.items() for controller in names.split(",")}
    return of.get("memory", "") if of.get("memory") == of.get("cpu") == of.get("cpuacct") else ""


def _checked(found: Hierarchies) -> Hierarchies:
    if missing := [name for name in NEEDED if name not in found.controllers]:
        raise NoCgroups(f"this machine has no cgroup controller {' and no '.join(missing)}")
    return found
