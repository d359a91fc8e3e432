"""Cgroups of a user who has none: the same tree and the same files, with what is measured of processes.

A container's processes are those that come from its keeper. What has a limit of memory is looked at twice a second,
and killed by us as the kernel would have: later than the kernel would, so a limit may be exceeded for a moment. Weights
are the niceness that a container begins with; limits of cpu and of processes mean nothing. CPUs are given to processes,
which may go elsewhere if they want to.
"""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.cgroups.hierarchies import Hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.machine import meminfo
from fairlead.agent.measuring.machine import ROOT
from fairlead.agent.runtimes.oci.layout import Layout
from fairlead.agent.runtimes.oci.records import keeper_of
from fairlead.agent.runtimes.process.process_table import (
    Memory,
    Process,
    children_in,
    descendants,
    memory_of,
    mounts_of,
    process_table,
    rooted,
)
from fairlead.node.cgroups.containers import OOM_GROUP
from fairlead.node.cgroups.tree import CPUSET
from fairlead.node.configuration.cpu_sets import parse_cpu_set
from fairlead.runtime.clock import now

_FILE: Final = "limits.json"
_MEMORY_MAX: Final = "memory.max"
_OOM_KILLS: Final = "oom_kills"
#: How long a look at all processes is good for: a pass over all pods takes no longer.
_LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Container:
    """The processes of one, and what those had used that its keeper has seen the end of."""

    processes: tuple[Process, ...]
    ended_nanoseconds: int

    @property
    def cpu_nanoseconds(self) -> int:
        own = sum(process.own_nanoseconds + process.children_nanoseconds for process in self.processes)
        return own + self.ended_nanoseconds


class _Look(msgspec.Struct):
    at: float = 0.0
    containers: Mapping[str, Container] = msgspec.field(default_factory=dict)  # by id
    #: By path: which of the paths at or below it are those of containers that are there.
    within: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    memory: dict[int, Memory] = msgspec.field(default_factory=dict)


