"""Which ids of the machine the users of a pod are that has users of its own (`hostUsers: false`).

Each pod has a range that no other has, for as long as there is anything of it: the range stands in the pod's folder,
and goes with that. So a new agent finds what the last one gave. Source: pkg/kubelet/userns/userns_manager.go.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.runtimes.base import IdRange, RuntimeFailure
from fairlead.node.user_ids import IDS_PER_POD

_FILE: Final = "users.json"


class UserRanges:
    """`folders` has one of each pod; `count` is how many pods there may be. Its methods are for threads."""

    def __init__(self, folders: Path, count: int, ids_per_pod: int = IDS_PER_POD) -> None:
        self._folders, self._count, self._length = folders, count, ids_per_pod
        self._lock = threading.Lock()

    def of(self, uid: str) -> IdRange:
        """That of a pod, which is given one if it has none; RuntimeFailure if all are taken, or it cannot be kept."""
        try:
            return self._of(uid)
        except OSError as error:
            raise RuntimeFailure(f"create user namespace: {error}") from error

    def _of(self, uid: str) -> IdRange:
        with self._lock:
            file = self._folders / uid / _FILE
            if (known := _read(file)) is not None:
                return known
            taken = [found for each in self._folders.glob(f"*/{_FILE}") if (found := _read(each)) is not None]
            slots = (IdRange(self._length * number, self._length) for number in range(1, self._count + 1))
            if (free := _first_free(slots, taken)) is None:
                raise RuntimeFailure("create user namespace: could not find an empty slot to allocate a user namespace")
            file.parent.mkdir(parents=True, exist_ok=True)
            scratch = file.with_suffix(".new")
            scratch.write_bytes(msgspec.json.encode(free))
            scratch.replace(file)
            return free


def _first_free(slots: Iterator[IdRange], taken: Iterable[IdRange]) -> IdRange | None:
    """Ranges of an earlier configuration may be of another length: none overlaps with any."""
    ends = sorted(taken)
    at = 0
    for slot in slots:
        while at < len(ends) and ends[at].first + ends[at].length <= slot.first:
            at += 1
        if at == len(ends) or ends[at].first >= slot.first + slot.length:
            return slot
    return None


def _read(file: Path) -> IdRange | None:
    """None for what was never written, or cut off when the machine stopped: then nothing runs that has it."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=IdRange)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, msgspec.DecodeError):
        return None
