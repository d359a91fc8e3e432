"""The users of a pod that has its own (`hostUsers: false`): a namespace of them, and files that are theirs there.

Nothing on disk changes its owner: layers and volumes are mounted so that in the pod their owners are the same numbers
(an idmapped mount), while the process has other ones on the machine. Only what a container writes to its root file
system lies on disk with the numbers of the machine.

A container finds its root where everybody may go, in the mounts of its keeper alone: the way to our folder is closed
to its users.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from fairlead.agent import linux
from fairlead.agent.runtimes.base import ContainerSpec, IdRange, RuntimeFailure
from fairlead.agent.trees import remove_tree

#: Folders that machines have (FHS), and in which nothing lies that keepers need.
_ROOTS: Final = (Path("/mnt"), Path("/media"), Path("/srv"))
_NAME: Final = "user"
#: Which `fairlead node reset` removes.
_PROBE: Final = "probe"
_START_SECONDS: Final = 30.0
#: Arguments: files, each with what is written to it.
_WRITE: Final = """
while [ $# -gt 0 ]; do printf %s "$2" > "$1" || { echo "$1 cannot be $2" >&2; exit 1; }; shift 2; done
"""
_PROBED: Final = IdRange(1 << 16, 1 << 16)


def root_of(folder: Path) -> Path:
    """Where the root of a container is mounted whose bundle lies in the folder, and which that does not hide.

    FileNotFoundError if there is no such place.
    """
    for root in _ROOTS:
        if root.is_dir() and not folder.resolve().is_relative_to(root.resolve()):
            return root
    raise FileNotFoundError(f"none of {', '.join(map(str, _ROOTS))} is there to mount the root of a container")


def pin_with_users(pins: Mapping[str, Path], users: IdRange) -> None:
    """Make the namespaces of a pod as those of its users, who are pinned as `user`; OSError if that cannot be.

    A program of its own does it: of a process with several threads the kernel takes none out of its users.
    """
    others = [f"--{name}" for name in pins if name != _NAME]
    command = ["unshare", "--user", *others, "sh", "-c", "echo; exec cat"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as made:
        assert made.stdin is not None and made.stdout is not None and made.stderr is not None
        try:
            if not select.select([made.stdout], [], [], _START_SECONDS)[0] or not made.stdout.readline():
                made.kill()
                raise OSError(made.stderr.read().decode(errors="replace").strip()[-500:] or "no answer")
            for kind in ("uid_map", "gid_map"):
                Path(f"/proc/{made.pid}/{kind}").write_text(f"0 {users.first} {users.length}")
            for name, pin in pins.items():
                pin.touch()
                linux.mount(f"/proc/{made.pid}/ns/{name}", pin, flags=linux.MS_BIND)
        finally:
            made.kill()


def set_sysctls(pins: Mapping[str, Path], sysctls: Mapping[str, str]) -> None:
    """Values of files below /proc/sys, of the pod's network and IPC; OSError if that cannot be.

    As root of its users, for there are ids among the values, and since Linux 6.11 those of IPC are not root's of the
    machine; before that they are that one's alone.
    """
    for kind in ("net", "ipc"):
        files = {file: value for file, value in sysctls.items() if file.startswith("net/") == (kind == "net")}
        words = [word for file, value in files.items() for word in (f"/proc/sys/{file}", value)]
        if words and (problem := _written(pins, (_NAME, kind), words)) and _written(pins, (kind,), words):
            raise OSError(problem)


def _written(pins: Mapping[str, Path], namespaces: Sequence[str], words: Sequence[str]) -> str:
    """By a program in them, for the same reason as above: what went wrong."""
    entered = [f"--{name}={pins[name]}" for name in namespaces]
    command = ["nsenter", *entered, "sh", "-c", _WRITE, "sh", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, cwd="/")
    return "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip()[-500:] or "no answer"


def with_files(spec: ContainerSpec, namespace: Path, folder: Path) -> ContainerSpec:
    """The container with its layers and volumes as its users see them, in a folder that is needed until it is made.

    RuntimeFailure names what the kernel does not map.
    """
    forget(folder)
    folder.mkdir(parents=True)
    linux.mount(str(folder), folder, flags=linux.MS_BIND)
    linux.mount("", folder, flags=linux.MS_PRIVATE)  # every other keeper would get a copy of each mount in there
    users = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sources = dict.fromkeys([*spec.layers, *(mount.source for mount in spec.mounts)])
        targets = {source: _mounted(source, folder / str(index), users) for index, source in enumerate(sources)}
    finally:
        os.close(users)
    mounts = [replace(mount, source=targets[mount.source]) for mount in spec.mounts]
    return replace(spec, layers=[targets[layer] for layer in spec.layers], mounts=mounts)


def forget(folder: Path) -> None:
    """Whoever has copied the mounts keeps them."""
    linux.unmount_below(folder)
    remove_tree(folder)


def is_possible(folder: Path) -> bool:
    """Whether this machine has such users, and maps owners of files on the file system of that folder."""
    probe = folder / _PROBE
    forget(probe)
    source = probe / "files"
    source.mkdir(parents=True)
    pin, target = probe / _NAME, probe / "mapped"
    try:
        root_of(folder)
        pin_with_users({_NAME: pin}, _PROBED)
        users = os.open(pin, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _mounted(source, target, users)
        finally:
            os.close(users)
    except (OSError, RuntimeFailure):
        return False
    else:
        return True
    finally:
        forget(probe)


def _mounted(source: Path, target: Path, users: int) -> Path:
    try:
        if source.is_dir():
            target.mkdir()
        else:
            target.touch()
        linux.mount_for_users(source, target, users)
    except OSError as error:
        raise RuntimeFailure(f"the owners of {source} cannot be mapped to users of the pod: {error.strerror}") from None
    return target
