"""How much folders take: layers that containers write to, their logs, their volumes.

A container may fill its volume with millions of files, so folders are walked beside everything else, and the longer it
took the longer it is until the next time. Most are walked once a minute, as by a kubelet; those of a pod with a limit
of local storage before each look of the node, and all of them before somebody goes because of a disk. Files with
several names count once, other file systems and the targets of links do not. Source: pkg/volume/util/fs, cadvisor.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from fairlead.agent.trees import walked
from fairlead.node.eviction.candidates import DiskUsage
from fairlead.runtime.clock import monotonic

#: So many times as long as a walk took nobody walks there again.
_REST: Final = 20.0
_BLOCK_BYTES: Final = 512
#: Beyond so many files with several names, each name counts.
_MOST_LINKED: Final = 100_000


class _Walked(msgspec.Struct, frozen=True):
    usage: DiskUsage
    ended_at: float
    took: float

    def is_due(self, now: float, every: float) -> bool:
        return now >= self.ended_at + max(self.took * _REST, every)


class Folders:
    """What is known of those that were walked."""

    def __init__(self) -> None:
        self._walked: dict[Path, _Walked] = {}

    def usage(self, folder: Path) -> DiskUsage | None:
        """None: it was not walked yet."""
        found = self._walked.get(folder)
        return found.usage if found is not None else None

    def walk(self, folders: Mapping[Path, float]) -> None:
        """Walk those for which it is time, and forget all others. It takes as long as it takes: call it in a thread.

        By folder: every so many seconds, if it does not take long.
        """
        before = self._walked
        self._walked = {folder: before[folder] for folder in folders if folder in before}
        for folder, every in folders.items():
            known, began = before.get(folder), monotonic()
            if known is None or known.is_due(began, every):
                usage, ended = disk_usage(folder), monotonic()
                self._walked[folder] = _Walked(usage, ended, ended - began)


def disk_usage(folder: Path) -> DiskUsage:
    """Of the folder and all that is below it; what goes away meanwhile is not counted."""
    try:
        root = os.lstat(folder)
    except OSError:
        return DiskUsage(0, 0)
    used, inodes = root.st_blocks * _BLOCK_BYTES, 1
    linked: set[int] = set()
    with suppress(OSError):
        for _, entry in walked(folder):
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if found.st_dev != root.st_dev or found.st_ino in linked:
                continue
            used, inodes = used + found.st_blocks * _BLOCK_BYTES, inodes + 1
            if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode) and len(linked) < _MOST_LINKED:
                linked.add(found.st_ino)
    return DiskUsage(used, inodes)
