"""What this agent has on the machine besides its folder, written down, so that nothing else is ever taken for it.

One agent at a time has a folder (a lock says so), and only cgroups that it has made itself are its own.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.cgroups.machine import Cgroups

_LOCK: Final = "agent.lock"
_CLAIMS: Final = "cgroups.json"


class InUse(Exception):
    """Somebody else has what we need; the text says who, or what to do."""


@contextmanager
def held(root: Path) -> Iterator[None]:
    """Nobody else works in the folder while the block runs; InUse if somebody does."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse(f"a node agent runs with {root} already; stop it, or choose another folder") from None
        yield
    finally:
        os.close(descriptor)


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
