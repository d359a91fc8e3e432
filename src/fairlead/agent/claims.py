"""What this agent has on the machine besides its folder, written down, so that nothing else is ever taken for it.

One agent at a time has a folder (a lock says so), and only cgroups that it has made itself are its own.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.cgroups.machine import Cgroups

LOCK: Final = "agent.lock"
_CLAIMS: Final = "cgroups.json"


class InUse(Exception):
    """Somebody else has what we need; the text says who, or what to do."""


@contextmanager
def held(root: Path) -> Iterator[None]:
    """Nobody else works in the folder while the block runs; InUse if somebody does.

    Where nothing else is left the lock goes too, and a folder that was not there before.
    """
    was_there, descriptor = root.exists(), _locked(root)
    try:
        yield
    finally:
        with suppress(OSError):
            if [path.name for path in root.iterdir()] == [LOCK]:
                (root / LOCK).unlink()
                if not was_there:
                    root.rmdir()
        os.close(descriptor)


def _locked(root: Path) -> int:
    """Of a file that is still there: whoever had it before may have removed it."""
    while True:
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue
        except FileExistsError as error:
            if error.filename == str(root) and not _is_in_the_way(root):
                continue
            raise
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), (root / LOCK).stat()):
                    return descriptor
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                raise InUse(f"a node agent runs with {root} already; stop it, or choose another folder") from None
            raise
        os.close(descriptor)


def _is_in_the_way(root: Path) -> bool:
    """Whether what is there is no folder; a folder may have gone while it was made."""
    try:
        return not stat.S_ISDIR(root.lstat().st_mode)
    except FileNotFoundError:
        return False


def claim(root: Path, cgroups: Cgroups, paths: Sequence[str]) -> None:
    """These cgroups are ours from now on; InUse for one that is there and not ours."""
    own = claimed(root)
    for path in paths:
        if path not in own and cgroups.exists(path):
            raise InUse(
                f"the cgroup {path} is there and not of {root}: if a kubelet or another agent runs on this machine, "
                "choose another cgroupRoot in the configuration; if it is a remnant, remove it"
            )
    (root / _CLAIMS).write_bytes(msgspec.json.encode(sorted({*own, *paths})))


def claimed(root: Path) -> Sequence[str]:
    try:
        return msgspec.json.decode((root / _CLAIMS).read_bytes(), type=list[str])
    except FileNotFoundError:
        return []
