"""The processes of this machine, looked at once: who began whom, in which container, and what each has used."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    pid: int
    parent: int
    #: Cpu time in nanoseconds: of itself, and of its children that have ended.
    own_nanoseconds: int
    children_nanoseconds: int
    page_faults: int
    major_page_faults: int


class Memory(NamedTuple):
    """In bytes; what is shared with others counts for each of them, so files are told apart."""

    anonymous: int
    files: int


def process_table() -> Mapping[int, Process]:
    """By number; those that end meanwhile are left out."""
    found = {}
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdecimal():
                with suppress(OSError, ValueError, IndexError), FileIO(f"/proc/{entry.name}/stat") as file:
                    process = _process(int(entry.name), file.readall())
                    found[process.pid] = process
    return found


def children_in(table: Mapping[int, Process]) -> Mapping[int, Sequence[int]]:
    """By number of who began them."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    return children


def descendants(children: Mapping[int, Sequence[int]], ancestor: int) -> Iterator[int]:
    """All that come from it, without itself."""
    pending = [ancestor]
    while pending:
        for child in children.get(pending.pop(), ()):
            yield child
            pending.append(child)


def mounts_of(pid: int) -> str:
    """Which namespace of mounts it is in; empty for a process that is not ours, or has ended."""
    try:
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    except OSError:
        return ""


def rooted(containers: Collection[str]) -> Iterator[int]:
    """All whose root is that of one of these containers, whoever began them and whoever is their parent now."""
    marks, own = [f"/{id_}/upper".encode() for id_ in containers], mounts_of(os.getpid())
    for pid in [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]:
        if mounts_of(pid) not in ("", own) and any(mark in _root_mount(pid) for mark in marks):
            yield pid


def _root_mount(pid: int) -> bytes:
    """What is mounted at its root; nothing, if it has ended."""
    with suppress(OSError), FileIO(f"/proc/{pid}/mountinfo") as file:
        lines = (line for line in file.readall().split(b"\n") if line)
        return next((line for line in lines if line.split(b" ", 5)[4] == b"/"), b"")
    return b""


def memory_of(pid: int) -> Memory:
    """Nothing of one that has ended."""
    resident = shared = 0
    with suppress(OSError, ValueError, IndexError), FileIO(f"/proc/{pid}/statm") as file:
        fields = file.readall().split()
        resident, shared = int(fields[1]), int(fields[2])
    return Memory((resident - shared) * _PAGE, shared * _PAGE)


def _process(pid: int, text: bytes) -> Process:
    """The name of a program may be anything, but nothing after it has a parenthesis."""
    fields = text.rpartition(b")")[2].split()
    minor, major = int(fields[7]), int(fields[9])
    own, children = (sum(map(int, fields[at : at + 2])) * 10**9 // _TICKS for at in (11, 13))
    return Process(pid, int(fields[1]), own, children, minor + major, major)
