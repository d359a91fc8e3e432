"""A part of this machine that is a machine to the workload: memory and CPUs of a cgroup, a disk in a file.

Whatever happens in there, the rest of the machine keeps what it has. What an earlier run left that was killed is
removed first: the folder and the cgroup are this command's own, and a lock says whether somebody works there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from fairlead.agent import linux
from fairlead.agent.cgroups.hierarchies import hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.cgroups.probes import least_oom_score_adj
from fairlead.agent.claims import LOCK, held
from fairlead.agent.machine import meminfo
from fairlead.agent.measuring.file_systems import file_system
from fairlead.agent.trees import remove_tree
from fairlead.node.oom import EXEMPT
from fairlead.node.stats.measurements import FilesystemMeasurements
from fairlead.verify.workload import Size

#: Where images would be is a file system of its own, which nothing fills.
IMAGES_BYTES: Final = 64 << 30
#: For a second after that nothing in the cgroup lives, it cannot be removed.
_MOST_TRIES: Final = 500
_TRY_SECONDS: Final = 0.02
_MOST_WEIGHT: Final = {1: ("cpu.shares", "262144"), 2: ("cpu.weight", "10000")}


class TooSmall(Exception):
    """This machine cannot spare what the workload wants; the text says what it lacks."""


class Nested(msgspec.Struct, frozen=True):
    """What is there, and what is known of it."""

    folder: Path
    cgroup: str
    cgroups: Cgroups
    size: Size
    disk: FilesystemMeasurements
    least_oom_score_adj: int

    @property
    def root(self) -> Path:
        """Where a node agent works: on the disk of the nested machine."""
        return self.folder / "disk" / "node"

    @property
    def cgroup_version(self) -> int:
        return self.cgroups.hierarchies.version


@contextmanager
def nested(folder: Path, size: Size) -> Iterator[Nested]:
    """The nested machine while the block runs; InUse, NoCgroups, TooSmall, or OSError for what the machine refuses."""
    with held(folder):
        cgroups, cgroup = Cgroups(hierarchies()), cgroup_of(folder)
        _clear(folder, cgroups, cgroup)
        _check(folder, size)
        try:
            _limit(cgroups, cgroup, size)
            disk = _disk(folder, size)
            yield Nested(folder, cgroup, cgroups, size, disk, max(least_oom_score_adj(), EXEMPT))
        finally:
            _clear(folder, cgroups, cgroup)


def cgroup_of(folder: Path) -> str:
    """Whoever works in another folder has another."""
    return f"/fairlead-verify-{crc32(os.fsencode(folder)):08x}"


def _check(folder: Path, size: Size) -> None:
    """Of memory at most half of what is free, and no more of the disk: others work here."""
    spare = {
        "memory": (size.memory_bytes, meminfo()["MemAvailable"] // 2),
        "disk": (size.disk_bytes, shutil.disk_usage(folder).free // 2),
        "cpus": (size.cpus, len(os.sched_getaffinity(0))),
    }
    for what, (wanted, there) in spare.items():
        if wanted > there:
            raise TooSmall(f"the workload wants {wanted} of {what}, and this machine can spare {there}")


def _limit(cgroups: Cgroups, cgroup: str, size: Size) -> None:
    version = cgroups.hierarchies.version
    memory = "memory.max" if version == 2 else "memory.limit_in_bytes"
    files = {memory: str(size.memory_bytes)}
    allowed = sorted(os.sched_getaffinity(0))
    if size.cpus < len(allowed):  # the agent and the API server keep one, so nobody starves
        files["cpuset.cpus"] = ",".join(map(str, allowed[-size.cpus :]))
        files |= dict([_MOST_WEIGHT[version]])
    cgroups.ensure(cgroup, files)


def _disk(folder: Path, size: Size) -> FilesystemMeasurements:
    """Its own size is what counts, so it has no journal and keeps nothing back for root."""
    file, point = folder / "disk.img", folder / "disk"
    with file.open("wb") as opened:
        opened.truncate(size.disk_bytes)
    point.mkdir(exist_ok=True)
    _run("mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=0", str(file))
    _run("mount", "-o", "loop,noatime", str(file), str(point))
    images = point / "node" / "images"
    images.mkdir(parents=True, mode=0o700)
    linux.mount("tmpfs", images, "tmpfs", 0, f"size={IMAGES_BYTES}")
    return file_system(point)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(0, f"{command[0]} failed: {done.stderr.strip()}")


def _clear(folder: Path, cgroups: Cgroups, cgroup: str) -> None:
    """End and remove everything, whether it was whole or not."""
    for _ in range(_MOST_TRIES):
        if not cgroups.exists(cgroup):
            break
        cgroups.kill(cgroup)
        if cgroups.remove(cgroup):
            break
        time.sleep(_TRY_SECONDS)
    else:
        raise OSError(0, f"processes in the cgroup {cgroup} do not end")
    linux.unmount_below(folder)
    for entry in folder.iterdir():
        if entry.name == LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            remove_tree(entry)
        else:
            entry.unlink()
