"""Notices at once that a container has ended, or what keeps it: the kernel says when that process is gone.

A runtime would tell it too, if it is new enough (containerd 1.6 has no events); and between two looks at all containers
a restart would take seconds.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


class FirstProcesses:
    """`ended` is called with the id under which a process is watched that has gone."""

    def __init__(self, ended: Callable[[str], None]) -> None:
        self._ended = ended
        self._watched: dict[str, int] = {}  # by id: a descriptor of its process

    def watch(self, id_: str, pid: int) -> None:
        """Nothing happens where it is watched already, or where there is no such process: others look at that."""
        if id_ in self._watched or pid <= 0:
            return
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            self._ended(id_)
            return
        self._watched[id_] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._gone, id_)

    def forget(self, id_: str) -> None:
        if (descriptor := self._watched.pop(id_, None)) is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        for id_ in list(self._watched):
            self.forget(id_)

    def _gone(self, id_: str) -> None:
        self.forget(id_)
        self._ended(id_)