class ProcessGroups(Cgroups):
    """`Cgroups` of version 2; its methods may be called by several threads."""

    def __init__(self, root: Path) -> None:
        super().__init__(Hierarchies(2, {}))
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._layout, self._file = Layout(root), root / _FILE
        self._lock = threading.RLock()
        self._values: dict[str, dict[str, str]] = {}  # by path
        self._look = _Look()
        self._most_cpu: dict[str, int] = {}  # by path: a counter never goes back
        with suppress(FileNotFoundError, ValueError):
            self._values = json.loads(self._file.read_bytes())

    # -- the tree

    def ensure(self, path: str, files: Mapping[str, str]) -> None:
        self.write(path, files)

    def write(self, path: str, files: Mapping[str, str]) -> None:
        with self._lock:
            known = self._values.get(path)
            if known is None or any(known.get(file) != value for file, value in files.items()):
                self._values[path] = {**(known or {}), **files}
                self._keep()

    def change(self, path: str, files: Mapping[str, str]) -> Mapping[str, str]:
        """Nothing is refused: whoever uses more than a new limit is killed for it."""
        self.write(path, files)
        if cpus := parse_cpu_set(files.get(CPUSET, "")).cpus:
            _confine(self.processes(path), cpus)
        return {}

    def remove(self, path: str) -> bool:
        with self._lock:
            gone = [each for each in self._values if _is_within(each, path)]
            for each in gone:
                del self._values[each]
                self._most_cpu.pop(each, None)
            if gone:
                self._look = _Look()
                with suppress(OSError):  # what is removed may be what fills the disk
                    self._keep()
        return True

    def forget(self, id_: str) -> None:
        """A container is gone; what it has used stays its pod's."""
        with self._lock:
            for path in [each for each in self._values if each.endswith(f"/{id_}")]:
                used, above = self._most_cpu.get(path, 0), path.rpartition("/")[0]
                self.remove(path)
                self._most_cpu[above] = self._most_cpu.get(above, 0) + used

    def exists(self, path: str) -> bool:
        with self._lock:
            return path in self._values

    def children(self, path: str) -> set[str]:
        with self._lock:
            below = [each[len(path) + 1 :] for each in self._values if each.startswith(f"{path}/")]
        return {each.partition("/")[0] for each in below}

    # -- the processes

    def processes(self, path: str) -> set[int]:
        with self._lock:
            self._look = _Look()  # it must be as it is now
            return {process.pid for container in self._within(path) for process in container.processes}

    def kill(self, path: str) -> bool:
        """Also what a keeper has left that was killed itself."""
        found = self.processes(path)
        with self._lock:
            ids = {each.rpartition("/")[2] for each in self._values if _is_within(each, path)}
            found.update(rooted(ids - self._look.containers.keys()))
        _kill(found)
        return bool(found)

    def read(self, path: str, file: str) -> str | None:
        with self._lock:
            if path == ROOT:
                return _of_machine(file)
            if (known := self._values.get(path)) is None:
                return None
            return self._measured(path, file, known) or known.get(file)

    def kill_who_exceeds(self) -> Sequence[str]:
        """Kill the containers that use too much memory, or that use most where their pod does; their ids.

        One look serves all of them: what a container loses here is not held against its pod.
        """
        killed = []
        with self._lock:
            self._look = _Look()  # it must be as it is now
            self._looked()
            used = {path: self._anonymous(path) for path in self._container_paths()}
            for path in sorted(self._look.within, key=len, reverse=True):  # a container's own limit before its pod's
                within = self._look.within[path]
                if sum(used[each] for each in within) > _memory_limit(self._values.get(path, {})):
                    victim = max(within, key=lambda each: used[each])
                    used[victim] -= self._kill_for_memory(victim)
                    killed.append(victim.rpartition("/")[2])
            if killed:
                with suppress(OSError):  # a full disk keeps nobody alive
                    self._keep()
        return killed

    def _kill_for_memory(self, path: str) -> int:
        """The whole container, unless it is said that one process is enough: how many bytes that gives."""
        own, processes = self._values[path], self._container(path).processes
        own[_OOM_KILLS] = str(int(own.get(_OOM_KILLS, "0")) + 1)
        if own.get(OOM_GROUP) != "1":
            processes = (max(processes, key=lambda process: self._memory(process.pid).anonymous),)
        _kill(process.pid for process in processes)
        return sum(self._memory(process.pid).anonymous for process in processes)

    def _measured(self, path: str, file: str, known: Mapping[str, str]) -> str | None:
        if file == "memory.events":
            return f"oom_kill {known.get(_OOM_KILLS, 0)}"
        containers = self._within(path)
        processes = [process for container in containers for process in container.processes]
        if file == "cpu.stat":
            return f"usage_usec {self._cpu(path) // 1000}"
        if file == "pids.current":
            return str(len(processes))
        if file not in ("memory.current", "memory.stat"):
            return None
        memory = [self._memory(process.pid) for process in processes]
        anonymous = sum(each.anonymous for each in memory)
        files = max((each.files for each in memory), default=0)  # mostly the same ones
        if file == "memory.current":
            return str(anonymous + files)
        faults, major = sum(p.page_faults for p in processes), sum(p.major_page_faults for p in processes)
        return f"anon {anonymous}\nfile {files}\ninactive_file {files}\npgfault {faults}\npgmajfault {major}"

    def _cpu(self, path: str) -> int:
        for each in self._containers_in(path):
            self._most_cpu[each] = max(self._container(each).cpu_nanoseconds, self._most_cpu.get(each, 0))
        return sum(used for each, used in self._most_cpu.items() if _is_within(each, path))

    def _anonymous(self, path: str) -> int:
        return sum(self._memory(process.pid).anonymous for process in self._container(path).processes)

    def _memory(self, pid: int) -> Memory:
        if (known := self._look.memory.get(pid)) is None:
            known = self._look.memory[pid] = memory_of(pid)
        return known

    def _within(self, path: str) -> list[Container]:
        return [self._container(each) for each in self._containers_in(path)]

    def _containers_in(self, path: str) -> Sequence[str]:
        """Of all that is written down below a path, what has processes of its own."""
        self._looked()
        return self._look.within.get(path, ())

    def _container(self, path: str) -> Container:
        return self._look.containers[path.rpartition("/")[2]]

    def _looked(self) -> None:
        """See what is there, unless that was done a moment ago."""
        if 0.0 <= now() - self._look.at < _LOOK_SECONDS:
            return
        self._look = _Look(now(), self._containers())
        within: dict[str, list[str]] = {}
        for path in self._container_paths():
            for above in _ancestry(path):
                within.setdefault(above, []).append(path)
        self._look.within = within

    def _container_paths(self) -> Sequence[str]:
        return [path for path in self._values if path.rpartition("/")[2] in self._look.containers]

    def _containers(self) -> Mapping[str, Container]:
        """Of those whose keeper is there; without any nobody is looked at."""
        keepers = {}
        with suppress(FileNotFoundError):
            for folder in self._layout.containers.iterdir():
                if pid := keeper_of(self._layout.container(folder.name)):
                    keepers[folder.name] = pid
        if not keepers:
            return {}
        table = process_table()
        children, visitors, found = children_in(table), _by_mounts(table), {}
        for id_, pid in keepers.items():
            if (keeper := table.get(pid)) is not None:
                below = set(descendants(children, pid))
                inside = {each for own in _own_mounts(below) for each in visitors.get(own, ())}
                processes = tuple(table[each] for each in below | inside)
                found[id_] = Container(processes, keeper.children_nanoseconds)
        return found

    def _keep(self) -> None:
        scratch = self._file.with_suffix(".new")
        scratch.write_text(json.dumps(self._values))
        scratch.replace(self._file)


def _by_mounts(table: Iterable[int]) -> Mapping[str, list[int]]:
    """Who sees which mounts, which no two containers share: commands that were sent in come from elsewhere, but see
    those of the container. So does who was left alone in the processes of a pod, and has come to another parent."""
    found: dict[str, list[int]] = {}
    for pid in table:
        found.setdefault(mounts_of(pid), []).append(pid)
    return found


def _own_mounts(pids: Iterable[int]) -> set[str]:
    """Those of a container that are not the machine's."""
    return {mounts_of(pid) for pid in pids} - {"", mounts_of(os.getpid())}


def _memory_limit(values: Mapping[str, str]) -> float:
    """In bytes."""
    limit = values.get(_MEMORY_MAX, "")
    return int(limit) if limit.isdecimal() else math.inf


def _ancestry(path: str) -> Iterator[str]:
    """It, and all that it is within."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _is_within(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/")


def _confine(pids: Iterable[int], cpus: frozenset[int]) -> None:
    """All of their threads; those that begin later are where the one is that begins them."""
    for pid in pids:
        with suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cpus)


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _of_machine(file: str) -> str | None:
    """Of the root of version 2 there is this much."""
    if file == "cpu.stat":
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        user, nice, system, _, _, irq, softirq = map(int, words[1:8])
        return f"usage_usec {(user + nice + system + irq + softirq) * 10**6 // os.sysconf('SC_CLK_TCK')}"
    if file == "memory.stat":
        memory = meminfo()
        names = {"anon": "AnonPages", "file": "Cached", "inactive_file": "Inactive(file)"}
        return "\n".join(f"{name} {memory.get(key, 0)}" for name, key in names.items())
    return None
