"""The kernel tells when memory falls short, between two looks of a node that come ten seconds apart (S3-92).

On cgroup v1 a cgroup can be told to signal when its usage crosses a number of bytes. What counts for a node is usage
without inactive cache, of which the kernel has no such signal: so the number is worked out anew at each look, from the
cache that is there then, as a kubelet does. On cgroup v2 there is nothing like it, and a kubelet does nothing either.
Source: pkg/kubelet/eviction/memory_threshold_notifier.go (1.36).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from fairlead.agent.cgroups.machine import Cgroups
from fairlead.node.eviction.measured import node_stats
from fairlead.node.eviction.signals import FileSystems, Signal
from fairlead.node.eviction.thresholds import Threshold
from fairlead.node.stats.measurements import MemoryMeasurements, NodeMeasurements

_USAGE = "memory.usage_in_bytes"
_CONTROL = "cgroup.event_control"

log = logging.getLogger(__name__)


class MemoryNotices:
    """`noticed` is set when one of the thresholds is crossed, in whichever direction."""

    def __init__(self, cgroups: Cgroups, watched: Mapping[Signal, str], thresholds: Iterable[Threshold]) -> None:
        """`watched` are cgroups, by the signal that is about their memory."""
        self._cgroups, self._watched = cgroups, watched
        self._thresholds = [threshold for threshold in thresholds if threshold.signal in watched]
        self._set: dict[tuple[str, int], int] = {}  # by cgroup and bytes: what the kernel signals with
        self.noticed = asyncio.Event()

    def set(self, node: NodeMeasurements) -> None:
        """Ask for a signal at the thresholds, as things are now; what was asked for before is taken back."""
        wanted = set(self._wanted(node))
        for gone in self._set.keys() - wanted:
            self._take_back(gone)
        for cgroup, usage in wanted - self._set.keys():
            try:
                self._ask(cgroup, usage)
            except OSError as error:
                log.warning("the kernel does not watch the memory of cgroup %s: %s", cgroup, error)

    def close(self) -> None:
        for each in list(self._set):
            self._take_back(each)

    def _wanted(self, node: NodeMeasurements) -> Iterator[tuple[str, int]]:
        observations = node_stats(node, FileSystems.SHARED).observations(FileSystems.SHARED)
        memory = {Signal.MEMORY: node.memory}
        pods = next((each.memory for each in node.system_containers if each.name == "pods"), None)
        if pods is not None:
            memory[Signal.ALLOCATABLE_MEMORY] = pods
        for threshold in self._thresholds:
            if (observation := observations.get(threshold.signal)) is not None:
                least = threshold.of(observation).units
                usage = observation.capacity - least + _inactive_cache(memory[threshold.signal])
                yield self._watched[threshold.signal], max(usage, 0)

    def _ask(self, cgroup: str, usage: int) -> None:
        root = self._cgroups.hierarchies.controllers["memory"]
        folder = Path(root, cgroup.strip("/"))
        signal = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            with (folder / _USAGE).open("rb") as watched:
                (folder / _CONTROL).write_text(f"{signal} {watched.fileno()} {usage}")
        except OSError:
            os.close(signal)
            raise
        asyncio.get_running_loop().add_reader(signal, self._notice, signal)
        self._set[cgroup, usage] = signal

    def _notice(self, signal: int) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(signal)
        self.noticed.set()

    def _take_back(self, which: tuple[str, int]) -> None:
        signal = self._set.pop(which)
        asyncio.get_running_loop().remove_reader(signal)
        os.close(signal)  # which the kernel takes for the end of it


def _inactive_cache(memory: MemoryMeasurements) -> int:
    return memory.usage - memory.working_set
