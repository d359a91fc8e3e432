"""Cgroups of a user who has none: the same tree and the same files, with what is measured of processes.

A container's processes are those that come from its keeper. What has a limit of memory is looked at twice a second,
and killed by us as the kernel would have: later than the kernel would, so a limit may be exceeded for a moment. Weights
are the niceness that a container begins with; limits of cpu and of processes mean nothing.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fairlead.agent.cgroups.hierarchies import Hierarchies
from fairlead.agent.cgroups.machine import Cgroups
from fairlead.agent.machine import meminfo
from fairlead.agent.measuring.machine import ROOT
from fairlead.agent.runtimes.oci.layout import Layout
from fairlead.agent.runtimes.oci.records import keeper_of
from fairlead.agent.runtimes.process.process_table import Memory, Process, descendants, memory_of, process_table
from fairlead.node.cgroups.containers import OOM_GROUP
from fairlead.runtime.clock import now

_FILE: Final = "limits.json"
MEMORY_MAX: Final = "memory.max"
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


@dataclass(slots=True)
class _Look:
    at: float = 0.0
    containers: Mapping[str, Container] = field(default_factory=dict)  # by id
    memory: dict[int, Memory] = field(default_factory=dict)


class ProcessGroups(Cgroups):
    """`Cgroups` of version 2; its methods may be called by several threads."""

    def __init__(self, root: Path) -> None:
        super().__init__(Hierarchies(2, {}))
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._layout, self._file = Layout(root), root / _FILE
        self._lock = threading.RLock()
        self._values: dict[str, dict[str, str]] = {}  # by path
        self._look = _Look()
        self._most_cpu: dict[str, int] = {}  # by id of the container: a counter never goes back
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
        return {}

    def remove(self, path: str) -> bool:
        with self._lock:
            gone = [each for each in self._values if _is_within(each, path)]
            for each in gone:
                del self._values[each]
                self._most_cpu.pop(each.rpartition("/")[2], None)
            if gone:
                self._keep()
        return True

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
        found = self.processes(path)
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
        """Kill the containers that use too much memory, or that use most where their pod does; their ids."""
        killed = []
        with self._lock:
            limits = {path: int(own[MEMORY_MAX]) for path, own in self._values.items() if _has_limit(own)}
            for path in sorted(limits, key=len, reverse=True):  # a container's own limit before its pod's
                used = {each: self._anonymous(each) for each in self._containers_in(path)}
                if sum(used.values()) > limits[path]:
                    victim = max(used, key=lambda each: used[each])
                    self._kill_for_memory(victim)
                    killed.append(victim.rpartition("/")[2])
        return killed

    def _kill_for_memory(self, path: str) -> None:
        """The whole container, unless it is said that one process is enough."""
        own = self._values[path]
        own[_OOM_KILLS] = str(int(own.get(_OOM_KILLS, "0")) + 1)
        self._keep()
        found = self.processes(path)
        if own.get(OOM_GROUP) == "1" or not found:
            _kill(found)
        else:
            _kill([max(found, key=lambda pid: self._memory(pid).anonymous)])

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
        total = 0
        for each in self._containers_in(path):
            id_ = each.rpartition("/")[2]
            found = self._looked().get(id_)
            seen = found.cpu_nanoseconds if found is not None else 0
            self._most_cpu[id_] = max(seen, self._most_cpu.get(id_, 0))
            total += self._most_cpu[id_]
        return total

    def _anonymous(self, path: str) -> int:
        return sum(self._memory(p.pid).anonymous for each in self._within(path) for p in each.processes)

    def _memory(self, pid: int) -> Memory:
        if (known := self._look.memory.get(pid)) is None:
            known = self._look.memory[pid] = memory_of(pid)
        return known

    def _within(self, path: str) -> list[Container]:
        looked = self._looked()
        ids = (each.rpartition("/")[2] for each in self._containers_in(path))
        return [looked[id_] for id_ in ids if id_ in looked]

    def _containers_in(self, path: str) -> list[str]:
        """Of all that is written down below a path, what has processes of its own."""
        looked = self._looked()
        return [each for each in self._values if _is_within(each, path) and each.rpartition("/")[2] in looked]

    def _looked(self) -> Mapping[str, Container]:
        if not 0.0 <= now() - self._look.at < _LOOK_SECONDS:
            self._look = _Look(now(), self._containers())
        return self._look.containers

    def _containers(self) -> Mapping[str, Container]:
        table, found = process_table(), {}
        with suppress(FileNotFoundError):
            for folder in self._layout.containers.iterdir():
                if (keeper := table.get(keeper_of(self._layout.container(folder.name)))) is not None:
                    below = list(descendants(table, keeper.pid))
                    processes = (table[pid] for pid in [*below, *_visitors(table, below)])
                    found[folder.name] = Container(tuple(processes), keeper.children_nanoseconds)
        return found

    def _keep(self) -> None:
        scratch = self._file.with_suffix(".new")
        scratch.write_text(json.dumps(self._values))
        scratch.replace(self._file)


def _visitors(table: Mapping[int, Process], below: Sequence[int]) -> list[int]:
    """Commands that were sent in: they come from somewhere else, but share the container's processes."""
    namespaces = {_namespace(pid) for pid in below} - {"", _namespace(os.getpid())}
    known = set(below)
    return [pid for pid in table if namespaces and pid not in known and _namespace(pid) in namespaces]


def _namespace(pid: int) -> str:
    """Empty for one that is not ours, or has ended."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def _has_limit(values: Mapping[str, str]) -> bool:
    return values.get(MEMORY_MAX, "max").isdecimal()


def _is_within(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/")


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
